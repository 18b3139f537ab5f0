#include "controller/node_control/node_control.h"

#include <utility>

namespace square::controller {
namespace {

Status left() { return cancelled("the node leaves the overlay"); }

}  // namespace

NodeControl::NodeControl(ControlWire& wire, const Clock& clock, const std::shared_ptr<Executor>& executor,
                         const NodeControlOptions& options, ControlledNode& node)
    : recollection_(options.node_name),
      line_({wire, clock, executor, recollection_, node, [this] { look(); }}, options),
      calls_{wire, clock, *executor, line_},
      registering_(calls_, recollection_, options),
      regrouping_(calls_, options) {
  wire.tell({[this](auto connection, const auto& event) { line_.heard(connection, event); },
             [this](auto connection, const Status& reason) { line_.ended(connection, reason); }});
}

void NodeControl::look() {
  registering_.look();
  regrouping_.look();
}

void NodeControl::register_group(GroupSpec group, TimePoint begun, Duration timeout, Registering::Done done) {
  if (has_left_) return done(left());
  registering_.ask(std::move(group), begun, timeout, std::move(done));
}

void NodeControl::regroup(RegroupRequest request, TimePoint begun, Duration timeout, Regrouping::Done done) {
  if (has_left_) return done(left());
  regrouping_.ask(std::move(request), begun, timeout, std::move(done));
}

void NodeControl::leave(const FinishedOperations& finished, std::function<void()> left_now) {
  has_left_ = true;
  registering_.stop(left());
  regrouping_.stop(left());
  line_.leave(finished, std::move(left_now));
}

}  // namespace square::controller
