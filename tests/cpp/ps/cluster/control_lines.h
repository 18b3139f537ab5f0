// Lines between members and their master in a simulation: opened by members again and again, broken by deaths
// and by partitions that last.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ps/master/master.h"
#include "world/control_network.h"

namespace square::test {

// A member's end.
class LineOwner {
 public:
  virtual ~LineOwner() = default;
  virtual void on_attached() = 0;
  virtual void on_order(const v1::PsOrder& order) = 0;
  virtual void on_detached() = 0;
};

// Single-threaded.
class ControlLines {
 public:
  static constexpr const char* kMaster = "master";

  ControlLines(Simulation& simulation, ControlNetwork& network)
      : simulation_(simulation), network_(network) {}

  // Null: there is none, and its lines break.
  void set_master(ps::MasterState* master, Executor* executor);
  void set_member(const std::string& host, LineOwner* owner, Executor* executor);
  void set_blocked(const std::string& host, bool is_blocked);
  // Opens what can be opened, breaks what is cut for too long. To be called often.
  void tend();

  void report(const std::string& host, v1::PsReport report);
  void order(ps::PeerId peer, v1::PsOrder order);
  void close(ps::PeerId peer);
  // The line breaks, and its member may open another at once.
  void flap(const std::string& host) { break_line(host, members_[host]); }

 private:
  // As keepalive of the real lines does.
  static constexpr Duration kCutTime = std::chrono::seconds(2);
  struct Member {
    LineOwner* owner = nullptr;
    Executor* executor = nullptr;
    ps::PeerId line = 0;  // 0: none
    TimePoint blocked_since{};
    bool is_blocked = false;
  };
  void open(const std::string& host, Member& member);
  // Each end hears of it, if it is still there.
  void break_line(std::string host, Member& member);

  Simulation& simulation_;
  ControlNetwork& network_;
  ps::MasterState* master_ = nullptr;
  Executor* master_executor_ = nullptr;
  std::uint64_t master_life_ = 0;
  std::map<std::string, Member> members_;
  std::map<ps::PeerId, std::string> hosts_;
};

}  // namespace square::test
