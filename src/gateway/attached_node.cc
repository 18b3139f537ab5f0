#include "base/check.h"
#include "base/net/socket.h"
#include "gateway/attached_core.h"
#include "square/gateway.h"

namespace square {

class AttachedNode::Core {
 public:
  explicit Core(std::shared_ptr<gateway::AttachedCore> parts) : parts_(std::move(parts)) {}
  ~Core() { parts_->leave(); }

  gateway::AttachedCore& parts() { return *parts_; }

 private:
  std::shared_ptr<gateway::AttachedCore> parts_;
};

Result<std::unique_ptr<AttachedNode>> AttachedNode::attach(AttachOptions options) {
  SQUARE_ASSIGN_OR_RETURN(const net::HostPort address, net::parse_host_port(options.gateway_address));
  auto socket = net::connect_to(address, options.timeout);
  if (!socket.is_ok()) {
    return unavailable("no gateway: " + socket.status().message() +
                       "; start one with `square node --gateway`");
  }
  SQUARE_ASSIGN_OR_RETURN(auto loop, gateway::EventLoop::make());
  auto parts =
      std::make_shared<gateway::AttachedCore>(std::move(options), std::move(loop), *std::move(socket));
  // Leaves again if it fails.
  std::unique_ptr<AttachedNode> node(new AttachedNode(std::make_shared<Core>(parts)));
  SQUARE_RETURN_IF_ERROR(parts->begin());
  return node;
}

AttachedNode::AttachedNode(std::shared_ptr<Core> core) : core_(std::move(core)) {}
AttachedNode::~AttachedNode() = default;

const std::string& AttachedNode::name() const { return core_->parts().name(); }
void AttachedNode::leave() { core_->parts().leave(); }
bool AttachedNode::is_shared() const { return core_->parts().is_shared(); }
const std::string& AttachedNode::why_streamed() const { return core_->parts().why_streamed(); }

Result<GroupRegistration> AttachedNode::register_group(const GroupSpec& group, Duration timeout) {
  return core_->parts().register_group(group, timeout);
}

void AttachedNode::set_members(CollectiveId /*collective*/, std::string /*group*/,
                               std::vector<Rank> /*ranks*/) {}

void AttachedNode::post(MemberOperation operation) { core_->parts().post(std::move(operation)); }

void AttachedNode::cancel(CollectiveId collective, OperationId operation) {
  core_->parts().cancel(collective, operation);
}

void AttachedNode::fail(CollectiveId collective, OperationId operation, Status cause) {
  core_->parts().fail(collective, operation, cause);
}

void AttachedNode::watch(CollectiveId collective, OperationId operation, Duration timeout,
                         std::function<void(Status)> arrived) {
  core_->parts().watch(collective, operation, timeout, std::move(arrived));
}

}  // namespace square
