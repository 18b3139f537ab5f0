// Which block of a reduce takes which stream.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "square/plan.h"

namespace square {

// Every contributor of a sum must put a block on the same stream without asking the others,
// so the blocks are dealt out beforehand, in proportion to the planned rates: each block to
// the stream on which it would reach the root first (links after the first count for half,
// as most carry other streams too). So a slow or deep stream has no part in what the others are through with
// before. Ties go to the lower stream. Streams that the root has left take none.
class Interleave {
 public:
  struct Stream {
    double rate_bps = 0;
    std::size_t depth = 1;  // links from the farthest node to the root
  };
  Interleave() = default;
  // `skip[b]`: the block is not dealt out; blocks past its end are.
  Interleave(const std::vector<Stream>& streams, std::size_t block_count, const std::vector<bool>& skip,
             const std::vector<bool>& left = {});

  // The blocks of one stream, in order.
  [[nodiscard]] const std::vector<std::uint32_t>& order(std::size_t stream) const {
    return stream < orders_.size() ? orders_[stream] : kNone;
  }
  [[nodiscard]] std::size_t stream_of(std::size_t block) const { return place_[block].stream; }
  // Precondition: the block was dealt out.
  [[nodiscard]] std::size_t position_of(std::size_t block) const { return place_[block].position; }
  [[nodiscard]] bool is_dealt(std::size_t block) const {
    return block < place_.size() && place_[block].position != kNowhere;
  }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  inline static const std::vector<std::uint32_t> kNone{};
  struct Place {
    std::uint32_t stream = 0;
    std::uint32_t position = kNowhere;
  };
  std::vector<std::vector<std::uint32_t>> orders_;
  std::vector<Place> place_;
};

// The blocks of a sum over the streams of its session, but for those that are left; those past the end of
// `left` are not. Precondition: not all are.
std::shared_ptr<const Interleave> deal_out(const PlanSession& session, std::size_t block_count,
                                           const std::vector<bool>& skip, const std::vector<bool>& left = {});

}  // namespace square
