// How often blocks of a sum began again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace square {

// Knows those that were lost only. Not thread-safe.
class BlockRetries {
 public:
  [[nodiscard]] std::uint16_t of(std::size_t block) const {
    const auto found = retries_.find(block);
    return found == retries_.end() ? std::uint16_t{0} : found->second.count;
  }
  // Somebody else counted.
  void set(std::size_t block, std::uint16_t count) { retries_[block].count = count; }
  // One more, by the root's request of this number. Returns how many there are now.
  std::uint16_t ask(std::size_t block, std::uint32_t request) {
    Retry& retry = retries_[block];
    retry.request = request;
    return ++retry.count;
  }
  // Whether it was asked for by a request that is newer than this one.
  [[nodiscard]] bool is_asked_after(std::size_t block, std::uint32_t request) const {
    const auto found = retries_.find(block);
    return found != retries_.end() && found->second.request > request;
  }
  void clear() { retries_.clear(); }

 private:
  struct Retry {
    std::uint16_t count = 0;
    std::uint32_t request = 0;  // that asked for it last
  };
  std::map<std::size_t, Retry> retries_;
};

}  // namespace square
