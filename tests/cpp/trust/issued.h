// An authority for a test, in a directory that goes with it.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "square/authority.h"

namespace square::testing {

class Issuer {
 public:
  explicit Issuer(const std::string& domain = "square.test") {
    std::string name = (std::filesystem::temp_directory_path() / "square-trust-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
    REQUIRE(Authority::create(folder("authority"), domain).is_ok());
  }
  ~Issuer() { std::filesystem::remove_all(root_); }
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  [[nodiscard]] std::string folder(const std::string& name) const { return (root_ / name).string(); }
  [[nodiscard]] Authority authority() const { return Authority::open(folder("authority")).value(); }
  // Writes a new certificate into the folder `name`.
  void issue(Role role, const std::string& name) const {
    const Status issued = authority().issue(role, name, folder(name));
    REQUIRE_MESSAGE(issued.is_ok(), issued.to_string());
  }
  [[nodiscard]] std::shared_ptr<Identity> identity(Role role, const std::string& name) const {
    issue(role, name);
    return Identity::open(folder(name)).value();
  }
  [[nodiscard]] std::shared_ptr<Identity> node(const std::string& name) const {
    return identity(Role::kNode, name);
  }

 private:
  std::filesystem::path root_;
};

}  // namespace square::testing
