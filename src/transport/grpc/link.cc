#include "transport/grpc/link.h"

#include <fmt/format.h>
#include <grpc/support/time.h>

#include <utility>

#include "transport/grpc/limits.h"

namespace square::rpc {

Link::Link(LinkOwner& owner, LinkHandle handle, LinkEnd end, grpc::CompletionQueue& queue)
    : owner_(owner), queue_(queue), handle_(handle), end_(end) {
  for (std::size_t i = 0; i < tags_.size(); ++i) tags_[i] = {this, static_cast<Op>(i)};
}

void Link::send(Frame frame) {
  bool overflow = false;
  {
    const std::lock_guard lock(mutex_);
    if (deaf_ || close_request_.has_value()) return;
    overflow = frames_.size() >= kMaxQueuedFrames;
    if (!overflow) frames_.push_back(std::move(frame));
  }
  if (overflow) {
    close(resource_exhausted(fmt::format(
        "{} frames wait to be sent on one link; keep to kMaxFramesInTransport", kMaxQueuedFrames)));
    return;
  }
  wake();
}

void Link::close(Status reason) {
  {
    const std::lock_guard lock(mutex_);
    if (deaf_ || close_request_.has_value()) return;
    close_request_ = std::move(reason);
  }
  drop_queue();
  wake();
}

void Link::wake() {
  {
    const std::lock_guard lock(mutex_);
    if (deaf_ || wake_set_) return;
    wake_set_ = true;
  }
  // Only who set the flag gets here, and the alarm's event clears it.
  wake_alarm_.Set(&queue_, gpr_time_0(GPR_CLOCK_MONOTONIC), &tags_[static_cast<std::size_t>(Op::kWake)]);
}

void Link::proceed(Op op, bool ok) {
  const std::shared_ptr<Link> self = shared_from_this();
  if (op != Op::kWake) --pending_;
  switch (op) {
    case Op::kWake: on_wake(); break;
    case Op::kRead: on_read(ok); break;
    case Op::kWrite: on_write(ok); break;
    default: advance(op, ok); break;
  }
  if (ended_ && pending_ == 0) retire_if_idle();
}

void Link::on_wake() {
  std::optional<Status> close_request;
  {
    const std::lock_guard lock(mutex_);
    wake_set_ = false;
    close_request = close_request_;
  }
  if (end_ == LinkEnd::kTail && !begun_) {
    begun_ = true;
    if (close_request.has_value()) return end(std::move(*close_request));
    begin();
  }
  if (close_request.has_value()) {
    fail(std::move(*close_request));
  } else {
    pump();
  }
}

void* Link::expect(Op op) {
  ++pending_;
  return &tags_[static_cast<std::size_t>(op)];
}

void Link::go_up(std::string peer) {
  peer_ = std::move(peer);
  up_ = true;
  owner_.handler().on_link_up(handle_, end_, peer_);
  begin_read();
  pump();
}

void Link::begin_read() {
  incoming_.Clear();
  read(incoming_, expect(Op::kRead));
}

void Link::on_read(bool ok) {
  if (!ok || is_closing()) return conclude();
  auto message = from_message(incoming_);
  incoming_.Clear();
  auto frame = message.is_ok() ? decode_frame(*message) : Result<Frame>(message.status());
  message = Buffer();
  if (!frame.is_ok()) {
    return conclude(frame.status().with_context(fmt::format("link with node \"{}\"", peer_)));
  }
  frame->payload = unpinned(std::move(frame->payload));
  begin_read();  // gRPC fetches the next frame while the handler has this one
  owner_.handler().on_frame(handle_, std::move(frame).value());
}

void Link::pump() {
  if (!up_ || writing_ || over_ || is_closing()) return;
  Frame frame;
  {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return;
    frame = std::move(frames_.front());
    frames_.pop_front();
  }
  writing_ = true;
  write(to_message(std::move(frame), owner_.ledger()), expect(Op::kWrite));
}

void Link::on_write(bool ok) {
  writing_ = false;
  if (over_) return conclude();
  if (!ok || is_closing()) return;  // the read in flight tells the end
  owner_.handler().on_sent(handle_);
  pump();
}

void Link::fail(Status reason) {
  if (is_closing() || ended_) return;
  reason_ = std::move(reason);
  drop_queue();
  cancel();
}

void Link::conclude(std::optional<Status> reason) {
  over_ = true;
  if (reason.has_value() && !is_closing()) reason_ = std::move(reason);
  if (finished_) return;
  if (writing_ && end_ == LinkEnd::kHead) return cancel();  // a server may not finish during a write
  finished_ = true;
  finish();
}

void Link::end(Status reason) {
  if (!is_closing()) reason_ = std::move(reason);
  ended_ = true;
}

void Link::drop_queue() {
  std::deque<Frame> dropped;  // owners are dropped outside the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(frames_);
}

void Link::retire_if_idle() {
  {
    const std::lock_guard lock(mutex_);
    deaf_ = true;
    if (wake_set_) return;  // its event is the last
  }
  drop_queue();
  release();
  if (up_ || end_ == LinkEnd::kTail) owner_.handler().on_link_down(handle_, *reason_);
  owner_.retire(handle_);
}

}  // namespace square::rpc
