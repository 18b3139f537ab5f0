#include "collective/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "base/log.h"

namespace square {
namespace {

// A GroupCall's number begins again after kGroupCallNumbers: the nearest to the last one, `last`, is meant.
std::uint64_t sequence_of(GroupCall call, std::uint64_t last) {
  const std::uint64_t ahead =
      (call.number + kGroupCallNumbers - last % kGroupCallNumbers) % kGroupCallNumbers;
  return last + ahead + 1 - (ahead > kGroupCallNumbers / 2 ? kGroupCallNumbers : 0);
}

void set_progress(OperationRecord& record, const WorkProgress& progress, std::uint64_t last_enqueued) {
  if (progress.call.kind != CallKind::kNone && !record.collective_seq_id)
    record.collective_seq_id = sequence_of(progress.call, last_enqueued);
  if (progress.message) record.p2p_seq_id = progress.message->value() + 1;
  record.epoch = progress.epoch;
  record.first_byte = progress.first_byte;
  record.last_byte = progress.last_byte;
  if (record.first_byte && record.state == OperationState::kScheduled)
    record.state = OperationState::kStarted;
}

// What a node says of several operations, until there is no time left: it may never answer.
class Answers {
 public:
  explicit Answers(std::size_t count) : texts_(count), left_(count) {}

  void set(std::size_t place, std::string text) {
    const std::lock_guard lock(mutex_);
    texts_[place] = std::move(text);
    if (--left_ == 0) changed_.notify_all();
  }
  std::vector<std::string> wait(Duration patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return left_ == 0; });
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::size_t left_;
};

struct Question {
  std::size_t record;
  CollectiveId collective;
  OperationId operation;
};

void describe(std::vector<OperationRecord>& records, const std::vector<Question>& questions, MemberHost& host,
              Duration patience) {
  const auto answers = std::make_shared<Answers>(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    host.describe(questions[i].collective, questions[i].operation,
                  [answers, i](std::string text) { answers->set(i, std::move(text)); });
  }
  const std::vector<std::string> texts = answers->wait(patience);
  for (std::size_t i = 0; i < questions.size(); ++i) records[questions[i].record].waits_for = texts[i];
}

}  // namespace

void FlightRecorder::write_to(std::shared_ptr<FlightRecordFolder> folder, bool follows) {
  const std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
  follows_ = follows;
}

std::uint64_t FlightRecorder::called(const FlightCall& call) {
  const TimePoint now = steady_clock().now();
  const std::lock_guard lock(mutex_);
  const std::size_t place = last_record_id_++ % kFlightRecorderOperations;
  if (place == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[place];
  entry.work.reset();
  entry.record = OperationRecord{};
  entry.record.record_id = last_record_id_;
  entry.record.operation = call.operation;
  entry.record.size_bytes = call.size_bytes;
  entry.record.peer = call.peer;
  entry.record.tag = call.tag;
  entry.record.called = now;
  return last_record_id_;
}

FlightRecorder::Entry* FlightRecorder::find(std::uint64_t record_id) {
  Entry& entry = entries_[(record_id - 1) % kFlightRecorderOperations];
  return entry.record.record_id == record_id ? &entry : nullptr;
}

void FlightRecorder::note(OperationRecord& record, const WorkProgress& progress) {
  set_progress(record, progress, last_enqueued_);
  last_enqueued_ = std::max(last_enqueued_, record.collective_seq_id.value_or(0));
}

void FlightRecorder::posted(std::uint64_t record_id, const std::shared_ptr<Work>& work) {
  const TimePoint now = steady_clock().now();
  const WorkProgress progress = work->progress();
  const std::lock_guard lock(mutex_);
  // Counted also where newer ones have taken its place.
  OperationRecord counted;
  Entry* const entry = find(record_id);
  note(entry == nullptr ? counted : entry->record, progress);
  if (entry == nullptr) return;
  entry->record.planned = now;
  entry->work = work;
}

void FlightRecorder::refused(std::uint64_t record_id, const Status& outcome) {
  const TimePoint now = steady_clock().now();
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(record_id);
  if (entry == nullptr) return;
  entry->record.completed = now;
  entry->record.state = OperationState::kFailed;
  entry->record.outcome = outcome;
}

void FlightRecorder::ended(std::uint64_t record_id, Work& work) {
  {
    // The node's thread and the program's both say it: the second has nothing to do.
    const std::lock_guard lock(mutex_);
    const Entry* const entry = find(record_id);
    if (entry == nullptr || entry->record.completed) return;
  }
  const TimePoint now = steady_clock().now();
  const Status outcome = work.wait();
  const WorkProgress progress = work.progress();
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(record_id);
  if (entry == nullptr || entry->record.completed) return;
  OperationRecord& record = entry->record;
  note(record, progress);
  record.completed = now;
  record.state = outcome.is_ok() ? OperationState::kCompleted : OperationState::kFailed;
  record.outcome = outcome;
  if (const auto source = work.source()) record.peer = source;
  if (outcome.is_ok() && record.collective_seq_id)
    last_completed_ = std::max(last_completed_, *record.collective_seq_id);
  entry->work.reset();
}

FlightRecord FlightRecorder::record(MemberHost* host, Duration patience) const {
  FlightRecord all = about_;
  std::vector<std::shared_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    all.last_enqueued_collective = last_enqueued_;
    all.last_completed_collective = last_completed_;
    const std::size_t oldest = last_record_id_ % std::max<std::size_t>(entries_.size(), 1);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[(oldest + i) % entries_.size()];
      all.operations.push_back(entry.record);
      works.push_back(entry.work.lock());
    }
  }
  // Without the mutex: a work that ends takes it.
  std::vector<Question> questions;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!works[i]) continue;
    const WorkProgress progress = works[i]->progress();
    set_progress(all.operations[i], progress, all.last_enqueued_collective);
    if (progress.open && questions.size() < kMaxDescribed)
      questions.push_back({i, progress.open->first, progress.open->second});
  }
  if (host != nullptr && !questions.empty()) describe(all.operations, questions, *host, patience);
  return all;
}

Result<std::string> FlightRecorder::write(FlightRecordReason reason, MemberHost* host,
                                          Duration patience) const {
  std::shared_ptr<FlightRecordFolder> folder;
  {
    const std::lock_guard lock(mutex_);
    folder = folder_;
  }
  if (!folder) return failed_precondition("no folder is named for flight records");
  return folder->write(record(host, patience), reason);
}

void FlightRecorder::on_error() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_failed_, true) || !folder_) return;
  }
  // The node is not asked: this may be its own thread, and the outcomes say what was waited for.
  const auto path = write(FlightRecordReason::kFirstError, nullptr, Duration(0));
  const std::string& node = about_.nodes[about_.rank.index()];
  if (!path.is_ok()) {
    log(LogLevel::kWarning, {.component = "flight_recorder", .node = node},
        "rank {} of group \"{}\" cannot write its flight record: {}", about_.rank.value(), about_.group,
        path.status().message());
    return;
  }
  log(LogLevel::kWarning, {.component = "flight_recorder", .node = node},
      "rank {} of group \"{}\" has failed; its flight record is {}: `square doctor --operations` compares it "
      "with those of the other ranks",
      about_.rank.value(), about_.group, *path);
}

void FlightRecorder::on_close() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(follows_, false)) return;
  }
  static_cast<void>(write(FlightRecordReason::kClosed, nullptr, Duration(0)));
}

Status RecordedWork::wait() {
  Status outcome = work_->wait();
  recorder_->ended(record_id_, *work_);
  if (!outcome.is_ok()) recorder_->on_error();
  return outcome;
}

}  // namespace square
