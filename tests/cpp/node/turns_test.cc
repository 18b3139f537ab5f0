// Which stream of a source takes the next block.
#include <doctest/doctest.h>

#include <array>

#include "node/multicast/sent_streams.h"

namespace square::sending {
namespace {

constexpr std::size_t kBlock = 8'192;

// Gives out blocks, each to whose turn ends first; `has_room` says who takes part. How many each got.
std::array<int, 2> give_out(Turns& turns, std::array<Stream, 2>& streams, int blocks,
                            std::array<bool, 2> has_room) {
  std::array<int, 2> got{};
  for (int block = 0; block < blocks; ++block) {
    const bool is_second =
        !has_room[0] || (has_room[1] && Turns::end(streams[1], kBlock) < Turns::end(streams[0], kBlock));
    for (std::size_t i : {0U, 1U}) {
      if (!has_room[i]) turns.miss(streams[i]);
    }
    turns.take(streams[is_second ? 1 : 0], kBlock);
    ++got[is_second ? 1 : 0];
  }
  return got;
}

TEST_CASE("streams take blocks in the proportion of their rates, however few there are") {
  std::array<Stream, 2> streams;
  streams[0].rate_bps = 3e6;
  streams[1].rate_bps = 1e6;
  Turns turns;
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    CHECK(give_out(turns, streams, 4, {true, true}) == std::array{3, 1});
  }
}

TEST_CASE("a stream that had no room does not catch up") {
  std::array<Stream, 2> streams;
  streams[0].rate_bps = 1e6;
  streams[1].rate_bps = 1e6;
  Turns turns;
  CHECK(give_out(turns, streams, 100, {true, false}) == std::array{100, 0});
  const std::array<int, 2> after = give_out(turns, streams, 10, {true, true});
  CHECK(after[0] >= 4);
  CHECK(after[1] >= 4);
}

}  // namespace
}  // namespace square::sending
