#include "planning/scenario/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "planning/policy.h"
#include "planning/scenario/words.h"
#include "square/planner.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr std::array<std::pair<std::string_view, Fairness>, 2> kFairness = {
    {{"collective", Fairness::kCollective}, {"tenant", Fairness::kTenant}}};
constexpr std::array<std::pair<std::string_view, Objective>, 2> kObjectives = {
    {{"fair", Objective::kFair}, {"cost", Objective::kCost}}};

// Keys that only the policy "exact" knows, and what people call them.
constexpr std::array<std::pair<const char*, const char*>, 8> kExactKeys = {
    {{"objective", "objective"},
     {"gap", "gap"},
     {"deadline_seconds", "deadline"},
     {"max_streams", "limit on streams"},
     {"budget_usd_per_hour", "budget"},
     {"headroom", "headroom"},
     {"avoid_nodes", "nodes to avoid"},
     {"avoid_links", "links to avoid"}}};

// Does the policy say something else for the key than the default?
bool is_set(const PolicySpec& policy, std::string_view key) {
  if (key == "objective") return policy.objective != Objective::kFair;
  if (key == "gap") return policy.gap != kDefaultGap;
  if (key == "deadline_seconds") return policy.deadline_seconds.has_value();
  if (key == "max_streams") return policy.max_streams != 0;
  if (key == "budget_usd_per_hour") return policy.budget_usd_per_hour.has_value();
  if (key == "headroom") return policy.headroom != 0;
  if (key == "avoid_nodes") return !policy.avoid_nodes.empty();
  return !policy.avoid_links.empty();
}

Status check_name(std::string_view name) {
  if (name.empty()) return invalid_argument("must not be empty");
  const auto names = policy_names();
  if (std::ranges::find(names, name) != names.end()) return {};
  return invalid_argument(quoted("unknown policy", name) +
                          fmt::format(": choose one of {}", fmt::join(names, ", ")));
}

Status check_gap(double gap) {
  if (gap >= 0 && gap < 1) return {};
  return invalid_argument(fmt::format("must be from 0 to below 1, not {}", gap));
}

Status check_positive(double value) {
  if (std::isfinite(value) && value > 0) return {};
  return invalid_argument(fmt::format("must be above 0 and finite, not {}", value));
}

Status check_not_negative(double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return invalid_argument(fmt::format("must be 0 or above and finite, not {}", value));
}

Status check_objective_of_budget(const PolicySpec& policy) {
  if (!policy.budget_usd_per_hour || policy.objective == Objective::kFair) return {};
  return invalid_argument("is for objective = \"fair\"; with \"cost\" the plan is the cheapest anyway");
}

Status check_avoided(const PolicySpec& policy, const Topology& topology) {
  for (const NodeId node : policy.avoid_nodes) {
    if (node.index() < topology.node_count()) continue;
    return invalid_argument(fmt::format("policy.avoid_nodes: {} is not a node: the topology has {}",
                                        node.value(), topology.node_count()));
  }
  for (const LinkId link : policy.avoid_links) {
    if (link.index() < topology.link_count()) continue;
    return invalid_argument(fmt::format("policy.avoid_links: {} is not a link: the topology has {}",
                                        link.value(), topology.link_count()));
  }
  return {};
}

// Reads one [policy]; the table has known keys only.
class PolicyReader {
 public:
  PolicyReader(const TomlTable& table, const Topology& topology) : table_(table), topology_(topology) {}

  Result<PolicySpec> read() {
    if (table_.has("name")) {
      SQUARE_ASSIGN_OR_RETURN(policy_.name, table_.required_text("name"));
      SQUARE_RETURN_IF_ERROR(table_.at("name", check_name(policy_.name)));
    }
    SQUARE_RETURN_IF_ERROR(read_paths());
    SQUARE_RETURN_IF_ERROR(read_word("fairness", "fairness", kFairness, policy_.fairness));
    for (const auto& [key, part] : kExactKeys) {
      if (!is_exact(policy_) && table_.has(key)) return table_.error(key, only_exact(policy_, part));
    }
    SQUARE_RETURN_IF_ERROR(read_word("objective", "objective", kObjectives, policy_.objective));
    SQUARE_RETURN_IF_ERROR(read_limits());
    SQUARE_RETURN_IF_ERROR(read_avoided());
    return policy_;
  }

 private:
  template <typename Value, std::size_t kSize>
  Status read_word(std::string_view key, std::string_view what,
                   const std::array<std::pair<std::string_view, Value>, kSize>& words, Value& value) {
    SQUARE_ASSIGN_OR_RETURN(const auto word, table_.text(key));
    if (!word) return {};
    const auto known = find_word(words, what, *word);
    if (!known.is_ok()) return table_.at(key, known.status());
    value = *known;
    return {};
  }

  Status read_paths() {
    SQUARE_ASSIGN_OR_RETURN(const auto shots, table_.integer("shots"));
    if (shots && (*shots < 1 || *shots > kMaxShots)) {
      return table_.error("shots", fmt::format("must be from 1 to {}, not {}", kMaxShots, *shots));
    }
    if (shots) policy_.shots = static_cast<int>(*shots);
    SQUARE_ASSIGN_OR_RETURN(const auto paths, table_.text("paths"));
    if (!paths) return {};
    const auto choice = parse_path_choice(*paths);
    if (!choice.is_ok()) return table_.at("paths", choice.status());
    policy_.paths = *choice;
    return {};
  }

  Status read_limits() {
    SQUARE_ASSIGN_OR_RETURN(const auto gap, table_.number("gap"));
    policy_.gap = gap.value_or(kDefaultGap);
    SQUARE_RETURN_IF_ERROR(table_.at("gap", check_gap(policy_.gap)));
    SQUARE_ASSIGN_OR_RETURN(policy_.deadline_seconds, table_.positive("deadline_seconds"));
    SQUARE_ASSIGN_OR_RETURN(const auto streams, table_.integer("max_streams"));
    if (streams && (*streams < 0 || *streams > static_cast<std::int64_t>(kMaxSessionStreams))) {
      return table_.error("max_streams",
                          fmt::format("must be from 0 to {}, not {}", kMaxSessionStreams, *streams));
    }
    policy_.max_streams = static_cast<std::size_t>(streams.value_or(0));
    SQUARE_ASSIGN_OR_RETURN(policy_.budget_usd_per_hour, table_.positive("budget_usd_per_hour"));
    SQUARE_RETURN_IF_ERROR(table_.at("budget_usd_per_hour", check_objective_of_budget(policy_)));
    SQUARE_ASSIGN_OR_RETURN(const auto headroom, table_.not_negative("headroom"));
    policy_.headroom = headroom.value_or(0.0);
    return {};
  }

  Status read_avoided() {
    SQUARE_ASSIGN_OR_RETURN(const auto nodes, table_.texts("avoid_nodes"));
    for (const std::string& name : nodes.value_or(std::vector<std::string>())) {
      SQUARE_ASSIGN_OR_RETURN(const NodeId node, find_node("avoid_nodes", name));
      policy_.avoid_nodes.push_back(node);
    }
    SQUARE_ASSIGN_OR_RETURN(const auto links, table_.text_lists("avoid_links"));
    for (const std::vector<std::string>& ends : links.value_or(std::vector<std::vector<std::string>>())) {
      if (ends.size() != 2) {
        return table_.error("avoid_links",
                            fmt::format("must hold pairs [from, to], not {} names", ends.size()));
      }
      SQUARE_ASSIGN_OR_RETURN(const NodeId from, find_node("avoid_links", ends[0]));
      SQUARE_ASSIGN_OR_RETURN(const NodeId to, find_node("avoid_links", ends[1]));
      const auto link = topology_.find_link(from, to);
      if (!link) {
        return table_.error("avoid_links", quoted("there is no link from", ends[0]) + quoted(" to", ends[1]));
      }
      policy_.avoid_links.push_back(*link);
    }
    return {};
  }

  [[nodiscard]] Result<NodeId> find_node(std::string_view key, std::string_view name) const {
    if (const auto node = topology_.find_node(name)) return *node;
    return table_.error(key, quoted("unknown node", name));
  }

  const TomlTable& table_;
  const Topology& topology_;
  PolicySpec policy_;
};

}  // namespace

bool is_exact(const PolicySpec& policy) { return policy.name == planning::kExactPolicy; }

std::string only_exact(const PolicySpec& policy, std::string_view part) {
  return quoted("the policy", policy.name) +
         fmt::format(" knows no {}: choose \"{}\"", part, planning::kExactPolicy);
}

Result<PolicySpec> read_policy(const TomlTable& root, const Topology& topology) {
  SQUARE_ASSIGN_OR_RETURN(const auto table, root.table("policy"));
  if (!table) return PolicySpec();
  SQUARE_RETURN_IF_ERROR(
      table->allow_only({"name", "shots", "paths", "fairness", "objective", "gap", "deadline_seconds",
                         "max_streams", "budget_usd_per_hour", "headroom", "avoid_nodes", "avoid_links"}));
  return PolicyReader(*table, topology).read();
}

Status check_policy(const PolicySpec& policy, const Topology& topology) {
  SQUARE_RETURN_IF_ERROR(check_name(policy.name).with_context("policy.name"));
  if (policy.shots < 1 || policy.shots > kMaxShots) {
    return invalid_argument(
        fmt::format("policy.shots: must be from 1 to {}, not {}", kMaxShots, policy.shots));
  }
  if (policy.paths.kind != PathKind::kAll && policy.paths.k > kMaxPaths) {
    return invalid_argument(
        fmt::format("policy.paths: must be at most {}, not {}", kMaxPaths, policy.paths.k));
  }
  for (const auto& [key, part] : kExactKeys) {
    if (!is_exact(policy) && is_set(policy, key)) {
      return invalid_argument(fmt::format("policy.{}: {}", key, only_exact(policy, part)));
    }
  }
  SQUARE_RETURN_IF_ERROR(check_gap(policy.gap).with_context("policy.gap"));
  if (policy.deadline_seconds) {
    SQUARE_RETURN_IF_ERROR(check_positive(*policy.deadline_seconds).with_context("policy.deadline_seconds"));
  }
  if (policy.max_streams > kMaxSessionStreams) {
    return invalid_argument(fmt::format("policy.max_streams: must be from 0 to {}, not {}",
                                        kMaxSessionStreams, policy.max_streams));
  }
  if (policy.max_streams > 0 && policy.objective == Objective::kCost) {
    return invalid_argument(
        "policy.max_streams: fewer streams cost rate, and objective = \"cost\" requires it; leave one out");
  }
  if (policy.budget_usd_per_hour) {
    const Status budget = check_positive(*policy.budget_usd_per_hour);
    SQUARE_RETURN_IF_ERROR(budget.with_context("policy.budget_usd_per_hour"));
  }
  SQUARE_RETURN_IF_ERROR(check_objective_of_budget(policy).with_context("policy.budget_usd_per_hour"));
  SQUARE_RETURN_IF_ERROR(check_not_negative(policy.headroom).with_context("policy.headroom"));
  return check_avoided(policy, topology);
}

}  // namespace square
