// What a member has called last: the ring, its states, and the file with the first error.
#include "collective/flight_recorder.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "collective/real_group.h"
#include "collective/work.h"

using namespace square;
using namespace square::test;

namespace {

FlightRecord recorded_group() {
  FlightRecord about;
  about.group = "g/1";
  about.rank = Rank(1);
  about.nodes = {"a", "b"};
  return about;
}

// A work that the test ends itself.
std::shared_ptr<PostedWork> posted_work(std::uint64_t call, CallKind kind = CallKind::kAllReduce) {
  const GroupCall number{kind, static_cast<std::uint16_t>(call % kGroupCallNumbers)};
  return std::make_shared<PostedWork>(
      std::make_shared<CallProgress>(CollectiveId(7), OperationId(call), number), [] {});
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("square-flight-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::ifstream file(entry.path());
      all.push_back(nlohmann::json::parse(file));
    }
    return all;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a flight recorder keeps the last operations, and counts on where a call's number begins again") {
  const auto recorder = std::make_shared<FlightRecorder>(recorded_group());
  constexpr std::uint64_t kCalls = 10'000;  // over two rounds of kGroupCallNumbers
  for (std::uint64_t call = 0; call < kCalls; ++call) {
    const auto id = recorder->called({"all_reduce", 4});
    const auto work = posted_work(call);
    recorder->posted(id, work);
    work->finish(Status::ok());
    recorder->ended(id, *work);
  }
  const FlightRecord record = recorder->record(nullptr, Duration(0));
  REQUIRE(record.operations.size() == kFlightRecorderOperations);
  CHECK(record.operations.front().record_id == kCalls - kFlightRecorderOperations + 1);
  for (std::size_t i = 1; i < record.operations.size(); ++i)
    CHECK(record.operations[i].record_id == record.operations[i - 1].record_id + 1);
  CHECK(record.operations.back().collective_seq_id == kCalls);
  CHECK(record.last_enqueued_collective == kCalls);
  CHECK(record.last_completed_collective == kCalls);
}

TEST_CASE("calls of several threads may be recorded in another order than they were numbered") {
  const auto recorder = std::make_shared<FlightRecorder>(recorded_group());
  const auto first = recorder->called({"all_reduce"});
  const auto second = recorder->called({"barrier"});
  const auto works = {posted_work(1, CallKind::kBarrier), posted_work(0)};
  recorder->posted(second, *works.begin());
  recorder->posted(first, *std::next(works.begin()));
  const FlightRecord record = recorder->record(nullptr, Duration(0));
  CHECK(record.operations[0].collective_seq_id == 1);
  CHECK(record.operations[1].collective_seq_id == 2);
  CHECK(record.last_enqueued_collective == 2);
  CHECK(record.last_completed_collective == 0);
}

TEST_CASE("an operation that newer ones have pushed out ends without harm") {
  const auto recorder = std::make_shared<FlightRecorder>(recorded_group());
  const auto oldest = recorder->called({"all_reduce"});
  const auto work = posted_work(0);
  recorder->posted(oldest, work);
  for (std::size_t i = 0; i < kFlightRecorderOperations; ++i) recorder->called({"send"});
  work->finish(Status::ok());
  recorder->ended(oldest, *work);
  CHECK(recorder->record(nullptr, Duration(0)).operations.front().record_id == 2);
}

TEST_CASE("the first error is written to the folder, once, with what the operation moved") {
  const Folder folder;
  const auto recorder = std::make_shared<FlightRecorder>(recorded_group());
  recorder->write_to(std::make_shared<FlightRecordFolder>(folder.path()), false);
  const auto progress =
      std::make_shared<CallProgress>(CollectiveId(7), OperationId(0), GroupCall{CallKind::kBroadcast, 0});
  const auto posted = std::make_shared<PostedWork>(progress, [] {});
  const auto id = recorder->called({"broadcast", 1'000, Rank(0)});
  recorder->posted(id, posted);
  progress->begin(Epoch(3));
  progress->note_bytes(steady_clock().now());
  CHECK(recorder->record(nullptr, Duration(0)).operations[0].state == OperationState::kStarted);
  posted->finish(deadline_exceeded("nothing arrived"));
  RecordedWork work(posted, recorder, id);
  CHECK_FALSE(work.wait().is_ok());
  const auto files = folder.records();
  REQUIRE(files.size() == 1);
  const auto& file = files.front();
  CHECK(file["format"] == "square.flight_record/1");
  CHECK(file["reason"] == "first_error");
  CHECK(file["group"] == "g/1");
  CHECK(file["rank"] == 1);
  CHECK(file["process"]["pid"] == getpid());
  const auto& operation = file["operations"][0];
  CHECK(operation["operation"] == "broadcast");
  CHECK(operation["collective_seq_id"] == 1);
  CHECK(operation["peer"] == 0);
  CHECK(operation["state"] == "failed");
  CHECK(operation["epoch"] == 3);
  CHECK(operation["outcome"] == "DEADLINE_EXCEEDED: nothing arrived");
  CHECK(operation["time_first_byte_ns"] >= operation["time_created_ns"]);
  CHECK(operation["time_completed_ns"] >= operation["time_last_byte_ns"]);
  recorder->refused(recorder->called({"barrier"}), failed_precondition("failed before"));
  recorder->on_error();
  CHECK(folder.records().front() == file);
}

TEST_CASE("a process leaves so many files in a folder, the newest") {
  const Folder folder;
  FlightRecordFolder files(folder.path());
  FlightRecord record = recorded_group();
  for (std::uint64_t number = 1; number <= FlightRecordFolder::kMaxFiles + 5; ++number) {
    record.number = number;
    REQUIRE(files.write(record, FlightRecordReason::kAsked).is_ok());
  }
  const auto left = folder.records();
  CHECK(left.size() == FlightRecordFolder::kMaxFiles);
  for (const auto& one : left) CHECK(one["number"] > 5);
  CHECK(FlightRecordFolder(folder.path() + "/missing")
            .write(record, FlightRecordReason::kAsked)
            .status()
            .code() == StatusCode::kUnavailable);
}

TEST_CASE("a member's record says what runs and waits, and what has ended") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  std::vector<Bytes> data(2, Bytes(40'000));
  const Reduction sum{ElementType::kInt32, ReduceOp::kSum};
  const auto start = [&](std::size_t rank) {
    return *members[rank]->all_reduce_async(data[rank], data[rank], sum, kLimit);
  };
  const auto first = start(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const FlightRecord waiting = members[0]->flight_record();
  CHECK(waiting.nodes == std::vector<std::string>{"a", "b"});
  CHECK(waiting.last_enqueued_collective == 1);
  REQUIRE(waiting.operations.size() == 1);
  CHECK(waiting.operations[0].planned >= waiting.operations[0].called);
  CHECK_FALSE(waiting.operations[0].completed);
  CHECK(waiting.operations[0].epoch != Epoch(0));
  CHECK_MESSAGE(waiting.operations[0].waits_for.find("\"b\"; have they called it?") != std::string::npos,
                waiting.operations[0].waits_for);
  CHECK(members[1]->flight_record().operations.empty());

  CHECK(start(1)->wait().is_ok());
  CHECK(first->wait().is_ok());
  const auto receive = *members[0]->receive_async(data[0], Rank(1), 5, kLimit);
  CHECK(members[1]->send(data[1], Rank(0), 5, kLimit).is_ok());
  CHECK(receive->wait().is_ok());
  CHECK_FALSE(members[0]->broadcast(data[0], Rank(9), kLimit).is_ok());
  const FlightRecord over = members[0]->flight_record();
  CHECK(over.last_completed_collective == 1);
  REQUIRE(over.operations.size() == 3);
  CHECK(over.operations[0].state == OperationState::kCompleted);
  CHECK(over.operations[0].size_bytes == 40'000);
  CHECK(over.operations[0].first_byte <= over.operations[0].last_byte);
  CHECK(over.operations[0].last_byte <= over.operations[0].completed);
  CHECK(over.operations[1].operation == "receive");
  CHECK(over.operations[1].peer == Rank(1));
  CHECK(over.operations[1].tag == 5);
  CHECK(over.operations[1].p2p_seq_id == 1);
  CHECK_FALSE(over.operations[1].collective_seq_id);
  CHECK(over.operations[2].outcome.code() == StatusCode::kInvalidArgument);
}
