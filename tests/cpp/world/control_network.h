// The way between nodes and their controller: connections that carry what is said in order, break, stall one
// way or both, and end with their processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "square/executor.h"
#include "square/simulation.h"

namespace square::test {

// Single-threaded, as the simulation. Processes are known by their hosts' names; one a host.
class ControlNetwork {
 public:
  using Task = Executor::Task;
  using Host = std::string;

  explicit ControlNetwork(Simulation& simulation) : simulation_(simulation) {}

  // What arrives at the host from now on runs on the executor; null: nobody is there, what is on its way is
  // lost.
  void set_process(const Host& host, Executor* executor) { processes_[host] = executor; }
  [[nodiscard]] bool is_there(const Host& host) const;

  // Nobody answers there, not even the host.
  void set_off(const Host& host, bool is_off) { is_off ? (void)off_.insert(host) : (void)off_.erase(host); }
  // Something on the way refuses connections in the name of `to`.
  void set_refused(const Host& from, const Host& to, bool is_refused) {
    is_refused ? (void)refused_.insert({from, to}) : (void)refused_.erase({from, to});
  }
  // A connection is refused at once.
  [[nodiscard]] bool is_refused(const Host& from, const Host& to) const {
    return refused_.contains({from, to}) || (!is_there(to) && !off_.contains(to) && !is_blocked(from, to));
  }

  void set_delay(const Host& one, const Host& other, Duration delay);
  // What goes from one to the other waits, from now on or no more.
  void set_blocked(const Host& from, const Host& to, bool is_blocked);
  [[nodiscard]] bool is_blocked(const Host& from, const Host& to) const {
    return blocked_.contains({from, to});
  }

  // A number for a connection, or for one of the calls on it: each is in order by itself.
  std::uint64_t open() { return ++last_; }
  // Nothing more of it arrives.
  void forget(std::uint64_t channel) { ended_.insert(channel); }
  void carry(std::uint64_t channel, const Host& from, const Host& to, Task task);

 private:
  struct Message {
    std::uint64_t channel = 0;
    Host from;
    Host to;
    Task task;
  };
  void arrive(const Message& message);
  [[nodiscard]] Duration delay(const Host& from, const Host& to) const;

  Simulation& simulation_;
  std::map<Host, Executor*> processes_;
  std::map<std::pair<Host, Host>, Duration> delays_;
  std::set<Host> off_;
  std::set<std::pair<Host, Host>> refused_;
  std::set<std::pair<Host, Host>> blocked_;
  std::map<std::pair<Host, Host>, std::vector<Message>> waiting_;
  std::map<std::pair<std::uint64_t, Host>, TimePoint> last_arrival_;  // by channel and receiver
  std::set<std::uint64_t> ended_;
  std::uint64_t last_ = 0;
};

}  // namespace square::test
