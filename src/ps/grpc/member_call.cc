#include "ps/grpc/member_call.h"

#include <utility>

#include "controller/grpc/status.h"

namespace square::ps {

std::shared_ptr<MemberCall> MemberCall::begin(PeerId peer, const MemberEvents& events,
                                              grpc::CallbackServerContext* context) {
  const std::shared_ptr<MemberCall> call(new MemberCall(peer, &events, context));
  call->self_ = call;
  call->hello_.begin([weak = std::weak_ptr(call)] {
    const auto late = weak.lock();
    if (late && !late->hello_.is_met()) late->close(deadline_exceeded("a line without a hello"));
  });
  call->StartRead(&call->incoming_);
  return call;
}

MemberCall* MemberCall::refuse(grpc::CallbackServerContext* context, const Status& reason) {
  const std::shared_ptr<MemberCall> call(new MemberCall(0, nullptr, context));
  call->self_ = call;
  call->close(reason);
  return call.get();
}

void MemberCall::send(v1::PsOrder order) {
  const std::lock_guard lock(mutex_);
  if (reason_) return;
  if (outgoing_.size() >= kMaxQueuedOrders) {
    reason_ = resource_exhausted("the member does not read what the master says");
    context_->TryCancel();
    return;
  }
  outgoing_.push_back(std::move(order));
  write_next();
}

void MemberCall::write_next() {
  if (is_writing_ || outgoing_.empty()) return;
  is_writing_ = true;
  StartWrite(&outgoing_.front());
}

void MemberCall::close(const Status& reason) {
  const std::lock_guard lock(mutex_);
  if (!reason_) reason_ = reason;
  finish_if_idle();
}

void MemberCall::finish_if_idle() {
  if (!reason_ || is_writing_ || !outgoing_.empty() || is_finished_) return;
  is_finished_ = true;
  Finish(controller::to_grpc(*reason_));
}

void MemberCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  outgoing_.pop_front();
  if (!ok) outgoing_.clear();  // the read fails as well, and that ends the line
  write_next();
  finish_if_idle();
}

void MemberCall::OnReadDone(bool ok) {
  if (ok) {
    if (events_->on_message) events_->on_message(*context_, incoming_.ByteSizeLong());
    std::shared_ptr<const void> reading(nullptr,
                                        [call = shared_from_this()](const void*) { call->read_next(); });
    v1::PsReport report = std::move(incoming_);
    incoming_ = {};
    if (report.has_hello() && events_->check_hello) {
      if (const Status allowed = events_->check_hello(*context_, report.hello()); !allowed.is_ok()) {
        v1::PsOrder refused;  // else it would try again
        *refused.mutable_refused() = to_message(allowed);
        send(std::move(refused));
        return close(allowed);
      }
    }
    if (report.has_hello()) hello_.met();
    events_->on_report(peer_, std::move(report), std::move(reading));
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!is_writing_) outgoing_.clear();
  if (!reason_) reason_ = Status::ok();
  finish_if_idle();
}

void MemberCall::read_next() {
  const std::lock_guard lock(mutex_);
  if (!reason_) {
    StartRead(&incoming_);
  } else {
    finish_if_idle();
  }
}

void MemberCall::OnDone() {
  const std::shared_ptr<MemberCall> last = std::move(self_);
  if (events_ != nullptr) events_->on_lost(peer_);
}

}  // namespace square::ps
