// Who is there: workers and servers, and the lines that they speak on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ps/master/desk.h"

namespace square::ps {

struct MemberEntry {
  std::string name;
  std::string node;
  std::uint64_t incarnation = 0;
  PeerId peer = 0;  // 0: its line is lost
  TimePoint heard{};
};

struct WorkerEntry : MemberEntry {
  std::uint64_t base_version = 0;  // 0: none yet
  std::uint64_t last_push = 0;     // its number
  TimePoint last_push_at{};
  // How long from one push to the next, smoothed; 0: not known.
  double interval_seconds = 0;
  // For people to look at.
  std::uint64_t pushes = 0;
  std::uint64_t excluded = 0;
  std::uint64_t skipped = 0;
  double push_seconds = 0;
  double pull_seconds = 0;
  // Of its last push in a version.
  std::uint64_t staleness = 0;
  double norm = 0;
  double score = 0;
  double wait_seconds = 0;  // until it was adopted
};

struct ServerEntry : MemberEntry {
  TimePoint came{};
  double capacity_bps = 0;
  std::vector<v1::PsHeld> held;  // as it said when it came
  v1::PsModel model;
  // It has the committed version, and takes part.
  bool is_ready = false;
  double update_seconds = 0;
  double snapshot_seconds = 0;

  // What it said that it has of this version, of this maker; null: nothing.
  [[nodiscard]] const v1::PsHeld* find(std::uint64_t version, std::uint64_t maker) const;
  [[nodiscard]] bool has(std::uint64_t version, std::uint64_t maker) const {
    return find(version, maker) != nullptr;
  }
};

// Not thread-safe.
class Members {
 public:
  // Null: none is called so, or speaks on that line.
  WorkerEntry* worker(const std::string& name);
  ServerEntry* server(const std::string& name);
  WorkerEntry* worker_at(PeerId peer);
  ServerEntry* server_at(PeerId peer);

  std::map<std::string, WorkerEntry>& workers() { return workers_; }
  std::map<std::string, ServerEntry>& servers() { return servers_; }
  [[nodiscard]] const std::map<std::string, WorkerEntry>& workers() const { return workers_; }
  [[nodiscard]] const std::map<std::string, ServerEntry>& servers() const { return servers_; }
  [[nodiscard]] std::size_t live_workers() const;

  // All servers of the layout are ready; otherwise the first that is not is named.
  [[nodiscard]] bool are_ready(const v1::PsLayout& layout, std::string* missing = nullptr) const;
  // None of them has been silent for longer.
  [[nodiscard]] bool are_heard(const v1::PsLayout& layout, TimePoint since) const;

 private:
  std::map<std::string, WorkerEntry> workers_;
  std::map<std::string, ServerEntry> servers_;
};

}  // namespace square::ps
