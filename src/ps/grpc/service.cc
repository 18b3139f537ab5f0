#include "ps/grpc/service.h"

#include <utility>

#include "base/check.h"
#include "controller/grpc/status.h"
#include "ps/grpc/communicator_lines.h"
#include "trust/grpc/credentials.h"

namespace square::ps {

MasterService::MasterService(std::shared_ptr<Identity> identity, MasterEvents events)
    : identity_(std::move(identity)),
      granting_(controller::granting_of(identity_)),
      events_(std::move(events)) {
  heard_.on_report = events_.members.on_report;
  heard_.check_hello = [this](const grpc::CallbackServerContext& context, const v1::PsHello& hello) {
    return check_hello(context, hello);
  };
  heard_.on_message = [this](const grpc::CallbackServerContext& context, std::uint64_t bytes) {
    if (door_ != nullptr) door_->hear(context.peer(), bytes);
  };
  heard_.on_lost = [this](PeerId peer) {
    {
      const std::lock_guard lock(mutex_);
      calls_.erase(peer);
    }
    events_.members.on_lost(peer);
  };
}

Status MasterService::check_hello(const grpc::CallbackServerContext& context, const v1::PsHello& hello) {
  if (!hello.node().empty() && hello.node() != hello.name())
    return permission_denied("a member has the name of its node");
  SQUARE_RETURN_IF_ERROR(
      trust::check_caller(identity_, *context.auth_context(), {Role::kNode, Role::kServer}, hello.name()));
  if (granting_) {
    GroupSpec part{"training", CommunicatorLines::kTenant, {hello.name()}, {}};
    part.registrant = hello.name();
    part.grant = hello.grant();
    using Time = controller::Granting::Time;
    std::unique_lock lock(mutex_);
    const bool is_back = admitted_.contains(hello.name());
    lock.unlock();
    SQUARE_RETURN_IF_ERROR(granting_->check(part, is_back ? Time::kIsOver : Time::kCounts).status());
    lock.lock();
    if (admitted_.size() < kMaxMembers) admitted_.insert(hello.name());
  }
  return door_ == nullptr ? Status::ok() : door_->know(context, 0);
}

std::shared_ptr<MemberCall> MasterService::call(PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(peer);
  return found == calls_.end() ? nullptr : found->second;
}

void MasterService::send(PeerId peer, v1::PsOrder order) {
  if (const auto to = call(peer)) to->send(std::move(order));
}

void MasterService::close(PeerId peer, const Status& reason) {
  if (const auto to = call(peer)) to->close(reason);
}

void MasterService::close_all(const Status& reason) {
  std::map<PeerId, std::shared_ptr<MemberCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    closed_ = reason;
    calls = calls_;
  }
  for (const auto& [peer, call] : calls) call->close(reason);
}

grpc::ServerBidiReactor<v1::PsReport, v1::PsOrder>* MasterService::Attach(
    grpc::CallbackServerContext* context) {
  // A line that never says hello makes nobody known.
  Status allowed = trust::check_caller(identity_, *context->auth_context(), {Role::kNode, Role::kServer}, "");
  if (allowed.is_ok() && door_ != nullptr && !door_->begin_line(context->peer()))
    allowed = resource_exhausted("this connection has opened too many lines");
  if (!allowed.is_ok()) return MemberCall::refuse(context, allowed);
  const std::lock_guard lock(mutex_);
  if (!closed_.is_ok()) return MemberCall::refuse(context, closed_);
  if (calls_.size() >= kMaxMembers) {
    return MemberCall::refuse(context, resource_exhausted("the master has no room for more members"));
  }
  const PeerId peer = ++last_;
  return (calls_[peer] = MemberCall::begin(peer, heard_, context)).get();
}

grpc::ServerUnaryReactor* MasterService::Ask(grpc::CallbackServerContext* context,
                                             const v1::PsQuestion* question, v1::PsAnswer* answer) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  Status allowed = trust::check_caller(identity_, *context->auth_context(), {}, "");
  if (allowed.is_ok() && door_ != nullptr) allowed = door_->know(*context, question->ByteSizeLong());
  if (!allowed.is_ok()) {
    reactor->Finish(controller::to_grpc(allowed));
    return reactor;
  }
  events_.on_question([reactor, answer](v1::PsAnswer made) {
    *answer = std::move(made);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

}  // namespace square::ps
