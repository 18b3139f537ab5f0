// Where a gateway's socket is, if nobody names its path.
#include "gateway/local_socket.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>

using namespace square;
using namespace square::gateway;

namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "square-socket-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string own() { return "square-" + std::to_string(geteuid()); }

bool begins(const Result<std::string>& path, const std::string& folder) {
  return path.is_ok() && path->starts_with(folder + "/");
}

}  // namespace

TEST_CASE("A listener whose queue is full does not hold up the search for a path") {
  const Folder folder;
  const Variable runtime("XDG_RUNTIME_DIR", folder / "");
  REQUIRE(own_socket_path("a").is_ok());  // makes the folder
  auto busy = LocalListener::listen(folder / "square/busy.sock", false, 0);
  REQUIRE_MESSAGE(busy.is_ok(), busy.status().to_string());
  const auto waiting = connect_local(busy->path(), std::chrono::milliseconds(50));
  REQUIRE(waiting.is_ok());
  auto found = std::async(std::launch::async, [] { return own_socket_path("b").status(); });
  const bool is_quick = found.wait_for(std::chrono::seconds(3)) == std::future_status::ready;
  CHECK(is_quick);
  if (is_quick)
    CHECK(LocalListener::listen(busy->path(), false, 1).status().code() == StatusCode::kAlreadyExists);
  busy->close();  // a search that waits for it goes on
  CHECK(found.get() == Status::ok());
}

TEST_CASE("A gateway's socket is in the first folder that can hold it") {
  const Folder folder;
  const std::string runtime = folder / "runtime";
  const std::string temporary = folder / "temporary";
  std::filesystem::create_directory(runtime);
  std::filesystem::create_directory(temporary);
  const Variable first("XDG_RUNTIME_DIR", runtime);
  const Variable second("TMPDIR", temporary);
  CHECK(begins(own_socket_path("a"), runtime + "/square"));

  SUBCASE("TMPDIR without a runtime folder") {
    const Variable none("XDG_RUNTIME_DIR", "");
    CHECK(begins(own_socket_path("a"), temporary + "/" + own()));
  }
  SUBCASE("TMPDIR where the runtime folder does not exist") {
    const Variable missing("XDG_RUNTIME_DIR", folder / "missing");
    CHECK(begins(own_socket_path("a"), temporary + "/" + own()));
  }
  SUBCASE("TMPDIR where others may use the runtime folder") {
    REQUIRE(chmod((runtime + "/square").c_str(), 0755) == 0);
    CHECK(begins(own_socket_path("a"), temporary + "/" + own()));
  }
  SUBCASE("TMPDIR where the runtime folder's path leaves no room for a socket's") {
    const std::string deep = folder / std::string(60, 'x');
    std::filesystem::create_directory(deep);
    const Variable far("XDG_RUNTIME_DIR", deep);
    CHECK(begins(own_socket_path("a node of a long name, and longer"), temporary + "/" + own()));
  }
  SUBCASE("/tmp where neither can be used") {
    const Variable relative("XDG_RUNTIME_DIR", "here");
    std::ofstream(folder / "file") << "no folder";
    const Variable file("TMPDIR", folder / "file");
    CHECK(begins(own_socket_path("a"), "/tmp/" + own()));
  }
}
