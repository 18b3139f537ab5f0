// Pushes on their way: from a worker's request until all servers have it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/master/lines.h"

namespace square::ps {

// One server's part of a push, under way.
struct Moving {
  TimePoint since{};
  int attempts = 0;
};

struct Push {
  std::uint64_t ticket = 0;
  std::string worker;
  std::uint64_t incarnation = 0;
  std::uint64_t number = 0;
  std::uint64_t base_version = 0;
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> chunks;
  bool is_seed = false;
  TimePoint since{};
  std::map<std::string, double> squared_norms;  // of the servers that have their part
  std::map<std::string, Moving> moving;
  std::map<std::string, int> failures;
  bool is_told_doubt = false;
  bool is_orphan = false;  // its worker was told to start over: if nothing is made of it, its chunks are free
};

// Who sends to which server, and when. One cluster sends to one server at a time where others want to send,
// and no two meet at one server unless one would have to wait for long (Di-PS, Figure 5); a cluster alone
// sends to all servers at once. Not thread-safe.
class Pushes {
 public:
  // A cluster waits no longer than this for a server that nobody else sends to: a slow one must not hold up
  // the others.
  static constexpr Duration kStep = std::chrono::milliseconds(250);

  Pushes(Desk& desk, Members& members, Lines& lines) : desk_(desk), members_(members), lines_(lines) {}

  void begin(Push push);
  // A server says that it has its part, or has not got it. The push, if all have it now; the reason, if it
  // has failed for good.
  struct Outcome {
    std::optional<Push> held;
    std::optional<Push> failed;
    Status reason;
  };
  Outcome on_taken(const ServerEntry& server, const v1::PsPushTaken& taken);
  // Its worker says that it cannot send to a server.
  Outcome on_failed(const WorkerEntry& worker, const v1::PsPushFailed& failed);
  // Takes it out, and has the servers drop what they have of it.
  std::optional<Push> remove(std::uint64_t ticket);
  // Those of a worker; all.
  std::vector<Push> remove_all(const std::string& worker);
  std::vector<Push> remove_all();
  // Fails pushes that take too long; begins what may begin.
  std::vector<Outcome> on_time();

  [[nodiscard]] bool has_of(const std::string& worker) const;
  [[nodiscard]] bool is_empty() const { return pushes_.empty(); }
  std::map<std::uint64_t, Push>& all() { return pushes_; }

 private:
  void grant();
  // The server that nobody sends to and that the push still needs; otherwise, where it has waited for long,
  // the one with the fewest.
  const v1::PsShard* next_server(const Push& push) const;
  void send(Push& push, const v1::PsShard& shard);
  Outcome fail(Push& push, const ServerEntry& server, const Status& reason);
  [[nodiscard]] std::size_t senders(const std::string& server) const;

  Desk& desk_;
  Members& members_;
  Lines& lines_;
  std::map<std::uint64_t, Push> pushes_;  // by ticket: the oldest first
};

// Has every server of the layout forget what it has of a push.
void drop_everywhere(const Desk& desk, Members& members, std::uint64_t ticket);

}  // namespace square::ps
