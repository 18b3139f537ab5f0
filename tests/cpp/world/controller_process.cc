#include "world/controller_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "controller/answers.h"
#include "controller/lead.h"
#include "controller/node_control/candidates.h"
#include "controller/protocol.h"
#include "store/holder.h"

namespace square::test {

using controller::Coordinator;

namespace {

// From the end of the lead to that of the process, and from there to the next one.
constexpr Duration kLastWords = std::chrono::milliseconds(100);
constexpr Duration kLongestRestart = std::chrono::seconds(3);

}  // namespace

// What AttachCall is over gRPC.
class ControllerProcess::Line final : public controller::NodeLine {
 public:
  Line(ControllerProcess& owner, Connection connection)
      : owner_(owner), network_(owner.network_), alive_(owner.alive_), connection_(std::move(connection)) {}

  void send(std::shared_ptr<const v1::ControllerEvent> event) override {
    if (has_ended_ || !*alive_) return;
    owner_.note_sent(*event);
    if (owner_.signer_) event = owner_.signer_->sign(connection_.node, event).value();
    network_.carry(connection_.number, owner_.address(), connection_.node,
                   [on_event = connection_.on_event, event] { on_event(*event); });
  }
  void close(Status reason, bool /*at_once*/) override {
    if (std::exchange(has_ended_, true) || !*alive_) return;
    network_.carry(connection_.number, owner_.address(), connection_.node,
                   [on_end = connection_.on_end, reason] {
                     on_end(reason.is_ok() ? unavailable("the controller ended the connection") : reason);
                   });
    // Not from here: whoever closes a line may be in the middle of something.
    owner_.executor_->post([&owner = owner_, number = connection_.number] { owner.lose(number); });
  }
  void answer(std::uint64_t call, ControlNetwork::Task told) {
    if (*alive_) network_.carry(call, owner_.address(), connection_.node, std::move(told));
  }

  // Its process is no more: the host says so, or nobody does.
  void reset() {
    network_.carry(connection_.number, owner_.address(), connection_.node,
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
    owner_.planned_in_ = owner_.disk_->term;
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
    owner_.planned_in_ = owner_.disk_->term;
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
      clock_(simulation.make_clock(settings_.host)),
      granting_(controller::granting_of(settings_.identity)),
      signer_(controller::signer_of(settings_.identity)),
      disk_(settings_.disk) {
  if (disk_) return;
  disk_ = std::make_shared<Disk>();
  disk_->id = dice_.number();
}

Status ControllerProcess::start() {
  kill();
  ++starts_;
  executor_ = simulation_.make_executor(settings_.host);
  alive_ = std::make_shared<bool>(true);
  is_woken_ = false;
  waiting_.clear();
  network_.set_off(settings_.address, false);
  if (settings_.stands_by) {
    network_.set_process(settings_.address, executor_.get());
    if (settings_.has_store) executor_->post([this] { wait_for_store(); });
    return {};
  }
  Status started = lead();
  if (!started.is_ok()) kill();
  if (is_alive()) network_.set_process(settings_.address, executor_.get());
  return started;
}

Status ControllerProcess::wake(const std::vector<LostController>& lost) {
  if (!is_alive()) return unavailable("the controller stopped");
  if (coordinator_) return {};
  Status woken = lead();
  if (woken.is_ok()) coordinator_->presume_gone(lost);
  if (woken.is_ok()) on_wake();
  return woken;
}

std::size_t ControllerProcess::waiting() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      waiting_, [&](const auto& one) { return clock_->now() - one.second <= controller::kWaitingTime; }));
}

// It dies where it is killed while it writes: then it is not alive any more.
Status ControllerProcess::lead() {
  if (!settings_.has_store) {
    *disk_ = {};
    disk_->id = dice_.number();
  }
  Coordinator::Surroundings surroundings{
      *clock_, [this] { wake(); },
      [this](std::function<void()> ready) { return std::make_unique<Plans>(*this, std::move(ready)); }};
  surroundings.granting = granting_;
  last_sent_ = 0;
  auto store = std::make_unique<DiskStore>(*disk_, simulation_.clock(), settings_.address);
  store_ = store.get();
  try {
    auto made = Coordinator::create(std::move(surroundings), settings_.lease, settings_.install_timeout,
                                    settings_.scenario, std::move(store));
    if (!made.is_ok()) return made.status();
    coordinator_ = std::move(*made);
  } catch (const KilledWhileWriting&) {
    kill();
    on_death(until_next_);
    return {};
  }
  wake();
  return {};
}

// As LeadWatch does: it is the next that looks once the lease of the one before has ended.
void ControllerProcess::wait_for_store() {
  const bool is_free =
      disk_->is_reached_from(settings_.address) && disk_->lease_end <= simulation_.clock().now();
  if (!is_free) return later(store::kHolderWatchStep, [this] { wait_for_store(); });
  if (!lead().is_ok()) {
    disk_->lease_end = simulation_.clock().now();
    return later(controller::kLeadRetry, [this] { wait_for_store(); });
  }
  if (!coordinator_) return;
  log(LogLevel::kInfo, "controller", "{} leads, in term {}", settings_.address, store_->term());
  later(store::kLeaseBeat, [this] { keep_store(); });
  look_at_store();
}

void ControllerProcess::keep_store() {
  store_->beat(clock_->now());
  if (*store_->hold() != store::Hold::kTaken) later(store::kLeaseBeat, [this] { keep_store(); });
}

void ControllerProcess::look_at_store() {
  if (const auto why = controller::end_of_lead(*store_->hold(), true)) return step_down(*why);
  later(controller::kLeadLook, [this] { look_at_store(); });
}

void ControllerProcess::step_down(const std::string& why) {
  log(LogLevel::kError, "controller", "{} leads no more: {}", settings_.address, why);
  coordinator_->stop();
  later(kLastWords, [this] {
    store_->end();
    kill();
    on_death(dice_.between(kLastWords, kLongestRestart));
  });
}

void ControllerProcess::later(Duration wait, Executor::Task task) {
  executor_->post_at(clock_->now() + wait, std::move(task));
}

// A controller that has lost the store knows it before it tells anybody of a plan that it has made since. One
// that it made before may wait while it is stopped.
void ControllerProcess::note_sent(const v1::ControllerEvent& event) {
  if (!event.has_plan() || event.plan().epoch() <= last_sent_) return;
  last_sent_ = event.plan().epoch();
  if (on_part) on_part(event.plan());
  if (settings_.has_store && planned_in_ != event.plan().term() && on_fault)
    on_fault(fmt::format("{} publishes plan {} of term {}, and made it in term {}", settings_.address,
                         last_sent_, event.plan().term(), planned_in_));
}

void ControllerProcess::kill() {
  if (alive_) *alive_ = false;
  network_.set_process(settings_.address, nullptr);
  end_connections();
  coordinator_.reset();
  active_.reset();
  executor_.reset();
}

void ControllerProcess::lose_power() {
  if (alive_) *alive_ = false;
  network_.set_process(settings_.address, nullptr);
  network_.set_off(settings_.address, true);
  lines_.clear();
  coordinator_.reset();
  executor_.reset();
  if (!settings_.disk) disk_->lose_power();
}

void ControllerProcess::kill_at_write(bool keeps_it, Duration until_next) {
  until_next_ = until_next;
  disk_->writes_until_death = 1;
  disk_->keeps_the_last = keeps_it;
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
    if (active && active != std::exchange(active_, active) && on_plan) on_plan(*active);
    executor_->cancel(timer_);
    if (next) timer_ = executor_->post_at(*next, [this] { step(); });
  } catch (const KilledWhileWriting&) {
    kill();
    on_death(until_next_);
  }
}

void ControllerProcess::accept(Connection connection) {
  const std::uint64_t number = connection.number;
  if (!coordinator_) {
    if (connection.brings_successor) waiting_[connection.node] = clock_->now();
    return network_.carry(number, settings_.address, connection.node,
                          [on_end = connection.on_end] { on_end(unavailable(controller::kStandsBy)); });
  }
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
