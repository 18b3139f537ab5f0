#include "store/sqlite_store.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "store/holding_process.h"
#include "store/opened_store.h"
#include "store/sqlite.h"

using namespace square;
using namespace square::store;
using namespace square::test;

namespace {

// A directory that goes with its owner.
class Directory {
 public:
  Directory() {
    std::string pattern = std::filesystem::temp_directory_path() / "square-store-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("a file keeps a store's records and its identity, and counts who takes hold of it") {
  const Directory directory;
  const StoreId id = check_that_it_keeps_all(directory.file("store"));
  CHECK(opened_store(directory.file("other"))->id() != id);
}

TEST_CASE("a store's file is its owner's alone, as what SQLite puts beside it") {
  const Directory directory;
  const auto store = opened_store(directory.file("store"));
  REQUIRE(store->write({{"a", "1"}}).is_ok());
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.file(""))) {
    CAPTURE(entry.path().string());
    const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
    CHECK((entry.status().permissions() & others) == std::filesystem::perms::none);
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("a store in memory is one, too, and no two are the same") {
  const auto store = make_memory_store();
  REQUIRE(store->write({{"a", "1"}, {"b", "2"}}).is_ok());
  REQUIRE(store->write({{"b", std::nullopt}}).is_ok());
  CHECK(records_of(*store) == Records{{"a", "1"}});
  CHECK(store->id() != make_memory_store()->id());
}

TEST_CASE("a second process is refused while the first one lives, and follows at once when that is killed") {
  const Directory directory;
  check_that_one_has_it(directory.file("store"), directory.file("store"));
}

// Over 3 s, for that is how long a process that says nothing keeps its store.
TEST_CASE("who is silent for long loses the store, and is told so") {
  const Directory directory;
  const std::string path = directory.file("store");
  const HoldingProcess stopped(path);
  stopped.stop();
  const auto store = opened_store(path);
  CHECK(store->term() == 2);
  // As one that takes it over does.
  auto file = SqliteFile::open(path, kBusyTime);
  REQUIRE(file.is_ok());
  REQUIRE(file->run("UPDATE lead SET term = 3").is_ok());
  const Status lost = store->write({{"a", "1"}});
  CHECK(lost.code() == StatusCode::kFailedPrecondition);
  CHECK(lost.message().find("taken over") != std::string::npos);
  CHECK(records_of(*store).empty());
}

TEST_CASE("a file that is no store is refused and stays as it was") {
  const Directory directory;
  const std::string text = directory.file("text");
  const std::string words(5000, 'x');
  write_text(text, words);
  CHECK(open_sqlite_store(text).status().code() == StatusCode::kInvalidArgument);
  std::string kept;
  std::getline(std::ifstream(text), kept);
  CHECK(kept == words);

  const std::string other = directory.file("other");
  {
    auto file = SqliteFile::open(other, kBusyTime);
    REQUIRE(file.is_ok());
    REQUIRE(file->run_all("CREATE TABLE mine(a)").is_ok());
  }
  const Status refused = open_sqlite_store(other).status();
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK(refused.message().find("another program") != std::string::npos);

  CHECK(open_sqlite_store(directory.file("none/store")).status().code() == StatusCode::kUnavailable);
  CHECK(open_sqlite_store("").status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a store of another version is refused by name") {
  const Directory directory;
  const std::string path = directory.file("store");
  static_cast<void>(opened_store(path));
  {
    auto file = SqliteFile::open(path, kBusyTime);
    REQUIRE(file.is_ok());
    REQUIRE(file->run("PRAGMA user_version = 7").is_ok());
  }
  const Status refused = open_sqlite_store(path).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("version 7") != std::string::npos);
}

TEST_CASE("the next release takes a store of this one, which does not take it back") {
  const Directory directory;
  const std::string path = directory.file("store");
  REQUIRE(opened_store(path)->write({{"a", "1"}}).is_ok());
  ::setenv("SQUARE_TEST_RELEASE", "next", 1);
  CHECK(records_of(*opened_store(path)) == Records{{"a", "1"}});
  CHECK(records_of(*opened_store(path)) == Records{{"a", "1"}});
  ::unsetenv("SQUARE_TEST_RELEASE");
  const Status refused = open_sqlite_store(path).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("upgrade this controller") != std::string::npos);
}

TEST_CASE("what cannot be written is not written in part, and the store goes on") {
  const Directory directory;
  const auto store = opened_store(directory.file("store"));
  REQUIRE(store->write({{"a", "1"}}).is_ok());
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status failed = store->write({{"a", "2"}, {"b", std::string(1'000'000, 'x')}});
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK_FALSE(failed.is_ok());
  CHECK(failed.code() != StatusCode::kFailedPrecondition);
  CHECK(records_of(*store) == Records{{"a", "1"}});
  REQUIRE(store->write({{"a", "3"}}).is_ok());
  CHECK(records_of(*store) == Records{{"a", "3"}});
}
