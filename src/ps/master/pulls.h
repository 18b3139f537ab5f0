// Versions on their way to workers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ps/master/lines.h"

namespace square::ps {

// A worker takes one version at a time, from all servers at once. Not thread-safe.
class Pulls {
 public:
  // A transfer that fails begins again after this, then after twice as long, and so on.
  static constexpr Duration kFirstWait = std::chrono::milliseconds(100);
  static constexpr Duration kLongestWait = std::chrono::seconds(5);

  Pulls(Desk& desk, Members& members, Lines& lines, std::uint64_t& last_ticket)
      : desk_(desk), members_(members), lines_(lines), last_ticket_(last_ticket) {}

  // In place of what the worker takes now, unless it takes that version. One that is being made is sent as it
  // is made.
  void begin(const std::string& worker, const v1::PsRecord& record, bool is_committed);
  void on_received(WorkerEntry& worker, const v1::PsReceived& received);
  void on_send_failed(const ServerEntry& server, std::uint64_t ticket);
  // It holds: who has all of it takes it over.
  void on_committed(std::uint64_t version);
  // It will not be.
  void cancel(std::uint64_t version);
  void end(const std::string& worker);
  // Transfers from this server begin again once it is there.
  void on_server_lost(const std::string& server);
  void on_time();

  [[nodiscard]] bool has_of(const std::string& worker) const { return pulls_.contains(worker); }

 private:
  struct Part {
    std::uint64_t ticket = 0;  // 0: does not move
    bool is_received = false;
    int failures = 0;
    TimePoint next_try{};
  };
  struct Pull {
    std::uint64_t version = 0;
    std::uint64_t maker = 0;
    std::uint64_t tokens = 0;
    v1::PsLayout layout;
    bool is_committed = false;
    TimePoint since{};
    std::map<std::string, Part> parts;  // by server
  };
  void start(const std::string& worker, Pull& pull);
  void stop(const std::string& worker, Pull& pull, const std::string& server);
  // Of the part that has this ticket; it begins again.
  void fail(const std::string& worker, std::uint64_t ticket);
  // It may take long: the worker goes on training meanwhile.
  void tell_doubt(const std::string& worker);
  void tell_committed(const std::string& worker, std::uint64_t version);

  Desk& desk_;
  Members& members_;
  Lines& lines_;
  std::uint64_t& last_ticket_;
  std::map<std::string, Pull> pulls_;  // by worker
};

}  // namespace square::ps
