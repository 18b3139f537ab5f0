#include "planning/scenario/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "planning/scenario/policy.h"
#include "planning/scenario/words.h"
#include "topology/overlay_tables.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr std::array<std::pair<std::string_view, AllReduceAlgorithm>, 2> kAlgorithms = {
    {{"planned", AllReduceAlgorithm::kPlanned}, {"ring", AllReduceAlgorithm::kRing}}};

constexpr std::string_view kRequiredRate = "required rate";
constexpr std::string_view kLatencyBound = "bound on latency";
constexpr std::string_view kRedundancy = "redundancy";

// Of one that asks for some.
Status check_redundancy(const CollectiveSpec& collective, const PolicySpec& policy) {
  if (collective.redundancy == 0) return {};
  if (!meets_demands(policy)) return meets_no_demands(policy, kRedundancy);
  if (collective.op != CollectiveOp::kBroadcast) {
    return invalid_argument(
        fmt::format("redundancy is for broadcast, not for {}: leave it out", to_string(collective.op)));
  }
  if (!collective.max_latency.empty())
    return invalid_argument("redundancy does not go with bounds on latency: leave one of them out");
  if (policy.max_streams > 0)
    return invalid_argument("redundancy does not go with max_streams: leave one of them out");
  if (collective.redundancy > kMaxRedundancy) {
    return invalid_argument(
        fmt::format("redundancy must be 0 to {}, not {}", kMaxRedundancy, collective.redundancy));
  }
  return {};
}

class CollectiveReader {
 public:
  CollectiveReader(const TomlTable& table, const Topology& topology, const PolicySpec& policy)
      : table_(table), topology_(topology), policy_(policy) {}

  Result<CollectiveSpec> read() {
    SQUARE_ASSIGN_OR_RETURN(spec_.tenant, table_.required_text("tenant"));
    SQUARE_ASSIGN_OR_RETURN(const auto group, table_.text("group"));
    spec_.group = group.value_or("");
    SQUARE_ASSIGN_OR_RETURN(const auto weight, table_.positive("weight"));
    spec_.weight = weight.value_or(1.0);
    SQUARE_ASSIGN_OR_RETURN(const std::string op, table_.required_text("op"));
    const auto known_op = parse_collective_op(op);
    if (!known_op.is_ok()) return table_.at("op", known_op.status());
    spec_.op = *known_op;
    SQUARE_RETURN_IF_ERROR(read_algorithm());
    SQUARE_RETURN_IF_ERROR(read_members());
    SQUARE_RETURN_IF_ERROR(read_root());
    SQUARE_ASSIGN_OR_RETURN(const auto bytes, table_.integer("bytes"));
    if (!bytes) return table_.error("bytes", "is missing");
    if (*bytes < 0) return table_.error("bytes", fmt::format("must be 0 or above, not {}", *bytes));
    spec_.size_bytes = static_cast<std::uint64_t>(*bytes);
    SQUARE_ASSIGN_OR_RETURN(spec_.required_bps, read_mbps(table_, "required_mbps"));
    SQUARE_RETURN_IF_ERROR(table_.at("required_mbps", check_required()));
    SQUARE_RETURN_IF_ERROR(read_max_latency());
    SQUARE_RETURN_IF_ERROR(read_redundancy());
    return std::move(spec_);
  }

 private:
  Status read_algorithm() {
    SQUARE_ASSIGN_OR_RETURN(const auto word, table_.text("algorithm"));
    if (!word) return {};
    const auto algorithm = find_word(kAlgorithms, "algorithm", *word);
    if (!algorithm.is_ok()) return table_.at("algorithm", algorithm.status());
    if (spec_.op != CollectiveOp::kAllReduce && *algorithm != AllReduceAlgorithm::kPlanned) {
      return table_.error("algorithm", fmt::format("\"{}\" is for all_reduce, not for {}: leave it out",
                                                   *word, to_string(spec_.op)));
    }
    spec_.algorithm = *algorithm;
    return {};
  }

  Result<NodeId> find_node(std::string_view key, std::string_view name) const {
    if (const auto node = topology_.find_node(name)) return *node;
    return table_.error(key, quoted("unknown node", name));
  }

  Status read_members() {
    if (!table_.has("members") || table_.is_text("members")) {
      SQUARE_ASSIGN_OR_RETURN(const auto word, table_.text("members"));
      if (word.value_or("all") != "all") {
        return table_.error("members",
                            "must be \"all\" or a list of node names, not " + quoted("the text", *word));
      }
      for (std::uint32_t id = 0; id < topology_.node_count(); ++id) spec_.members.emplace_back(id);
      if (spec_.members.empty()) return table_.error("members", "the overlay has no nodes");
      return {};
    }
    SQUARE_ASSIGN_OR_RETURN(const auto names, table_.texts("members"));
    if (!names || names->empty()) return table_.error("members", "must not be empty");
    std::unordered_set<NodeId> seen;
    for (const std::string& name : *names) {
      SQUARE_ASSIGN_OR_RETURN(const NodeId node, find_node("members", name));
      if (!seen.insert(node).second) return table_.error("members", quoted("two members are the node", name));
      spec_.members.push_back(node);
    }
    return {};
  }

  Status read_root() {
    if (!has_root(spec_.op)) {
      if (!table_.has("root")) return {};
      return table_.error("root", fmt::format("{} has no root: leave it out", to_string(spec_.op)));
    }
    if (!table_.has("root")) {
      return table_.error("root", fmt::format("is missing: {} needs one", to_string(spec_.op)));
    }
    SQUARE_ASSIGN_OR_RETURN(const std::string name, table_.required_text("root"));
    SQUARE_ASSIGN_OR_RETURN(spec_.root, find_node("root", name));
    if (std::ranges::find(spec_.members, spec_.root) != spec_.members.end()) return {};
    return table_.error("root", quoted("the root", name) + " is not among the members: add it to the list");
  }

  [[nodiscard]] Status check_required() const {
    const bool given = table_.has("required_mbps");
    if (given && !meets_demands(policy_)) return meets_no_demands(policy_, kRequiredRate);
    if (given && policy_.objective == Objective::kFair) {
      return invalid_argument("is for objective = \"cost\" in [policy]: a fair plan gives what there is");
    }
    if (!given && policy_.objective == Objective::kCost) {
      return invalid_argument("is missing: objective = \"cost\" needs one for every collective");
    }
    return {};
  }

  // A number for every member but the root, or a table by member.
  Status read_max_latency() {
    constexpr std::string_view kKey = "max_latency_ms";
    if (!table_.has(kKey)) return {};
    if (!meets_demands(policy_)) return table_.at(kKey, meets_no_demands(policy_, kLatencyBound));
    if (table_.is_text(kKey)) {
      return table_.error(kKey, "must be a number or a table by member, not a text");
    }
    std::vector<Duration> bounds(spec_.members.size(), Duration::max());
    if (!table_.is_table(kKey)) {
      SQUARE_ASSIGN_OR_RETURN(const Duration bound, read_bound(table_, kKey));
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        if (!is_root(spec_.members[i])) bounds[i] = bound;
      }
    } else {
      SQUARE_ASSIGN_OR_RETURN(const auto by_member, table_.table(kKey));
      for (const std::string& name : by_member->keys()) {
        const auto node = topology_.find_node(name);
        const auto member = node ? std::ranges::find(spec_.members, *node) : spec_.members.end();
        if (member == spec_.members.end()) {
          return by_member->error(name, "is not a member of this collective");
        }
        if (is_root(*member)) {
          return by_member->error(name, "is the root, which waits for no stream of its own: leave it out");
        }
        SQUARE_ASSIGN_OR_RETURN(bounds[static_cast<std::size_t>(member - spec_.members.begin())],
                                read_bound(*by_member, name));
      }
    }
    spec_.max_latency = std::move(bounds);
    return {};
  }

  Status read_redundancy() {
    SQUARE_ASSIGN_OR_RETURN(const auto count, table_.integer(kRedundancy));
    if (!count) return {};
    if (*count < 0 || *count > static_cast<std::int64_t>(kMaxRedundancy))
      return table_.error(kRedundancy, fmt::format("must be 0 to {}, not {}", kMaxRedundancy, *count));
    spec_.redundancy = static_cast<std::uint32_t>(*count);
    return table_.at(kRedundancy, check_redundancy(spec_, policy_));
  }

  [[nodiscard]] bool is_root(NodeId node) const { return has_root(spec_.op) && node == spec_.root; }

  static Result<Duration> read_bound(const TomlTable& table, std::string_view key) {
    SQUARE_ASSIGN_OR_RETURN(const auto milliseconds, table.positive(key));
    const Duration bound = from_seconds(milliseconds.value_or(0.0) / 1e3);
    if (bound <= Duration(0)) return table.error(key, "must be a millionth of a millisecond or more");
    return bound;
  }

  const TomlTable& table_;
  const Topology& topology_;
  const PolicySpec& policy_;
  CollectiveSpec spec_;
};

}  // namespace

Result<CollectiveSpec> read_collective(const TomlTable& table, const Topology& topology,
                                       const PolicySpec& policy) {
  SQUARE_RETURN_IF_ERROR(table.allow_only({"tenant", "group", "weight", "op", "algorithm", "root", "members",
                                           "bytes", "required_mbps", "max_latency_ms", "redundancy"}));
  return CollectiveReader(table, topology, policy).read();
}

Status check_demands(const CollectiveSpec& collective, const PolicySpec& policy) {
  if (collective.required_bps) {
    const double required_bps = *collective.required_bps;
    if (!meets_demands(policy)) return meets_no_demands(policy, kRequiredRate);
    if (policy.objective == Objective::kFair) {
      return invalid_argument("a required rate is for objective \"cost\": a fair plan gives what there is");
    }
    if (!std::isfinite(required_bps) || required_bps <= 0) {
      return invalid_argument(
          fmt::format("the required rate must be above 0 and finite, not {} bit/s", required_bps));
    }
  } else if (policy.objective == Objective::kCost) {
    return invalid_argument("objective \"cost\" needs a required rate for every collective");
  }
  SQUARE_RETURN_IF_ERROR(check_redundancy(collective, policy));
  if (collective.max_latency.empty()) return {};
  if (!meets_demands(policy)) return meets_no_demands(policy, kLatencyBound);
  if (collective.max_latency.size() != collective.members.size()) {
    return invalid_argument(fmt::format("there are {} bounds on latency for {} members",
                                        collective.max_latency.size(), collective.members.size()));
  }
  for (const Duration bound : collective.max_latency) {
    if (bound <= Duration(0)) {
      return invalid_argument(fmt::format("a bound on latency must be above 0, not {} s", to_seconds(bound)));
    }
  }
  return {};
}

}  // namespace square
