#include "world/identities.h"

#include <cstdlib>
#include <ctime>
#include <string>

#include "base/check.h"
#include "node/overlay.h"

namespace square::test {
namespace {

constexpr std::int64_t kDay = 86'400;

void check(const Status& status) { SQUARE_CHECK(status.is_ok(), status.to_string()); }

}  // namespace

const Identities& Identities::of_all_worlds() {
  static const Identities all;
  return all;
}

Identities::Identities() {
  std::string name = (std::filesystem::temp_directory_path() / "square-world-XXXXXX").string();
  SQUARE_CHECK(mkdtemp(name.data()) != nullptr, "no folder for identities");
  root_ = name;
  const Authority authority = Authority::create((root_ / "authority").string(), "square.test").value();
  const auto issue = [&](Role role, const std::string& whose, const std::string& folder, const char* tenant) {
    const std::string target = (root_ / folder).string();
    check(authority.issue(role, whose, target));
    if (tenant != nullptr) {
      Grant grant;
      grant.tenant = tenant;
      grant.expires = std::time(nullptr) + kDay;
      check(authority.write_grant(grant, target));
    }
    return Identity::open(target).value();
  };
  for (std::size_t i = 0; i < kMostSites; ++i) {
    const std::string node = node_name(i);
    nodes_.emplace_back(issue(Role::kNode, node, node, kAnyTenant),
                        issue(Role::kNode, node, node + "-stranger", kSweeper));
  }
  controller_ = issue(Role::kController, "controller", "controller", nullptr);
}

Identities::~Identities() { std::filesystem::remove_all(root_); }

std::shared_ptr<Identity> Identities::node(std::size_t index, bool is_granted) const {
  return is_granted ? nodes_[index].first : nodes_[index].second;
}

}  // namespace square::test
