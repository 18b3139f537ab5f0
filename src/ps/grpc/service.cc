#include "ps/grpc/service.h"

#include <utility>

#include "base/check.h"
#include "controller/grpc/control_call.h"
#include "controller/grpc/status.h"
#include "ps/grpc/communicator_lines.h"
#include "trust/grpc/credentials.h"

namespace square::ps {

// The master's end of a member's line.
class MasterService::Line final : public controller::ControlCall<v1::PsReport, v1::PsOrder> {
 public:
  Line(MasterService& service, PeerId peer, grpc::CallbackServerContext& context)
      : ControlCall(context, {kMaxQueuedOrders, "the member does not read what the master says"}),
        service_(service),
        peer_(peer) {}

  void send(v1::PsOrder order) {
    if (!push(std::make_shared<v1::PsOrder>(std::move(order)))) end(Status::ok(), true);
  }

 private:
  void heard(v1::PsReport& report) override {
    if (service_.door_ != nullptr) service_.door_->hear(context().peer(), report.ByteSizeLong());
    std::shared_ptr<const void> reading(nullptr, [line = std::static_pointer_cast<Line>(shared_from_this())](
                                                     const void*) { line->read_next(); });
    if (report.has_hello()) {
      if (const Status allowed = service_.check_hello(context(), report.hello()); !allowed.is_ok()) {
        v1::PsOrder refused;  // else it would try again
        *refused.mutable_refused() = to_message(allowed);
        send(std::move(refused));
        return end(allowed, false);
      }
      known();
    }
    service_.events_.on_report(peer_, std::move(report), std::move(reading));
  }

  void done() override {
    {
      const std::lock_guard lock(service_.mutex_);
      service_.lines_.erase(peer_);
    }
    service_.events_.on_lost(peer_);
  }

  MasterService& service_;
  const PeerId peer_;
};

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

MasterService::LinePtr MasterService::line(PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(peer);
  return found == lines_.end() ? nullptr : found->second;
}

void MasterService::send(PeerId peer, v1::PsOrder order) {
  if (const auto to = line(peer)) to->send(std::move(order));
}

void MasterService::close(PeerId peer, const Status& reason) {
  if (const auto to = line(peer)) to->end(reason, false);
}

void MasterService::close_all(const Status& reason) {
  std::map<PeerId, LinePtr> lines;
  {
    const std::lock_guard lock(mutex_);
    closed_ = reason;
    lines = lines_;
  }
  for (const auto& [peer, line] : lines) line->end(reason, false);
}

grpc::ServerBidiReactor<v1::PsReport, v1::PsOrder>* MasterService::Attach(
    grpc::CallbackServerContext* context) {
  // A line that never says hello makes nobody known.
  Status allowed = trust::check_caller(identity_, *context->auth_context(), {Role::kNode, Role::kServer}, "");
  if (allowed.is_ok() && door_ != nullptr && !door_->begin_line(context->peer()))
    allowed = resource_exhausted("this connection has opened too many lines");
  const std::lock_guard lock(mutex_);
  if (allowed.is_ok()) allowed = closed_;
  if (allowed.is_ok() && lines_.size() >= kMaxMembers)
    allowed = resource_exhausted("the master has no room for more members");
  if (!allowed.is_ok()) return controller::RefusedCall<v1::PsReport, v1::PsOrder>::begin(allowed);
  const PeerId peer = ++last_;
  const auto line = std::make_shared<Line>(*this, peer, *context);
  lines_.emplace(peer, line);
  line->begin();
  return line.get();
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
