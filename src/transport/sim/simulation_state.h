// What a Simulation and its executors and transports share.
#pragma once

#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "square/simulation.h"

namespace square {

class SimulatedTransport;

struct Simulation::State {
  class VirtualClock final : public Clock {
   public:
    [[nodiscard]] TimePoint now() const override { return time; }
    TimePoint time{};
  };

  struct Event {
    TimePoint when;
    TimePoint due;        // earlier than `when` if a pause has put it off: it keeps its place
    std::uint64_t order;  // ties run in the order in which they were scheduled
    Executor::Task task;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tuple(a.when, a.due, a.order) > std::tuple(b.when, b.due, b.order);
    }
  };

  explicit State(std::uint64_t seed) : random(seed) {}

  void schedule(TimePoint when, Executor::Task task);
  // What the node's process does, if it is not paused then.
  void schedule_at(const std::string& node, TimePoint when, Executor::Task task);
  void schedule_for(const std::string& node, Event event);
  // Uniform in [0, 1), the same on every machine.
  double draw();
  [[nodiscard]] const LinkConditions& conditions(const std::string& from, const std::string& to) const;
  // Folds numbers into the trace hash (FNV-1a, 64 bits).
  void trace(std::initializer_list<std::uint64_t> numbers);

  VirtualClock clock;
  std::mt19937_64 random;
  std::priority_queue<Event, std::vector<Event>, Later> events;
  std::uint64_t next_order = 0;
  LinkConditions default_conditions;
  std::map<std::pair<std::string, std::string>, LinkConditions> link_conditions;
  std::map<std::string, TimePoint> paused_until;  // by node
  std::map<std::string, Duration> clocks_ahead;   // by node
  [[nodiscard]] Duration ahead(const std::string& node) const {
    const auto found = clocks_ahead.find(node);
    return found == clocks_ahead.end() ? Duration(0) : found->second;
  }
  std::map<std::string, SimulatedTransport*> transports;  // by address
  std::uint64_t trace_hash = 0xcbf29ce484222325U;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;
};

}  // namespace square
