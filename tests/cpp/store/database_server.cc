#include "store/database_server.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace square::test {
namespace {

constexpr const char* kPrograms = "/usr/lib/postgresql/15/bin";
constexpr const char* kUser = "postgres";

}  // namespace

DatabaseServer::DatabaseServer() {
  std::string pattern = std::filesystem::temp_directory_path() / "square-database-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
  if (::geteuid() == 0) {
    const passwd* const user = ::getpwnam(kUser);
    REQUIRE_MESSAGE(user != nullptr, "PostgreSQL is not installed: packaging/debian-packages.txt");
    REQUIRE(::chown(folder_.c_str(), user->pw_uid, user->pw_gid) == 0);
  }
  REQUIRE(run(fmt::format("{}/initdb -D {}/data -A trust -U {} -E UTF8 --locale=C --no-sync", kPrograms,
                          folder_.string(), kUser)) == 0);
  start();
}

DatabaseServer::~DatabaseServer() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string DatabaseServer::address() const {
  return fmt::format("postgresql:///postgres?host={}&user={}", folder_.string(), kUser);
}

int DatabaseServer::run(const std::string& command) const {
  const std::string as = ::geteuid() == 0 ? fmt::format("runuser -u {} -- ", kUser) : "";
  return std::system(fmt::format("cd {0} && {1}{2} >> {0}/log 2>&1", folder_.string(), as, command).c_str());
}

void DatabaseServer::start() {
  REQUIRE(run(fmt::format("{0}/pg_ctl -D {1}/data -w -t 60 -o \"-k {1} -c listen_addresses=''\" start",
                          kPrograms, folder_.string())) == 0);
}

void DatabaseServer::kill() {
  pid_t process = 0;
  std::ifstream(folder_ / "data" / "postmaster.pid") >> process;
  if (process <= 0 || ::kill(process, SIGKILL) != 0) return;
  // Its children end with it; before that no other one begins on the folder.
  while (::kill(process, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::filesystem::remove(folder_ / "data" / "postmaster.pid");
}

}  // namespace square::test
