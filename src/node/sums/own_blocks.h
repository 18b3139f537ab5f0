// What a contributor puts on one stream of a sum that starts at it, in which order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace square {

// First what is asked for again, then a report that is due, then the next of the stream's order. Not
// thread-safe.
class OwnBlocks {
 public:
  struct Turn {
    std::uint32_t block = 0;
    std::uint64_t sequence = 0;  // the place in the order, from 1; 0: asked for again
  };

  // So many blocks of the order were put on the stream.
  [[nodiscard]] std::size_t position() const { return next_; }
  void ask_again(std::uint32_t block) { again_.push_back(block); }
  // Says where this node is, behind what it has sent and what it must send again.
  void report(std::uint32_t number) { report_due_ = std::max(number, report_due_.value_or(0)); }

  // A report waits for what must be sent again.
  [[nodiscard]] bool has_report() const { return report_due_.has_value(); }
  // The number of the report whose turn it is.
  std::optional<std::uint32_t> take_report() {
    return again_.empty() ? std::exchange(report_due_, std::nullopt) : std::nullopt;
  }
  [[nodiscard]] bool has_turn(const std::vector<std::uint32_t>& order) const {
    return !again_.empty() || next_ < order.size();
  }
  // Precondition: has_turn().
  Turn take(const std::vector<std::uint32_t>& order) {
    if (again_.empty()) {
      const std::uint32_t block = order[next_++];
      return {block, next_};
    }
    const std::uint32_t block = again_.front();
    again_.pop_front();
    return {block, 0};
  }

 private:
  std::size_t next_ = 0;  // of the order
  std::deque<std::uint32_t> again_;
  std::optional<std::uint32_t> report_due_;
};

}  // namespace square
