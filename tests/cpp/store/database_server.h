// A PostgreSQL server of a test's own, in a folder of its own, that is reached by a socket there alone.
#pragma once

#include <filesystem>
#include <string>

namespace square::test {

// Debian's. It refuses to run as root, so there it runs as the user that its package has made.
class DatabaseServer {
 public:
  DatabaseServer();
  ~DatabaseServer();
  DatabaseServer(const DatabaseServer&) = delete;
  DatabaseServer& operator=(const DatabaseServer&) = delete;

  [[nodiscard]] std::string address() const;
  void start();
  // At once, as where its machine loses power but for what the kernel has.
  void kill();

 private:
  [[nodiscard]] int run(const std::string& command) const;

  std::filesystem::path folder_;
};

}  // namespace square::test
