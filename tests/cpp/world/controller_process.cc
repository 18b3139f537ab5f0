#include "world/controller_process.h"

#include <utility>

namespace square::test {

using controller::Coordinator;

// What AttachCall is over gRPC.
class ControllerProcess::Line final : public controller::NodeLine {
 public:
  Line(ControllerProcess& owner, Connection connection)
      : owner_(owner), network_(owner.network_), alive_(owner.alive_), connection_(std::move(connection)) {}

  void send(std::shared_ptr<const v1::ControllerEvent> event) override {
    if (has_ended_ || !*alive_) return;
    network_.carry(connection_.number, kControllerHost, connection_.node,
                   [on_event = connection_.on_event, event] { on_event(*event); });
  }
  void close(Status reason, bool /*at_once*/) override {
    if (std::exchange(has_ended_, true) || !*alive_) return;
    network_.carry(connection_.number, kControllerHost, connection_.node,
                   [on_end = connection_.on_end, reason] {
                     on_end(reason.is_ok() ? unavailable("the controller ended the connection") : reason);
                   });
    // Not from here: whoever closes a line may be in the middle of something.
    owner_.executor_->post([&owner = owner_, number = connection_.number] { owner.lose(number); });
  }
  void answer(std::uint64_t call, ControlNetwork::Task told) {
    if (*alive_) network_.carry(call, kControllerHost, connection_.node, std::move(told));
  }

  // Its process is no more: the host says so, or nobody does.
  void reset() {
    network_.carry(connection_.number, kControllerHost, connection_.node,
                   [on_end = connection_.on_end] { on_end(unavailable("connection reset by peer")); });
  }

  [[nodiscard]] bool has_ended() const { return has_ended_; }
  std::string joined_as;  // empty before the hello

 private:
  ControllerProcess& owner_;
  ControlNetwork& network_;
  const std::shared_ptr<bool> alive_;
  const Connection connection_;
  bool has_ended_ = false;
};

// Planning takes no virtual time, but that the policy's own plan may come later than a quick one.
class ControllerProcess::Plans final : public controller::PlanSource {
 public:
  Plans(ControllerProcess& owner, std::function<void()> ready) : owner_(owner), ready_(std::move(ready)) {}

  Result<PlanResult> plan(const Scenario& scenario) override {
    better_.reset();
    if (is_stopped_) return cancelled("the controller stopped");
    const std::size_t in = owner_.settings_.provisional_in;
    if (in == 0 || !owner_.dice_.one_in(in)) return planner_.plan(scenario);
    Result<PlanResult> quick = make_quick_plan(scenario);
    if (!quick.is_ok()) return planner_.plan(scenario);
    better_ = scenario;
    ready_at_ = owner_.clock_->now() +
                owner_.dice_.between(std::chrono::milliseconds(10), std::chrono::milliseconds(3'000));
    owner_.executor_->post_at(ready_at_, ready_);
    return quick;
  }

  std::optional<Result<PlanResult>> take_better() override {
    if (!better_ || owner_.clock_->now() < ready_at_) return std::nullopt;
    const Scenario scenario = *std::exchange(better_, std::nullopt);
    return planner_.plan(scenario);
  }

  void stop() override { is_stopped_ = true; }

 private:
  ControllerProcess& owner_;
  const std::function<void()> ready_;
  Planner planner_;
  std::optional<Scenario> better_;
  TimePoint ready_at_;
  bool is_stopped_ = false;
};

ControllerProcess::ControllerProcess(Simulation& simulation, ControlNetwork& network, Settings settings,
                                     std::uint64_t seed)
    : simulation_(simulation),
      network_(network),
      settings_(std::move(settings)),
      dice_(seed),
      clock_(simulation.make_clock(kControllerHost)) {
  disk_.id = dice_.number();
}

Status ControllerProcess::start() {
  kill();
  if (!settings_.has_store) {
    disk_ = {};
    disk_.id = dice_.number();
  }
  ++incarnation_;
  executor_ = simulation_.make_executor(kControllerHost);
  alive_ = std::make_shared<bool>(true);
  is_woken_ = false;
  Coordinator::Surroundings surroundings{
      *clock_, [this] { wake(); },
      [this](std::function<void()> ready) { return std::make_unique<Plans>(*this, std::move(ready)); }};
  Status started;
  try {
    auto made = Coordinator::create(std::move(surroundings), settings_.lease, settings_.install_timeout,
                                    settings_.scenario, std::make_unique<DiskStore>(disk_));
    started = made.status();
    if (made.is_ok()) coordinator_ = std::move(*made);
  } catch (const KilledWhileWriting&) {
    kill();
    on_death(until_next_);
    return {};
  }
  if (!started.is_ok()) {
    kill();
    return started;
  }
  network_.set_process(kControllerHost, executor_.get());
  wake();
  return {};
}

void ControllerProcess::kill() {
  if (alive_) *alive_ = false;
  network_.set_process(kControllerHost, nullptr);
  end_connections();
  coordinator_.reset();
  executor_.reset();
}

void ControllerProcess::lose_power() {
  if (alive_) *alive_ = false;
  network_.set_process(kControllerHost, nullptr);
  lines_.clear();
  coordinator_.reset();
  executor_.reset();
  disk_.lose_power();
}

void ControllerProcess::kill_at_write(bool keeps_it, Duration until_next) {
  until_next_ = until_next;
  disk_.writes_until_death = 1;
  disk_.keeps_the_last = keeps_it;
}

void ControllerProcess::end_connections() {
  for (const auto& [number, line] : std::exchange(lines_, {})) line->reset();
}

void ControllerProcess::wake() {
  if (std::exchange(is_woken_, true)) return;
  executor_->post([this] {
    is_woken_ = false;
    step();
  });
}

void ControllerProcess::step() {
  try {
    const std::optional<TimePoint> next = coordinator_->step();
    const controller::PublishedPlanPtr active = coordinator_->active();
    if (active && on_plan) on_plan(*active);
    executor_->cancel(timer_);
    if (next) timer_ = executor_->post_at(*next, [this] { step(); });
  } catch (const KilledWhileWriting&) {
    kill();
    on_death(until_next_);
  }
}

void ControllerProcess::accept(Connection connection) {
  const std::uint64_t number = connection.number;
  lines_[number] = std::make_shared<Line>(*this, std::move(connection));
}

void ControllerProcess::hear(std::uint64_t connection, const v1::NodeEvent& event) {
  const auto found = lines_.find(connection);
  if (found == lines_.end() || found->second->has_ended()) return;
  const std::shared_ptr<Line> line = found->second;
  if (!event.has_hello()) return controller::take(*coordinator_, line->joined_as, line.get(), event);
  const Status joined = coordinator_->join(event.hello(), line);
  if (!joined.is_ok()) return line->close(joined, false);
  line->joined_as = event.hello().node();
}

std::function<void(ControlNetwork::Task)> ControllerProcess::way_back(std::uint64_t connection,
                                                                      std::uint64_t call) {
  const auto found = lines_.find(connection);
  if (found == lines_.end()) return nullptr;
  return [line = found->second, call](ControlNetwork::Task told) { line->answer(call, std::move(told)); };
}

void ControllerProcess::lose(std::uint64_t connection) {
  const auto found = lines_.find(connection);
  if (found == lines_.end()) return;
  const std::shared_ptr<Line> line = found->second;
  lines_.erase(found);
  if (!line->joined_as.empty()) coordinator_->lost(line->joined_as, line.get());
}

}  // namespace square::test
