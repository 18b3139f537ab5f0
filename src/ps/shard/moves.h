// A range of a shard on its way from one server to another, with all that a step needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ps/shard/window.h"
#include "square/outer_optimizer.h"

namespace square::ps {

// The arrays of a shard, in the order in which they cross the line.
enum class StateArray : std::uint8_t { kParameters, kMomentum, kAccumulator };

// What is not in the arrays.
struct StateHead {
  std::uint64_t rounds = 0;
  bool has_accumulator = false;
  friend bool operator==(const StateHead&, const StateHead&) = default;
};

// Copies elements of the model, from `first` on.
using StateReader = std::function<Status(StateArray array, std::uint64_t first, std::span<float> out)>;

// A new shard, as its ranges come in. Thread-safe, but for finish().
class Gathering {
 public:
  // `sources`: ranges that come. Errors: RESOURCE_EXHAUSTED for too little memory.
  static Result<std::shared_ptr<Gathering>> create(const v1::PsShard& shard, std::size_t sources);

  // Of every source the same. Errors: DATA_LOSS for another head than before; RESOURCE_EXHAUSTED.
  Status begin(const StateHead& head);
  // Where elements go. Preconditions: begin() was OK, and they are in the shard.
  [[nodiscard]] std::span<float> room(StateArray array, std::uint64_t first, std::size_t count);
  // One source is through. True for the last one.
  [[nodiscard]] bool end_source(const Status& status);
  // The first error of a source.
  [[nodiscard]] Status status() const;
  [[nodiscard]] std::optional<StateHead> head() const;

  // All of it, once all sources are through and all OK.
  OuterShard::State finish() { return std::move(state_); }

 private:
  Gathering(const v1::PsShard& shard, std::size_t sources) : first_(shard.begin()), sources_(sources) {}
  std::vector<float>& array(StateArray array);

  const std::uint64_t first_;
  OuterShard::State state_;
  mutable std::mutex mutex_;
  std::optional<StateHead> head_;
  std::size_t sources_;
  Status status_;
};

// Sends the transfer's range. Returns when the other end has it. Errors: those of the line and of `read`.
Status send_state(DataLine& line, Staging& staging, const v1::PsTransfer& transfer, const StateHead& head,
                  const StateReader& read);
// Errors: those of the line, DATA_LOSS, and those of Gathering::begin().
Status receive_state(DataLine& line, Staging& staging, const v1::PsTransfer& transfer, Gathering& gathering);

}  // namespace square::ps
