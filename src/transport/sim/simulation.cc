#include "square/simulation.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "transport/sim/simulated_transport.h"
#include "transport/sim/simulation_state.h"

namespace square {
namespace {

// Payload work ends after a moment of this length at most.
constexpr Duration kWorkTime = std::chrono::microseconds(200);

}  // namespace

void Simulation::State::schedule(TimePoint when, Executor::Task task) {
  const TimePoint due = std::max(when, clock.time);
  events.push({due, due, next_order++, std::move(task)});
}

void Simulation::State::schedule_at(const std::string& node, TimePoint when, Executor::Task task) {
  const TimePoint due = std::max(when, clock.time);
  schedule_for(node, {due, due, next_order++, std::move(task)});
}

void Simulation::State::schedule_for(const std::string& node, Event event) {
  Event checked{event.when, event.due, event.order, {}};
  checked.task = [this, node, event = std::move(event)]() mutable {
    const auto paused = paused_until.find(node);
    if (paused == paused_until.end() || paused->second <= clock.time) return event.task();
    event.when = paused->second;
    schedule_for(node, std::move(event));
  };
  events.push(std::move(checked));
}

double Simulation::State::draw() {
  constexpr double kScale = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(random() >> 11U) * kScale;
}

const LinkConditions& Simulation::State::conditions(const std::string& from, const std::string& to) const {
  const auto found = link_conditions.find({from, to});
  return found == link_conditions.end() ? default_conditions : found->second;
}

void Simulation::State::trace(std::initializer_list<std::uint64_t> numbers) {
  for (std::uint64_t number : numbers) {
    for (int byte = 0; byte < 8; ++byte) {
      trace_hash = (trace_hash ^ (number & 0xffU)) * 0x100000001b3U;
      number >>= 8U;
    }
  }
}

class SimulatedExecutor final : public Executor {
 public:
  SimulatedExecutor(Simulation::State& simulation, std::string node)
      : simulation_(simulation), node_(std::move(node)) {}
  ~SimulatedExecutor() override { *alive_ = false; }

  void post(Task task) override { schedule(simulation_.clock.time, std::move(task)); }

  TimerId post_at(TimePoint when, Task task) override {
    const TimerId timer = ++last_timer_;
    timers_.insert(timer);
    schedule(when - simulation_.ahead(node_), [this, timer, task = std::move(task)] {
      if (timers_.erase(timer) == 1) task();
    });
    return timer;
  }

  void cancel(TimerId timer) override { timers_.erase(timer); }

  void work(std::size_t /*bytes*/, Task task) override {
    schedule(simulation_.clock.time + from_seconds(simulation_.draw() * to_seconds(kWorkTime)),
             std::move(task));
  }

 private:
  void schedule(TimePoint when, Task task) {
    simulation_.schedule_at(node_, when, [alive = alive_, task = std::move(task)] {
      if (*alive) task();
    });
  }

  Simulation::State& simulation_;
  const std::string node_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unordered_set<TimerId> timers_;
  TimerId last_timer_ = 0;
};

class SimulatedClock final : public Clock {
 public:
  SimulatedClock(const Simulation::State& simulation, std::string node)
      : simulation_(simulation), node_(std::move(node)) {}
  [[nodiscard]] TimePoint now() const override { return simulation_.clock.time + simulation_.ahead(node_); }

 private:
  const Simulation::State& simulation_;
  const std::string node_;
};

Simulation::Simulation(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {}
Simulation::~Simulation() = default;

const Clock& Simulation::clock() const { return state_->clock; }

std::unique_ptr<Clock> Simulation::make_clock(std::string node_name) const {
  return std::make_unique<SimulatedClock>(*state_, std::move(node_name));
}

void Simulation::step_clock(const std::string& node_name, Duration ahead) {
  state_->clocks_ahead[node_name] += ahead;
}

std::unique_ptr<Executor> Simulation::make_executor(std::string node_name) {
  return std::make_unique<SimulatedExecutor>(*state_, std::move(node_name));
}

std::unique_ptr<Transport> Simulation::make_transport(std::string node_name) {
  return std::make_unique<SimulatedTransport>(*state_, std::move(node_name));
}

void Simulation::set_conditions(const std::string& from, const std::string& to, LinkConditions conditions) {
  state_->link_conditions[{from, to}] = conditions;
  const auto tail = state_->transports.find(SimulatedTransport::address_of(from));
  const auto head = state_->transports.find(SimulatedTransport::address_of(to));
  if ((conditions.is_cut || conditions.is_refused) && tail != state_->transports.end()) tail->second->cut(to);
  if (conditions.is_stalled || conditions.mute) {
    if (tail != state_->transports.end()) tail->second->mind_silence(LinkEnd::kTail, to);
    if (head != state_->transports.end()) head->second->mind_silence(LinkEnd::kHead, from);
  }
  if (conditions.is_stalled) return;
  if (tail != state_->transports.end()) tail->second->resume(LinkEnd::kTail, to);
  if (head != state_->transports.end()) head->second->resume(LinkEnd::kHead, from);
}

void Simulation::pause(const std::string& node_name, Duration duration) {
  // Not earlier than it would have ended: what waits for that must not come after what comes meanwhile.
  TimePoint& until = state_->paused_until[node_name];
  until = std::max(until, state_->clock.time + duration);
}

void Simulation::set_default_conditions(LinkConditions conditions) {
  state_->default_conditions = conditions;
}

LinkConditions Simulation::conditions(const std::string& from, const std::string& to) const {
  return state_->conditions(from, to);
}

bool Simulation::run_until(const std::function<bool()>& finished, TimePoint deadline) {
  while (!finished() && !state_->events.empty() && state_->events.top().when <= deadline) {
    // priority_queue gives no mutable access; the event is popped right after.
    Executor::Task task = std::move(const_cast<State::Event&>(state_->events.top()).task);
    state_->clock.time = state_->events.top().when;
    state_->events.pop();
    task();
  }
  return finished();
}

std::uint64_t Simulation::trace_hash() const { return state_->trace_hash; }
std::uint64_t Simulation::frames_delivered() const { return state_->delivered; }
std::uint64_t Simulation::frames_dropped() const { return state_->dropped; }

}  // namespace square
