// Which blocks of an operation somebody has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace square {

// A set of block numbers below a fixed size. Not thread-safe.
class BlockSet {
 public:
  explicit BlockSet(std::size_t size = 0) : bits_(size, false) {}

  // True if the block was not in the set before. Precondition: block < size().
  bool insert(std::size_t block) {
    if (bits_[block]) return false;
    bits_[block] = true;
    ++count_;
    while (first_missing_ < bits_.size() && bits_[first_missing_]) ++first_missing_;
    if (block >= end_) end_ = block + 1;
    return true;
  }
  void insert_all_below(std::size_t end) {
    for (std::size_t block = first_missing_; block < end; ++block) insert(block);
  }

  [[nodiscard]] bool contains(std::size_t block) const { return bits_[block]; }
  [[nodiscard]] std::size_t size() const { return bits_.size(); }
  [[nodiscard]] std::size_t count() const { return count_; }
  // The lowest block that is not in the set; size() if it is full.
  [[nodiscard]] std::size_t first_missing() const { return first_missing_; }
  // One past the highest block in the set.
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  std::vector<bool> bits_;
  std::size_t count_ = 0;
  std::size_t first_missing_ = 0;
  std::size_t end_ = 0;
};

}  // namespace square
