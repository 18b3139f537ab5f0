#include "controller/grpc/attach_call.h"

#include <utility>

#include "base/check.h"
#include "controller/grpc/status.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square::controller {

AttachCall::AttachCall(std::optional<Host> host, std::shared_ptr<Identity> identity,
                       grpc::CallbackServerContext* context)
    : host_(std::move(host)), identity_(std::move(identity)), context_(context) {}

std::shared_ptr<AttachCall> AttachCall::begin(const Host& host, std::shared_ptr<Identity> identity,
                                              grpc::CallbackServerContext* context) {
  const std::shared_ptr<AttachCall> call(new AttachCall(host, std::move(identity), context));
  call->self_ = call;
  call->hello_.begin([weak = std::weak_ptr(call)] {
    const auto late = weak.lock();
    if (late && !late->hello_.is_met()) late->close(deadline_exceeded("a line without a hello"), true);
  });
  call->StartRead(&call->incoming_);
  return call;
}

AttachCall* AttachCall::refuse(grpc::CallbackServerContext* context, Status reason) {
  const std::shared_ptr<AttachCall> call(new AttachCall(std::nullopt, nullptr, context));
  call->self_ = call;
  call->close(std::move(reason), false);
  return call.get();
}

void AttachCall::send(std::shared_ptr<const v1::ControllerEvent> event) {
  Status cannot_sign;
  if (host_->signer) {
    auto made = host_->signer->sign(admitted_, std::move(event));
    if (made.is_ok()) event = std::move(*made);
    cannot_sign = made.status();
  }
  const std::lock_guard lock(mutex_);
  if (reason_) return;
  if (!cannot_sign.is_ok()) {
    reason_ = cannot_sign.with_context("cannot sign a plan");
    return;
  }
  if (outgoing_.size() >= kMaxQueuedEvents) {
    reason_ = resource_exhausted("the node does not read what the controller says");
    return;  // the next heartbeat cuts the line
  }
  outgoing_.push_back(std::move(event));
  write_next();
}

void AttachCall::write_next() {
  if (writing_ || outgoing_.empty()) return;
  writing_ = true;
  StartWrite(outgoing_.front().get());
}

void AttachCall::close(Status reason, bool at_once) {
  std::unique_lock lock(mutex_);
  if (!reason_) reason_ = std::move(reason);
  if (writing_ && at_once && !finished_ && !cancelling_) {
    // The flag keeps the call from finishing, and so the context alive, meanwhile.
    cancelling_ = true;
    lock.unlock();
    context_->TryCancel();
    lock.lock();
    cancelling_ = false;
  }
  finish_if_idle();
}

void AttachCall::finish_if_idle() {
  if (!reason_ || writing_ || cancelling_ || finished_) return;
  finished_ = true;
  outgoing_.clear();
  Finish(to_grpc(*reason_));
}

void AttachCall::OnWriteDone(bool /*ok*/) {
  // A failed write needs nothing more: the read fails as well, and that ends the line.
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!outgoing_.empty()) outgoing_.pop_front();
  if (reason_) {
    finish_if_idle();
  } else {
    write_next();
  }
}

void AttachCall::OnReadDone(bool ok) {
  if (!ok) {
    if (!node_.empty() && !said_goodbye_) host_->coordinator.lost(node_, this);
    close(Status::ok(), true);
    return;
  }
  if (host_->door != nullptr) host_->door->hear(context_->peer(), incoming_.ByteSizeLong());
  const Status status = receive();
  host_->refusals.note(*context_, "a line", status);
  {
    const std::lock_guard lock(mutex_);
    if (status.is_ok() && !said_goodbye_ && !reason_) {
      StartRead(&incoming_);
      return;
    }
  }
  if (!node_.empty() && !said_goodbye_) host_->coordinator.lost(node_, this);
  // Without an error of its own the line is over because it does not read, or is being closed already.
  close(status, status.is_ok() && !said_goodbye_);
}

// Whether the node is who it says; what it says of its own certificate is what it has shown.
Status AttachCall::admit() {
  incoming_.mutable_hello()->clear_fingerprint();
  admitted_ = incoming_.hello().node();
  if (!identity_) return {};
  certificate_ = trust::certificate_of(*context_->auth_context());
  SQUARE_RETURN_IF_ERROR(check_identity());
  v1::Hello& hello = *incoming_.mutable_hello();
  hello.set_fingerprint(certificate_->fingerprint);
  SQUARE_RETURN_IF_ERROR(identity_->check(*certificate_, {Role::kNode, Role::kServer}, hello.node()));
  auto event = std::make_shared<v1::ControllerEvent>();
  *event->mutable_revoked() = to_message(identity_->revoked());
  if (event->revoked().names_size() > 0) send(std::move(event));
  return {};
}

// Also later: it may have been revoked meanwhile.
Status AttachCall::check_identity() const {
  if (!identity_) return {};
  if (!certificate_) return unauthenticated("the caller has shown no certificate");
  return identity_->check(*certificate_, {}, "");
}

Status AttachCall::receive() {
  using Event = v1::NodeEvent::EventCase;
  if (node_.empty() != (incoming_.event_case() == Event::kHello)) {
    return invalid_argument("a line begins with one hello");
  }
  if (!node_.empty()) SQUARE_RETURN_IF_ERROR(check_identity());
  switch (incoming_.event_case()) {
    case Event::kHello: {
      SQUARE_RETURN_IF_ERROR(admit());
      Status joined = host_->coordinator.join(incoming_.hello(), shared_from_this());
      if (!joined.is_ok()) return joined;
      node_ = incoming_.hello().node();
      hello_.met();
      if (host_->door != nullptr) SQUARE_RETURN_IF_ERROR(host_->door->know(*context_, 0));
      return {};
    }
    case Event::kHeartbeat: host_->coordinator.heartbeat(node_, this, incoming_.heartbeat()); break;
    case Event::kBrokenLinks: host_->coordinator.broken_links(node_, this, incoming_.broken_links()); break;
    case Event::kInstalled:
      host_->coordinator.installed(node_, this, Epoch(incoming_.installed().epoch()),
                                   incoming_.installed().moving());
      break;
    case Event::kLacking: host_->coordinator.lacking(node_, this, Epoch(incoming_.lacking().epoch())); break;
    case Event::kClosed: host_->coordinator.closed(node_, this, incoming_.closed()); break;
    case Event::kExamined: host_->inquiries.answer(node_, incoming_.examined()); break;
    case Event::kSights: host_->suspicions.note(node_, incoming_.sights()); break;
    case Event::kGoodbye:
      said_goodbye_ = true;
      host_->coordinator.goodbye(node_, this, incoming_.goodbye());
      break;
    case Event::EVENT_NOT_SET: host_->refusals.note_unknown(node_); break;  // of a later release
  }
  return {};
}

void AttachCall::OnDone() {
  const std::shared_ptr<AttachCall> last = std::move(self_);  // dies here unless someone still closes it
}

}  // namespace square::controller
