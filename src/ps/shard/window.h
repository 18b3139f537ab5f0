// Messages of one transfer, several of them under way at once.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ps/data/data_lines.h"
#include "ps/data/parts.h"

namespace square::ps {

// Buffers of messages, used again by the next transfer. Thread-safe.
class Staging {
 public:
  // Whatever its bytes are.
  std::vector<std::byte> take(std::size_t bytes);
  void give_back(std::vector<std::byte> buffer);

 private:
  // Enough for two transfers; more are freed.
  static constexpr std::size_t kMostFree = 2 * kPartsUnderWay;

  std::mutex mutex_;
  std::vector<std::vector<std::byte>> free_;
};

// Message `index` uses the buffer of message `index - kPartsUnderWay`, which must be over. Not thread-safe.
class Window {
 public:
  // Messages have `bytes` at most.
  Window(DataLine& line, Staging& staging, std::size_t messages, std::size_t bytes);
  // Ends the line where something is under way, and waits for it: until then the line uses the buffers.
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] std::span<std::byte> buffer(std::size_t index, std::size_t bytes);
  // Errors: those of the line.
  Status send(std::size_t index, std::size_t bytes);
  Status receive(std::size_t index, std::size_t bytes);
  // Blocks until message `index` is over. OK where there was none.
  Status wait(std::size_t index);

 private:
  struct Slot {
    std::vector<std::byte> buffer;
    std::shared_ptr<Work> work;
  };
  [[nodiscard]] Slot& slot(std::size_t index) { return slots_[index % slots_.size()]; }

  DataLine& line_;
  Staging& staging_;
  std::vector<Slot> slots_;
};

}  // namespace square::ps
