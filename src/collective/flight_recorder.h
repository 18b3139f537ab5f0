// Keeps what a member has called last in a group, and writes it down with the group's first error.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "square/communicator.h"
#include "square/flight_record.h"
#include "square/member_host.h"

namespace square {

// Of a call, before it is posted.
struct FlightCall {
  const char* operation;  // a literal
  std::uint64_t size_bytes = 0;
  std::optional<Rank> peer = {};
  std::uint32_t tag = 0;
};

// Thread-safe; held by a shared_ptr.
class FlightRecorder {
 public:
  // Operations whose node is asked what they wait for, the oldest of those that are not over.
  static constexpr std::size_t kMaxDescribed = 16;

  // `about` says what group it is, and has no operations.
  explicit FlightRecorder(FlightRecord about) : about_(std::move(about)) {}

  // The first error is written to `folder`; with `follows`, the end of the group is, too.
  void write_to(std::shared_ptr<FlightRecordFolder> folder, bool follows);

  // A member calls; returns the record's number.
  std::uint64_t called(const FlightCall& call);
  // It was posted, or has ended without that.
  void posted(std::uint64_t record_id, const std::shared_ptr<Work>& work);
  void refused(std::uint64_t record_id, const Status& outcome);
  // It is over. The first call counts.
  void ended(std::uint64_t record_id, Work& work);
  // The program hears of a failure: the group's first one is written down. Blocks for the disk.
  void on_error();
  // The member's part in the group ends.
  void on_close();

  // With `host`, the node says what operations wait for, within `patience`.
  [[nodiscard]] FlightRecord record(MemberHost* host, Duration patience) const;
  // The same into the folder that write_to() named. Errors: FAILED_PRECONDITION without one.
  Result<std::string> write(FlightRecordReason reason, MemberHost* host, Duration patience) const;

 private:
  struct Entry {
    OperationRecord record;
    std::weak_ptr<Work> work;  // while it runs
  };
  // With mutex_. Null where newer operations have taken its place.
  Entry* find(std::uint64_t record_id);
  void note(OperationRecord& record, const WorkProgress& progress);

  const FlightRecord about_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<Entry> entries_;
  std::uint64_t last_record_id_ = 0;
  std::uint64_t last_enqueued_ = 0;
  std::uint64_t last_completed_ = 0;
  std::shared_ptr<FlightRecordFolder> folder_;
  bool follows_ = false;
  bool has_failed_ = false;
};

// The work that a program gets: its end and its failure are recorded before the program hears of them.
class RecordedWork final : public Work {
 public:
  RecordedWork(std::shared_ptr<Work> work, std::shared_ptr<FlightRecorder> recorder, std::uint64_t record_id)
      : work_(std::move(work)), recorder_(std::move(recorder)), record_id_(record_id) {}

  Status wait() override;
  bool wait_for(Duration timeout) override { return work_->wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return work_->is_done(); }
  void on_done(std::function<void()> notify) override { work_->on_done(std::move(notify)); }
  [[nodiscard]] std::optional<Rank> source() const override { return work_->source(); }
  [[nodiscard]] std::optional<CompressionReport> compression_report() const override {
    return work_->compression_report();
  }
  [[nodiscard]] WorkProgress progress() const override { return work_->progress(); }
  void cancel() override { work_->cancel(); }

 private:
  const std::shared_ptr<Work> work_;
  const std::shared_ptr<FlightRecorder> recorder_;
  const std::uint64_t record_id_;
};

}  // namespace square
