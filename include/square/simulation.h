// A network without a network: nodes run under virtual time, and everything that
// happens follows from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "square/clock.h"
#include "square/executor.h"
#include "square/transport.h"
#include "square/units.h"

namespace square {

// What a simulated link does to frames. Frames of one stream keep their order in each
// direction, frames of different streams overtake one another within `jitter`.
struct LinkConditions {
  Duration delay = std::chrono::milliseconds(1);
  Duration jitter{0};
  double loss = 0.0;  // probability that a frame is dropped, each on its own, 0 to 1
  // The same of frames from its tail alone, whose node loses them: the connection itself is well.
  double omission = 0.0;
  // Nothing passes: the connection breaks with what is under way, and nobody answers who dials.
  bool is_cut = false;
  // The same, and its head's host refuses connections.
  bool is_refused = false;
  // Nothing passes for a while, and nothing breaks: what is under way waits, and nobody answers who dials.
  bool is_stalled = false;
  // The same of what this end says: what the other says arrives.
  std::optional<LinkEnd> mute{};
  double duplication = 0.0;  // probability that a frame arrives twice
  double corruption = 0.0;   // probability that a bit of a frame is another when it arrives
  // Of frames from its tail to its head, one behind the other; kUnlimited: all at once.
  double capacity_bps = kUnlimited;
};

// Single-threaded. Owns the clock; transports and executors refer to it and must not
// outlive it.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  [[nodiscard]] const Clock& clock() const;
  // As the node's processes see it: ahead by what step_clock() said. Timers that run keep their time.
  std::unique_ptr<Clock> make_clock(std::string node_name) const;
  void step_clock(const std::string& node_name, Duration ahead);

  // One a node. Payload work takes a random moment, so that seeds explore orders.
  std::unique_ptr<Executor> make_executor(std::string node_name = {});
  // Its address is "sim:" and the name.
  std::unique_ptr<Transport> make_transport(std::string node_name);

  // For frames on the connection of link (from, to), data and answers alike; at once.
  void set_conditions(const std::string& from, const std::string& to, LinkConditions conditions);
  void set_default_conditions(LinkConditions conditions);
  [[nodiscard]] LinkConditions conditions(const std::string& from, const std::string& to) const;

  // From now on the node's process does nothing for so long: what would happen there happens then, in order.
  void pause(const std::string& node_name, Duration duration);

  // Runs events in order of time until `finished` says so or nothing is left to do
  // before `deadline`. Returns finished().
  bool run_until(const std::function<bool()>& finished, TimePoint deadline);

  // Over every frame that was delivered or dropped, with its time: equal for equal
  // seeds and programs.
  [[nodiscard]] std::uint64_t trace_hash() const;
  [[nodiscard]] std::uint64_t frames_delivered() const;
  [[nodiscard]] std::uint64_t frames_dropped() const;

 private:
  friend class SimulatedTransport;
  friend class SimulatedExecutor;
  friend class SimulatedClock;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace square
