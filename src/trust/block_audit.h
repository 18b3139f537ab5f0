// Who changes blocks: what nodes saw of the same block, compared along its way.
#pragma once

#include <cstddef>
#include <deque>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "square/block_sight.h"
#include "square/buffer.h"

namespace square::trust {

// SHA-256 of the numbers and of the payload.
BlockSight::Digest digest_of(std::initializer_list<std::uint64_t> numbers, const Buffer& payload);

// Two neighbours that say different things of what went between them: one of them changes blocks, or lies.
struct BlockDifference {
  std::string from;
  std::string to;
  SessionId session;
};

// Blocks that are compared at the same time. For one more goes the oldest of whom the most were told first:
// who invents some keeps no others out.
inline constexpr std::size_t kMaxAuditedBlocks = 16'384;
// Nodes that may say something of one of them.
inline constexpr std::size_t kMaxSightsOfBlock = 1'024;

// Not thread-safe.
class BlockAudit {
 public:
  // What `node` has seen. Returns what differs now that is known, too: mostly nothing. What it said of the
  // block before stays.
  std::vector<BlockDifference> note(const std::string& node, const BlockSight& sight);

 private:
  struct Sight {
    std::string from;
    BlockSight::Digest digest{};
  };
  using Sights = std::map<std::string, Sight>;  // by who has seen it

  void forget_one();

  std::map<BlockSight::Name, Sights> blocks_;
  // By who told of them first, the oldest first.
  std::map<std::string, std::deque<BlockSight::Name>> told_by_;
};

}  // namespace square::trust
