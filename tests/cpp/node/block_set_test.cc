#include "node/multicast/block_set.h"

#include <doctest/doctest.h>

#include <set>

using namespace square;

TEST_CASE("a set of blocks has what was put into it, and knows where the first gap is") {
  BlockSet blocks(10'000);
  std::set<std::size_t> model;
  for (const std::size_t block : {0, 1, 2, 4'095, 4'096, 9'999, 3}) {
    CHECK(blocks.insert(block) == model.insert(block).second);
    CHECK_FALSE(blocks.insert(block));
  }
  CHECK(blocks.count() == model.size());
  CHECK(blocks.first_missing() == 4);
  CHECK(blocks.end() == 10'000);
  for (std::size_t block = 0; block < blocks.size(); ++block)
    CHECK(blocks.contains(block) == model.contains(block));
  for (const auto& [begin, end] : {std::pair{0, 5}, {2, 4'098}, {4'000, 9'999}, {5'000, 10'000}, {7, 7}}) {
    const std::vector<bool> bits = blocks.bits(begin, end);
    REQUIRE(bits.size() == static_cast<std::size_t>(end - begin));
    for (int block = begin; block < end; ++block) CHECK(bits[block - begin] == model.contains(block));
  }
  blocks.insert_all_below(10'000);
  CHECK(blocks.first_missing() == 10'000);
  CHECK(blocks.count() == 10'000);
  CHECK(BlockSet(0).first_missing() == 0);
}

TEST_CASE("a large set costs what is in it") {
  // 2 TiB if each had a bit for each of its blocks.
  std::vector<BlockSet> sets(1'000'000, BlockSet(std::size_t{1} << 24U));
  for (std::size_t i = 0; i < 100; ++i) CHECK(sets[i].insert((std::size_t{1} << 24U) - 1));
  CHECK(sets[0].contains((std::size_t{1} << 24U) - 1));
  CHECK(sets[0].first_missing() == 0);
}
