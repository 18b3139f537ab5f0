// One operation of one process at its gateway, and where its data lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gateway/attachment.h"
#include "gateway/segment_cache.h"
#include "square/data_plane.h"

namespace square::gateway {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using OwnBytes = std::unique_ptr<std::byte[], FreeBytes>;

// Where an operation's input and output lie while the node works on them. An all-reduce among
// nodes sends its sums from the output, so the node's is out of the process's reach until it is
// through.
struct Staging {
  std::shared_ptr<const Mapping> input_segment;
  std::shared_ptr<const Mapping> output_segment;
  OwnBytes input_copy;
  OwnBytes output_copy;
  std::span<const std::byte> input;
  std::span<std::byte> output;
};

struct CallId {
  AttachmentId attachment = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const CallId&, const CallId&) = default;
};

struct Call {
  enum class State {
    kWaiting,    // for room
    kAdmitted,   // for its input
    kRunning,    // the node has it
    kReturning,  // its output is being streamed or copied
  };
  State state = State::kWaiting;
  CallId id;
  MemberOperation part;  // without spans and `done`
  std::string tenant;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  bool stays_here = false;        // nothing of it goes to another node
  bool is_output_copied = false;  // from the node's own memory into the process's segment
  // What its operation takes, all ranks of the node together.
  std::uint64_t room_bytes = 0;
  std::size_t room_segments = 0;
  std::uint64_t received_bytes = 0;
  std::shared_ptr<Staging> staging;
  TimePoint deadline;
  TimePoint last_progress;

  [[nodiscard]] std::uint64_t bytes() const {
    return input_bytes + (is_output_copied ? 2 : 1) * output_bytes;
  }
};

// Tells exactly once how an operation ended, also where a node that stops drops it.
class DoneNotice {
 public:
  explicit DoneNotice(std::function<void(Status)> tell) : tell_(std::move(tell)) {}
  DoneNotice(const DoneNotice&) = delete;
  DoneNotice& operator=(const DoneNotice&) = delete;
  ~DoneNotice() {
    if (tell_) tell_(cancelled("the node was stopped before the operation ended"));
  }
  void tell(Status outcome) {
    if (tell_) std::exchange(tell_, nullptr)(std::move(outcome));
  }

 private:
  std::function<void(Status)> tell_;
};

// As the process says it; nothing of it is believed yet.
Call call_of(CallId id, const v1::GatewayPost& message);

// Memory of the gateway's own, zero: what another operation left there is nobody's business. Null
// where there is none.
OwnBytes make_copy(std::uint64_t size_bytes);
// The same for all that a call takes.
std::shared_ptr<Staging> make_copies(const Call& call);
// Maps the process's memory. Errors: those of open_segment() and map_segment().
Status open_segments(SegmentCache& segments, const Attachment& from, StagedMemory where, const Call& call,
                     Staging& staging);

}  // namespace square::gateway
