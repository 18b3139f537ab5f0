// Flight records as JSON, and as files.
#include "square/flight_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/net/file_descriptor.h"

namespace square {
namespace {

using Json = nlohmann::ordered_json;

// Of a group's name in a file's name.
constexpr std::size_t kNameBytes = 80;
constexpr mode_t kOwners = 0600;

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// In ticks since boot: with it, a number of a process is not another process's later.
std::uint64_t started_at() {
  const std::string line = first_line("/proc/self/stat");
  constexpr int kStart = 20;  // fields behind the name and the state
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 0; i < kStart && fields >> field; ++i) {
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

Json process(int asked_by) {
  std::error_code error;
  char host[256] = "";  // NOLINT(modernize-avoid-c-arrays): gethostname wants one
  gethostname(host, sizeof host - 1);
  return {{"pid", getpid()},
          {"started_ticks", started_at()},
          {"host", host},
          {"boot_id", first_line("/proc/sys/kernel/random/boot_id")},
          {"pid_namespace", std::filesystem::read_symlink("/proc/self/ns/pid", error).string()},
          {"signal", asked_by == 0 ? Json(nullptr) : Json(asked_by)}};
}

const char* to_string(FlightRecordReason reason) {
  switch (reason) {
    case FlightRecordReason::kCreated: return "created";
    case FlightRecordReason::kFirstError: return "first_error";
    case FlightRecordReason::kAsked: return "asked";
    case FlightRecordReason::kTerminated: return "terminated";
    case FlightRecordReason::kClosed: return "closed";
  }
  return "asked";
}

// From the steady clock to nanoseconds since 1970.
class WallTime {
 public:
  WallTime()
      : since_(std::chrono::system_clock::now().time_since_epoch() -
               steady_clock().now().time_since_epoch()) {}
  [[nodiscard]] std::int64_t of(TimePoint when) const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch() + since_).count();
  }
  [[nodiscard]] std::int64_t now() const { return of(steady_clock().now()); }

 private:
  const std::chrono::system_clock::duration since_;
};

Json to_json(const OperationRecord& record, const WallTime& wall) {
  Json json{{"record_id", record.record_id}, {"operation", record.operation}};
  if (record.collective_seq_id) json["collective_seq_id"] = *record.collective_seq_id;
  if (record.p2p_seq_id) json["p2p_seq_id"] = *record.p2p_seq_id;
  json["size_bytes"] = record.size_bytes;
  if (record.peer) json["peer"] = record.peer->value();
  if (record.tag != 0) json["tag"] = record.tag;
  json["state"] = to_string(record.state);
  json["time_created_ns"] = wall.of(record.called);
  const auto put = [&](const char* name, const std::optional<TimePoint>& when) {
    if (when) json[name] = wall.of(*when);
  };
  put("time_planned_ns", record.planned);
  put("time_first_byte_ns", record.first_byte);
  put("time_last_byte_ns", record.last_byte);
  put("time_completed_ns", record.completed);
  if (record.epoch != Epoch(0)) json["epoch"] = record.epoch.value();
  if (!record.waits_for.empty()) json["waits_for"] = record.waits_for;
  if (record.completed) json["outcome"] = record.outcome.is_ok() ? "OK" : record.outcome.to_string();
  return json;
}

std::string file_name(const FlightRecord& record) {
  std::string name = record.group.substr(0, kNameBytes);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return fmt::format("flight-{}-{}-rank{}-{}.json", name, record.number, record.rank.value(), getpid());
}

Status failed(const char* what, const std::string& path) {
  return unavailable(fmt::format("cannot {} {}: {}", what, path, net::describe_errno(errno)));
}

Status write_file(const std::string& path, const std::string& text) {
  const std::string draft = path + ".tmp";
  // One that a killed process left behind, or somebody's link.
  unlink(draft.c_str());
  const net::FileDescriptor file(
      open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwners));
  if (!file) return failed("make", draft);
  for (std::string_view left = text; !left.empty();) {
    const ssize_t written = ::write(file.get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", draft);
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  return std::rename(draft.c_str(), path.c_str()) == 0 ? Status::ok() : failed("rename to", path);
}

}  // namespace

std::string_view to_string(OperationState state) {
  switch (state) {
    case OperationState::kScheduled: return "scheduled";
    case OperationState::kStarted: return "started";
    case OperationState::kCompleted: return "completed";
    case OperationState::kFailed: return "failed";
  }
  return "scheduled";
}

std::string to_json(const FlightRecord& record, FlightRecordReason reason, int asked_by) {
  const WallTime wall;
  Json operations = Json::array();
  for (const OperationRecord& one : record.operations) operations.push_back(to_json(one, wall));
  const Json all{{"format", "square.flight_record/1"},
                 {"written_ns", wall.now()},
                 {"reason", to_string(reason)},
                 {"process", process(asked_by)},
                 {"group", record.group},
                 {"number", record.number},
                 {"rank", record.rank.value()},
                 {"nodes", record.nodes},
                 {"last_enqueued_collective", record.last_enqueued_collective},
                 {"last_completed_collective", record.last_completed_collective},
                 {"operations", std::move(operations)}};
  // A text of another process may be of any bytes.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> FlightRecordFolder::write(const FlightRecord& record, FlightRecordReason reason) {
  const std::string path = path_ + "/" + file_name(record);
  const std::string text = to_json(record, reason, asked_by_) + "\n";
  const std::lock_guard lock(mutex_);
  const Status written = write_file(path, text);
  if (!written.is_ok()) return written;
  std::erase(files_, path);
  files_.push_back(path);
  if (files_.size() > kMaxFiles) {
    unlink(files_.front().c_str());
    files_.pop_front();
  }
  return path;
}

}  // namespace square
