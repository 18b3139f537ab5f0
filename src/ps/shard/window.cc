#include "ps/shard/window.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace square::ps {

std::vector<std::byte> Staging::take(std::size_t bytes) {
  std::vector<std::byte> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
  }
  buffer.resize(bytes);
  return buffer;
}

void Staging::give_back(std::vector<std::byte> buffer) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
}

Window::Window(DataLine& line, Staging& staging, std::size_t messages, std::size_t bytes)
    : line_(line), staging_(staging), slots_(std::clamp<std::size_t>(messages, 1, kPartsUnderWay)) {
  for (Slot& slot : slots_) slot.buffer = staging_.take(bytes);
}

Window::~Window() {
  if (std::ranges::any_of(slots_, [](const Slot& slot) { return slot.work != nullptr; })) line_.end();
  for (Slot& slot : slots_) {
    if (slot.work != nullptr) (void)slot.work->wait();
    staging_.give_back(std::move(slot.buffer));
  }
}

std::span<std::byte> Window::buffer(std::size_t index, std::size_t bytes) {
  return std::span(slot(index).buffer).first(bytes);
}

Status Window::send(std::size_t index, std::size_t bytes) {
  SQUARE_CHECK(slot(index).work == nullptr, "the buffer of a message that is under way");
  SQUARE_ASSIGN_OR_RETURN(slot(index).work, line_.send(buffer(index, bytes)));
  return {};
}

Status Window::receive(std::size_t index, std::size_t bytes) {
  SQUARE_CHECK(slot(index).work == nullptr, "the buffer of a message that is under way");
  SQUARE_ASSIGN_OR_RETURN(slot(index).work, line_.receive(buffer(index, bytes)));
  return {};
}

Status Window::wait(std::size_t index) {
  const std::shared_ptr<Work> work = std::exchange(slot(index).work, nullptr);
  return work == nullptr ? Status() : work->wait();
}

}  // namespace square::ps
