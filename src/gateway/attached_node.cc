#include "base/check.h"
#include "gateway/attached_line.h"
#include "gateway/local_socket.h"
#include "square/gateway.h"

namespace square {

Result<std::unique_ptr<AttachedNode>> AttachedNode::attach(AttachOptions options) {
  SQUARE_ASSIGN_OR_RETURN(auto socket, gateway::connect_local(options.socket_path, options.timeout));
  SQUARE_ASSIGN_OR_RETURN(auto loop, gateway::EventLoop::make());
  return gateway::with_new_threads([&]() -> Result<std::unique_ptr<AttachedNode>> {
    auto line =
        std::make_shared<gateway::AttachedLine>(std::move(options), std::move(loop), std::move(socket));
    // Leaves again if it fails.
    std::unique_ptr<AttachedNode> node(new AttachedNode(line));
    SQUARE_RETURN_IF_ERROR(line->begin());
    return node;
  });
}

AttachedNode::AttachedNode(std::shared_ptr<gateway::AttachedLine> line) : line_(std::move(line)) {}
AttachedNode::~AttachedNode() {
  line_->leave();
  // A forked child: its threads cannot be waited for.
  if (line_->process().is_forked()) static_cast<void>(new std::shared_ptr(std::move(line_)));
}

const std::string& AttachedNode::name() const { return line_->name(); }
void AttachedNode::leave() { line_->leave(); }
bool AttachedNode::is_shared() const { return line_->is_shared(); }
const std::string& AttachedNode::why_streamed() const { return line_->why_streamed(); }

Result<GroupPart> AttachedNode::join_group(const GroupSpec& group, Rank member, Duration timeout) {
  return line_->join_group(group, member, timeout);
}

Result<GroupRegistration> AttachedNode::register_group(const GroupSpec& group, Duration timeout) {
  return line_->register_group(group, timeout);
}

Result<GroupSpec> AttachedNode::regroup(const RegroupRequest& request, Duration timeout) {
  return line_->regroup(request, timeout);
}

void AttachedNode::set_members(CollectiveId /*collective*/, std::string /*group*/,
                               std::vector<Rank> /*ranks*/) {}

void AttachedNode::post(MemberOperation operation) { line_->post(std::move(operation)); }

void AttachedNode::cancel(CollectiveId collective, OperationId operation) {
  line_->cancel(collective, operation);
}

void AttachedNode::fail(CollectiveId collective, OperationId operation, Status cause) {
  line_->fail(collective, operation, cause);
}

void AttachedNode::after(Duration delay, std::function<void()> then) { line_->after(delay, std::move(then)); }

void AttachedNode::work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) {
  line_->work(bytes, task, std::move(then));
}

void AttachedNode::watch(CollectiveId collective, OperationId operation, Duration timeout,
                         std::function<void(Status)> arrived) {
  line_->watch(collective, operation, timeout, std::move(arrived));
}

}  // namespace square
