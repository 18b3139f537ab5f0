// Which blocks of an operation somebody has.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace square {

// A set of block numbers below a fixed size. Its memory grows with what is in it, not with the size, which
// may be a stranger's word. Not thread-safe.
class BlockSet {
 public:
  explicit BlockSet(std::size_t size = 0) : size_(size) {}

  // True if the block was not in the set before. Precondition: block < size().
  bool insert(std::size_t block) {
    Chunk& chunk = chunks_[block / kChunkBlocks];
    if (chunk[block % kChunkBlocks]) return false;
    chunk[block % kChunkBlocks] = true;
    ++count_;
    while (first_missing_ < size_ && contains(first_missing_)) ++first_missing_;
    if (block >= end_) end_ = block + 1;
    return true;
  }
  void insert_all_below(std::size_t end) {
    for (std::size_t block = first_missing_; block < end; ++block) insert(block);
  }

  [[nodiscard]] bool contains(std::size_t block) const {
    const auto chunk = chunks_.find(block / kChunkBlocks);
    return chunk != chunks_.end() && chunk->second[block % kChunkBlocks];
  }
  // Whether each of the blocks from `begin` on and before `end` is in the set.
  [[nodiscard]] std::vector<bool> bits(std::size_t begin, std::size_t end) const {
    std::vector<bool> bits(end - begin, false);
    for (std::size_t block = begin; block < end;) {
      const std::size_t next = std::min(end, (block / kChunkBlocks + 1) * kChunkBlocks);
      const auto chunk = chunks_.find(block / kChunkBlocks);
      for (; chunk != chunks_.end() && block < next; ++block)
        bits[block - begin] = chunk->second[block % kChunkBlocks];
      block = next;
    }
    return bits;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  // The lowest block that is not in the set; size() if it is full.
  [[nodiscard]] std::size_t first_missing() const { return first_missing_; }
  // One past the highest block in the set.
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  static constexpr std::size_t kChunkBlocks = 4'096;
  using Chunk = std::bitset<kChunkBlocks>;

  std::size_t size_;
  std::unordered_map<std::size_t, Chunk> chunks_;
  std::size_t count_ = 0;
  std::size_t first_missing_ = 0;
  std::size_t end_ = 0;
};

}  // namespace square
