// The authority of simulated worlds: certificates of nodes and controllers, and grants of tenants.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "square/authority.h"
#include "square/identity.h"

namespace square::test {

// Files, made once for all worlds of a process, and removed at its end.
class Identities {
 public:
  static const Identities& of_all_worlds();
  ~Identities();
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  // Of the node with this index. It has a grant of every tenant, or of the one alone that calls the last
  // group of a world.
  [[nodiscard]] std::shared_ptr<Identity> node(std::size_t index, bool is_granted) const;
  [[nodiscard]] const std::shared_ptr<Identity>& controller() const { return controller_; }

 private:
  Identities();

  std::filesystem::path root_;
  std::vector<std::pair<std::shared_ptr<Identity>, std::shared_ptr<Identity>>> nodes_;  // granted, and not
  std::shared_ptr<Identity> controller_;
};

inline constexpr std::size_t kMostSites = 6;
inline constexpr const char* kSweeper = "sweeper";  // the tenant of a world's last group

}  // namespace square::test
