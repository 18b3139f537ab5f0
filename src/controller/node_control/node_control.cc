#include "controller/node_control/node_control.h"

#include <utility>

namespace square::controller {
namespace {

Status left() { return cancelled("the node leaves the overlay"); }

}  // namespace

NodeControl::NodeControl(ControlWire& wire, const Clock& clock, Executor& executor,
                         const NodeControlOptions& options, ControllerEvents events)
    : changed_(options.changed),
      recollection_(options.node),
      line_({wire, clock, executor, recollection_, [this] { look(); }}, options, std::move(events)),
      registering_({wire, clock, executor, line_, recollection_, [this] { return ++last_call_; }}, options),
      regrouping_({wire, clock, executor, line_, [this] { return ++last_call_; }}, options) {}

void NodeControl::look() {
  if (changed_) changed_();
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
