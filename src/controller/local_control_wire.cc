#include "controller/local_control_wire.h"

#include <utility>

#include "controller/answers.h"
#include "controller/protocol.h"
#include "square/planner.h"

namespace square::controller {
namespace {

constexpr Duration kInstallTimeout = std::chrono::seconds(10);

class ImmediatePlans final : public PlanSource {
 public:
  Result<PlanResult> plan(const Scenario& scenario) override { return planner_.plan(scenario); }
  std::optional<Result<PlanResult>> take_better() override { return std::nullopt; }
  void stop() override {}

 private:
  Planner planner_;
};

}  // namespace

// The controller's end of the connection; goes with the coordinator.
class LocalControlWire::Line final : public NodeLine {
 public:
  Line(LocalControlWire& wire, Number number) : wire_(wire), number_(number) {}
  void send(std::shared_ptr<const v1::ControllerEvent> event) override {
    wire_.strand_.post([&wire = wire_, number = number_, event = std::move(event)] {
      if (wire.connection_ == number) wire.events_.heard(number, *event);
    });
  }
  void close(Status reason, bool /*at_once*/) override { wire_.end(number_, reason); }

 private:
  LocalControlWire& wire_;
  const Number number_;
};

void LocalControlWire::take_step() {
  const std::optional<TimePoint> next = coordinator_->step();
  strand_.cancel(timer_);
  if (next) timer_ = strand_.post_at(*next, [this] { take_step(); });
}

void LocalControlWire::dial(Number connection, const std::string& /*address*/) {
  if (!coordinator_) coordinator_ = make_coordinator();
  connection_ = connection;
  line_ = std::make_shared<Line>(*this, connection);
}

std::unique_ptr<Coordinator> LocalControlWire::make_coordinator() {
  Scenario scenario;
  scenario.name = node_;
  scenario.policy.name = "exact";  // plans whatever it is asked for
  Coordinator::Surroundings surroundings{
      steady_clock(), [this] { strand_.post([this] { take_step(); }); },
      [](const auto& /*ready*/) { return std::make_unique<ImmediatePlans>(); }};
  return *Coordinator::create(std::move(surroundings), kMaxWait, kInstallTimeout, std::move(scenario),
                              store::make_memory_store());
}

void LocalControlWire::send(Number connection, const v1::NodeEvent& event) {
  if (connection != connection_) return;
  const Status joined = event.has_hello() ? coordinator_->join(event.hello(), line_) : Status::ok();
  if (!joined.is_ok() || event.has_goodbye()) end(connection, joined);
  take(*coordinator_, node_, line_.get(), event);
}

void LocalControlWire::end(Number connection, const Status& reason) {
  strand_.post([this, connection, reason] {
    if (connection != connection_) return;
    close(connection);
    events_.ended(connection, reason);
  });
}

void LocalControlWire::close(Number connection) {
  if (connection != connection_) return;
  connection_ = 0;
  coordinator_->lost(node_, std::exchange(line_, nullptr).get());
}

// The node may not wait for the answer any more.
template <typename Response>
ControlWire::Answered<Response> LocalControlWire::once(Number call, Answered<Response> answered) {
  calls_.insert(call);
  return [this, call, answered = std::move(answered)](Result<Response> response) {
    strand_.post([this, call, answered, response = std::move(response)] {
      if (calls_.erase(call) != 0) answered(response);
    });
  };
}

void LocalControlWire::ask(Number /*connection*/, Number call, const v1::RegisterGroupRequest& question,
                           TimePoint /*end*/, Answered<v1::RegisterGroupResponse> answered) {
  answer(*coordinator_, question, once(call, std::move(answered)));
}

void LocalControlWire::ask(Number /*connection*/, Number call, const v1::RegroupRequest& question,
                           TimePoint /*end*/, Answered<v1::RegroupResponse> answered) {
  answer(*coordinator_, question, once(call, std::move(answered)));
}

void LocalControlWire::ask(Number /*connection*/, Number call, const v1::ListKeySharesRequest& question,
                           TimePoint /*end*/, Answered<v1::ListKeySharesResponse> answered) {
  answer(*coordinator_, question, once(call, std::move(answered)));
}

}  // namespace square::controller
