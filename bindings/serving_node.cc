#include "serving_node.h"

#include "base/check.h"

namespace square::python {

Result<std::string> ServingNode::serve_gateway(GatewayOptions options) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return cancelled("node \"" + name() + "\" was stopped");
  if (gateway_) {
    return failed_precondition("node \"" + name() + "\" serves processes at " + gateway_->socket_path() +
                               " already");
  }
  SQUARE_ASSIGN_OR_RETURN(gateway_, Gateway::serve(*node_, std::move(options)));
  return gateway_->socket_path();
}

Gateway::Statistics ServingNode::gateway_statistics() const {
  std::shared_ptr<Gateway> gateway;
  {
    const std::lock_guard lock(mutex_);
    gateway = gateway_;
  }
  return gateway ? gateway->statistics() : Gateway::Statistics{};
}

void ServingNode::stop() {
  std::shared_ptr<Gateway> gateway;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    gateway = gateway_;  // not taken: a stop() beside this one is to wait for it too
  }
  if (gateway) gateway->stop();
  node_->stop();  // ends the registrations that the gateway's destructor waits for
  const std::lock_guard lock(mutex_);
  gateway_.reset();
}

}  // namespace square::python
