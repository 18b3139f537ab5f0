// Names of a scenario's parts and the checks on one that was made in code.
#include "square/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/weight.h"
#include "planning/problem/problem.h"
#include "planning/scenario/collective.h"
#include "planning/scenario/policy.h"
#include "planning/scenario/words.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr std::array<std::pair<std::string_view, PathKind>, 3> kPathKinds = {
    {{"shortest", PathKind::kShortest}, {"widest", PathKind::kWidest}, {"all", PathKind::kAll}}};

constexpr std::array kOps = {CollectiveOp::kBroadcast, CollectiveOp::kReduce,        CollectiveOp::kAllReduce,
                             CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
                             CollectiveOp::kGather,    CollectiveOp::kScatter};

Status check_members(const CollectiveSpec& collective, const Topology& topology) {
  if (collective.members.empty()) return invalid_argument("there are no members");
  std::unordered_set<NodeId> seen;
  for (const NodeId member : collective.members) {
    if (member.index() >= topology.node_count()) {
      return invalid_argument(
          fmt::format("member {} is not a node: the topology has {}", member.value(), topology.node_count()));
    }
    if (!seen.insert(member).second) {
      return invalid_argument(quoted("two members are the node", topology.node(member).name));
    }
  }
  if (!has_root(collective.op) || seen.contains(collective.root)) return {};
  if (collective.root.index() >= topology.node_count()) {
    return invalid_argument(fmt::format("root {} is not a node", collective.root.value()));
  }
  return invalid_argument(quoted("the root", topology.node(collective.root).name) +
                          " is not among the members");
}

std::string name_of(const CollectiveSpec& collective) {
  return fmt::format("collective {} ({})", collective.id.value(), to_string(collective.op));
}

}  // namespace

Result<PathChoice> parse_path_choice(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto kind = find_word(kPathKinds, "kind of paths", text.substr(0, colon));
  if (!kind.is_ok()) return kind.status();
  PathChoice choice{*kind, 0};
  if (colon == std::string_view::npos) return choice;
  if (choice.kind == PathKind::kAll) return invalid_argument("\"all\" takes no number of paths");
  const std::string_view digits = text.substr(colon + 1);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, choice.k);
  if (error != std::errc{} || stop != end || choice.k < 1 || choice.k > kMaxPaths) {
    return invalid_argument(quoted("the number of paths is", digits) +
                            fmt::format(": write a whole number from 1 to {}", kMaxPaths));
  }
  return choice;
}

std::string to_string(const PathChoice& choice) {
  const std::string_view kind = word_for(kPathKinds, choice.kind);
  if (choice.kind == PathKind::kAll || choice.k == 0) return std::string(kind);
  return fmt::format("{}:{}", kind, choice.k);
}

Result<CollectiveOp> parse_collective_op(std::string_view text) {
  std::array<std::pair<std::string_view, CollectiveOp>, kOps.size()> words;
  std::ranges::transform(kOps, words.begin(), [](CollectiveOp op) { return std::pair(to_string(op), op); });
  return find_word(words, "operation", text);
}

Status check_scenario(const Scenario& scenario) {
  SQUARE_RETURN_IF_ERROR(check_policy(scenario.policy, scenario.topology));
  std::unordered_set<std::string_view> tenants;
  for (const TenantSpec& tenant : scenario.tenants) {
    if (tenant.name.empty()) return invalid_argument("a tenant needs a name");
    const std::string context = quoted("tenant", tenant.name);
    if (!tenants.insert(tenant.name).second) return invalid_argument(context + ": is there twice");
    SQUARE_RETURN_IF_ERROR(check_weight(tenant.weight).with_context(context));
  }
  std::unordered_set<CollectiveId> ids;
  for (const CollectiveSpec& collective : scenario.collectives) {
    const std::string context = name_of(collective);
    if (!ids.insert(collective.id).second) return invalid_argument(context + ": its id is there twice");
    if (!tenants.contains(collective.tenant)) {
      return invalid_argument(context + ": " + quoted("there is no tenant", collective.tenant));
    }
    SQUARE_RETURN_IF_ERROR(check_weight(collective.weight).with_context(context));
    SQUARE_RETURN_IF_ERROR(check_members(collective, scenario.topology).with_context(context));
    SQUARE_RETURN_IF_ERROR(check_demands(collective, scenario.policy).with_context(context));
  }
  return {};
}

}  // namespace square
