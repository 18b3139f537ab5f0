// What leaves on a stream of a sum: sums in the order in which they began, and reports among them.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "square/frame.h"

namespace square {

// What may wait on one stream for a sum ahead of it; more reports are dropped: they come again.
inline constexpr std::size_t kMaxLeavingItems = 4'096;

// Not thread-safe: used on the node's strand.
class LeavingQueue {
 public:
  struct Item {
    Frame frame;
    std::vector<std::shared_ptr<void>> guards{};  // of the parts that went into it
    bool is_ready = false;
  };

  // A sum in the making: its place. It leaves once it is ready and what is ahead has left.
  std::shared_ptr<Item> reserve(const FrameHeader& header) {
    items_.push_back(std::make_shared<Item>(Item{{header, {}}}));
    return items_.back();
  }
  void push(Frame frame) { items_.push_back(std::make_shared<Item>(Item{std::move(frame), {}, true})); }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool is_full() const { return items_.size() >= kMaxLeavingItems; }

  // The first item if it may leave, or nothing.
  std::shared_ptr<Item> take_ready() {
    if (items_.empty() || !items_.front()->is_ready) return nullptr;
    std::shared_ptr<Item> first = std::move(items_.front());
    items_.pop_front();
    return first;
  }

 private:
  std::deque<std::shared_ptr<Item>> items_;
};

}  // namespace square
