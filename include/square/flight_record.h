// What a group's member has called last: the flight recorder's view, for programs, files and `square doctor`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/clock.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// Operations that a member remembers of each group.
inline constexpr std::size_t kFlightRecorderOperations = 1'000;

enum class OperationState {
  kScheduled,  // called; no byte has arrived
  kStarted,    // the first byte has arrived
  kCompleted,
  kFailed,
};
std::string_view to_string(OperationState state);

// One operation, as the member that called it sees it. Times are those of steady_clock(); none: not yet, or
// not known. A process at a gateway does not know epoch, bytes and waits_for.
struct OperationRecord {
  std::uint64_t record_id = 0;  // counts the group's operations on this member, from 1
  std::string operation;        // "all_reduce", "send"
  // Counts the collectives that all members call, from 1: members that call the same thing have the same
  // number. None of messages, and of a call that is still being registered.
  std::optional<std::uint64_t> collective_seq_id;
  // Counts the messages with this peer, direction and tag, from 1.
  std::optional<std::uint64_t> p2p_seq_id;
  std::uint64_t size_bytes = 0;  // of the largest buffer that the member passed
  std::optional<Rank> peer;      // the root, or the other end of a message
  std::uint32_t tag = 0;         // of a message
  OperationState state = OperationState::kScheduled;
  TimePoint called{};
  std::optional<TimePoint> planned;     // the collective had a plan and the call was posted
  std::optional<TimePoint> first_byte;  // see CallProgress
  std::optional<TimePoint> last_byte;
  std::optional<TimePoint> completed;  // or failed
  Epoch epoch{0};                      // of the plan that it began under; 0: not known
  std::string waits_for;               // of an operation that is not over
  Status outcome;                      // of one that is
};

struct FlightRecord {
  std::string group;
  std::uint64_t number = 0;        // tells the group from others that had its name
  Rank rank;                       // this member
  std::vector<std::string> nodes;  // of every rank
  // The highest collective_seq_id that the member has called and completed; 0: none.
  std::uint64_t last_enqueued_collective = 0;
  std::uint64_t last_completed_collective = 0;
  std::vector<OperationRecord> operations;  // the oldest first, kFlightRecorderOperations at most
};

// Why a record is written.
enum class FlightRecordReason { kCreated, kFirstError, kAsked, kTerminated, kClosed };

// A folder that this process writes records to, a file for each group and rank: the newest record replaces
// the one before. Thread-safe.
class FlightRecordFolder {
 public:
  // Files that a process leaves in one folder; the oldest go first.
  static constexpr std::size_t kMaxFiles = 64;

  // `asked_by` is the signal upon which the process writes its records; 0: none.
  explicit FlightRecordFolder(std::string path, int asked_by = 0)
      : path_(std::move(path)), asked_by_(asked_by) {}

  // Returns the file's path. Errors: UNAVAILABLE for a folder that cannot be written to. Blocks for the disk.
  Result<std::string> write(const FlightRecord& record, FlightRecordReason reason);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const int asked_by_;
  std::mutex mutex_;
  std::deque<std::string> files_;  // that this process has written, the oldest first
};

// The format "square.flight_record/1" of docs/doctor.md. Times become nanoseconds since 1970.
std::string to_json(const FlightRecord& record, FlightRecordReason reason = FlightRecordReason::kAsked,
                    int asked_by = 0);

}  // namespace square
