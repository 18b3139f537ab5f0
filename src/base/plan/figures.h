// What a node needs of the whole plan beside its own part: figures that others have a say in. Equal plans
// give equal figures, to the bit: all nodes agree, whether each finds them in the whole plan or is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "square/plan.h"

namespace square {

inline constexpr std::size_t kMinBlockBytes = std::size_t{8} << 10U;
inline constexpr std::size_t kMaxBlockBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kPlanWindowBytes = std::size_t{16} << 20U;
// Two blocks a stream are reserved even where memory is short.
inline constexpr std::size_t kMinWindowBlocks = 2;

// Collectives of a group follow one another, as a job calls them, but for those with a root: many of one kind
// are under way at once, as messages are, and the broadcasts that an all-gather is made of. Equal for those
// of a group that run at once: whose turn it is.
using JobTurn = std::uint64_t;
inline JobTurn job_turn_of(CollectiveOp op, CollectiveId id) {
  return has_root(op) ? static_cast<JobTurn>(op) : (JobTurn{1} << 32U) + id.value();
}

// The tenant whose collective the session is of; empty if the plan does not say.
std::string_view tenant_of(const Plan& plan, const PlanSession& session);

// What tenants weigh: 1 where the plan does not say. Refers to the plan.
class TenantWeights {
 public:
  explicit TenantWeights(const Plan& plan);
  [[nodiscard]] double of(std::string_view tenant) const;

 private:
  std::map<std::string_view, double> weights_;
};

// By position in Plan::sessions: the largest block, in bytes, of which two a stream fit into the tenant's
// part of kPlanWindowBytes at every node that the session leads to; kMaxBlockBytes at most, kMinBlockBytes at
// least, and a power of two, so that it stays as it is while a few more streams come.
std::vector<double> block_limits(const Plan& plan);

// By position in Plan::links, bits per second: the capacity, and where an end has a limit no more than leaves
// its other links their planned load, and an even part of what the plan leaves free, beside what goes back
// for what comes the other way: that waits for nothing, and blocks that are planned would wait for it.
std::vector<double> link_paces(const Plan& plan);

// How long links of a plan take, by their ends.
class LinkLatencies {
 public:
  explicit LinkLatencies(const Plan& plan);
  // Of the slowest of the stream's links, as far as the plan tells.
  [[nodiscard]] Duration longest(const PlanStream& stream) const;

 private:
  std::map<std::pair<NodeId, NodeId>, Duration> latencies_;  // those over 0
};

}  // namespace square
