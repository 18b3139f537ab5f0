#include "controller/lone_controller.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "controller/coordinator_thread.h"
#include "controller/part_reader.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

constexpr Duration kInstallTimeout = std::chrono::seconds(10);
// An answer may be that late.
constexpr Duration kAnswerTime = std::chrono::seconds(1);
// The lease is as long as leases get.
constexpr Duration kBeatPause = std::chrono::hours(1);
// Nobody dials it.
constexpr const char* kNoAddress = "-";

}  // namespace

// Holds the coordinator by no more than a weak reference: the node may answer late.
class LoneController::Line final : public NodeLine, public std::enable_shared_from_this<Line> {
 public:
  Line(std::string node, ControllerEvents events, std::weak_ptr<Coordinator> coordinator)
      : node_(std::move(node)),
        parts_(node_),
        events_(std::move(events)),
        coordinator_(std::move(coordinator)) {}

  void send(std::shared_ptr<const v1::ControllerEvent> event) override {
    if (is_closed_) return;
    if (event->event_case() == v1::ControllerEvent::kPlan) return install(event->plan());
    if (event->event_case() == v1::ControllerEvent::kActivate) {
      events_.on_activate(Epoch(event->activate().epoch()), event->activate().moves());
    }
  }

  void close(Status /*reason*/, bool /*at_once*/) override { is_closed_ = true; }

 private:
  void install(const v1::PlanPart& part) {
    auto plan = parts_.read(part);
    if (!plan.is_ok()) {
      log(LogLevel::kError, {.component = "controller", .node = node_}, "{}", plan.status().to_string());
      return;
    }
    const auto installed = [weak = weak_from_this()](Epoch epoch) {
      const auto line = weak.lock();
      const auto coordinator = line ? line->coordinator_.lock() : nullptr;
      if (coordinator) coordinator->installed(line->node_, line.get(), epoch);
    };
    events_.on_plan(*std::move(plan), installed);
  }

  const std::string node_;
  PartReader parts_;
  const ControllerEvents events_;
  const std::weak_ptr<Coordinator> coordinator_;
  std::atomic<bool> is_closed_ = false;
};

Result<std::unique_ptr<LoneController>> LoneController::start(const std::string& node,
                                                              ControllerEvents events) {
  Scenario scenario;
  scenario.name = node;
  scenario.policy.name = "exact";  // plans whatever it is asked for
  SQUARE_ASSIGN_OR_RETURN(auto made,
                          CoordinatorThread::create(kMaxWait, kInstallTimeout, std::move(scenario)));
  const std::shared_ptr<CoordinatorThread> running = std::move(made);
  const std::shared_ptr<Coordinator> coordinator(running, &running->coordinator());
  const auto line = std::make_shared<Line>(node, std::move(events), coordinator);
  std::unique_ptr<LoneController> controller(new LoneController(node, running, line));
  v1::Hello hello;
  put_versions(hello);
  hello.set_node(node);
  hello.set_address(kNoAddress);
  hello.set_incarnation(1);
  SQUARE_RETURN_IF_ERROR(coordinator->join(hello, line));
  return controller;
}

LoneController::LoneController(std::string node, std::shared_ptr<CoordinatorThread> running,
                               std::shared_ptr<Line> line)
    : node_(std::move(node)), running_(std::move(running)), line_(std::move(line)) {}

LoneController::~LoneController() { stop(); }

void LoneController::stop() {
  running_->coordinator().stop();
  running_->join();
}

Result<GroupRegistration> LoneController::register_group(const GroupSpec& group, Duration timeout) {
  // Shared: the caller may be gone before the answer comes.
  const auto promise = std::make_shared<std::promise<Result<Answer>>>();
  auto answered = promise->get_future();
  GroupSpec own = group;
  own.registrant = node_;
  running_->coordinator().submit(std::move(own),
                                 [promise](Result<Answer> result) { promise->set_value(std::move(result)); });
  if (answered.wait_for(bounded(timeout)) != std::future_status::ready) {
    return deadline_exceeded(fmt::format("group \"{}\" was not planned and installed within {:.3g} s",
                                         group.name, to_seconds(timeout)));
  }
  // Its node has heard of the activation before: answers come last.
  SQUARE_ASSIGN_OR_RETURN(Answer answer, answered.get());
  return GroupRegistration{std::move(answer.collectives), answer.epoch, answer.group};
}

Result<GroupSpec> LoneController::regroup(const RegroupRequest& request, Duration timeout) {
  const auto promise = std::make_shared<std::promise<Result<GroupSpec>>>();
  auto answered = promise->get_future();
  running_->coordinator().regroup(
      {request, node_, {}, {}}, bounded(timeout),
      [promise](Result<GroupSpec> result) { promise->set_value(std::move(result)); });
  if (answered.wait_for(bounded(timeout) + kAnswerTime) == std::future_status::ready) return answered.get();
  return deadline_exceeded(
      fmt::format("group \"{}\" did not go on within {:.3g} s", request.group, to_seconds(timeout)));
}

void LoneController::close_group(const std::string& group, std::uint64_t number) {
  v1::Closed part;
  part.set_group(group);
  part.set_number(number);
  running_->coordinator().closed(node_, line_.get(), part);
}

void LoneController::note_use() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  auto next = next_beat_.load(std::memory_order_relaxed);
  if (now.count() < next || !next_beat_.compare_exchange_strong(next, (now + kBeatPause).count())) return;
  running_->coordinator().heartbeat(node_, line_.get(), {});
}

}  // namespace square::controller
