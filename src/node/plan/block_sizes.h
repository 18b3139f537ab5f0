// How large the blocks of a plan's sessions are, by what the plan says of everybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/plan/figures.h"
#include "square/plan.h"

namespace square {

// A block carries about this much time of the session's typical stream (the mean, weighted by
// rate); in a long operation more, because every block costs its nodes the same and filling the
// pipeline matters less: this part of the operation's planned time, up to the coarse time. Less
// where a node carries many streams of a tenant, so that two blocks of each fit into the
// tenant's part of kPlanWindowBytes, and where an operation is so small that it would not use
// every stream. All nodes see the same plan, so they agree.
inline constexpr double kBlockSeconds = 0.010;
inline constexpr double kCoarseBlockSeconds = 0.040;
inline constexpr double kBlockPartOfOperation = 0.0075;
inline constexpr std::size_t kBlocksPerStream = 8;
// Blocks end where elements of every type do, and where cache lines do.
inline constexpr std::size_t kBlockGranuleBytes = 64;

// Of one collective. The same on every node that has the plan.
class BlockSizes {
 public:
  // For operations that are over soon, and for long ones; and what the typical stream carries
  // of the session's blocks.
  struct Sizes {
    std::size_t fine = kMinBlockBytes;
    std::size_t coarse = kMinBlockBytes;
    double typical_part = 1;
    std::size_t streams = 1;
  };

  // `limit_bytes`: what fits into the memory of all the session's nodes.
  void add(const PlanSession& session, double limit_bytes);

  // The smallest sizes for a session without streams.
  [[nodiscard]] const Sizes& of(SessionId session) const;
  // The block size of an operation with so many bytes of the session.
  [[nodiscard]] std::size_t block_bytes(SessionId session, std::uint64_t total_bytes) const;

 private:
  std::map<SessionId, Sizes> sizes_;
};

}  // namespace square
