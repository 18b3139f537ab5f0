#include "transport/grpc/channel.h"

#include <fmt/format.h>
#include <grpc/support/time.h>

#include <utility>

#include "base/check.h"
#include "transport/grpc/link.h"
#include "transport/grpc/poller.h"

namespace square::rpc {

Channel::Channel(ChannelOwner& owner, LinkEnd end, grpc::CompletionQueue& queue)
    : owner_(owner), queue_(queue), end_(end) {
  for (std::size_t i = 0; i < tags_.size(); ++i) tags_[i] = {this, static_cast<Op>(i)};
}

void Channel::join(std::shared_ptr<Link> link, std::size_t number) {
  link_ = std::move(link);
  number_ = number;
}

void Channel::close(Status reason) {
  {
    const std::lock_guard lock(mutex_);
    if (deaf_ || close_request_.has_value()) return;
    close_request_ = std::move(reason);
  }
  wake();
}

void Channel::wake() {
  {
    const std::lock_guard lock(mutex_);
    if (deaf_ || wake_set_) return;
    wake_set_ = true;
  }
  // Only who set the flag gets here, and the event clears it.
  if (Poller::wake_here(queue_, shared_from_this())) return;
  wake_alarm_.Set(&queue_, gpr_time_0(GPR_CLOCK_MONOTONIC), &tags_[static_cast<std::size_t>(Op::kWake)]);
}

void Channel::proceed(Op op, bool ok) {
  const std::shared_ptr<Channel> self = shared_from_this();
  if (op != Op::kWake) --pending_;
  switch (op) {
    case Op::kWake: on_wake(); break;
    case Op::kRead: on_read(ok); break;
    case Op::kWrite: on_write(ok); break;
    default: advance(op, ok); break;
  }
  if (ended_ && pending_ == 0) retire_if_idle();
}

void Channel::on_wake() {
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
  } else if (up_) {
    link_->on_wake(*this);
  }
}

void* Channel::expect(Op op) {
  ++pending_;
  return &tags_[static_cast<std::size_t>(op)];
}

void Channel::go_up(const std::string& peer) {
  peer_ = peer;
  up_ = true;
  link_->on_channel_up(*this, peer_);
  begin_read();
  link_->on_wake(*this);
}

void Channel::begin_read() {
  incoming_.Clear();
  read(incoming_, expect(Op::kRead));
}

void Channel::on_read(bool ok) {
  if (!ok || is_closing()) return conclude();
  const Status taken = take_in();
  incoming_.Clear();
  if (!taken.is_ok()) {
    return conclude(taken.with_context(fmt::format("link with node \"{}\"", peer_)));
  }
  begin_read();
}

Status Channel::take_in() {
  arrived_bytes_ += incoming_.Length();
  SQUARE_ASSIGN_OR_RETURN(Buffer arrived, from_message(incoming_));
  SQUARE_ASSIGN_OR_RETURN(std::optional<Buffer> message, arriving_.put(std::move(arrived)));
  if (!message.has_value()) return Status::ok();
  note_message(std::exchange(arrived_bytes_, 0));
  return link_->on_message(*this, *std::move(message));
}

void Channel::pump() {
  if (!up_ || writing_ || over_ || is_closing()) return;
  if (leaving_.is_empty()) {
    auto next = link_->next(*this);
    if (!next.has_value()) return;
    tickets_ = next->tickets;
    leaving_.start(std::move(next->message));
  }
  const std::size_t most = leaving_.size_bytes() <= kMinPieceBytes ? kMinPieceBytes : room();
  if (most == 0) return;
  const grpc::ByteBuffer piece = leaving_.take(most);
  writing_ = true;
  note_write(true, piece.Length());
  write(piece, expect(Op::kWrite));
}

void Channel::on_write(bool ok) {
  writing_ = false;
  note_write(false, 0);
  if (over_) return conclude();
  if (!ok || is_closing()) return;  // the read in flight tells the end
  if (!leaving_.is_empty()) return pump();
  link_->on_written(*this, tickets_);
}

void Channel::fail(Status reason) {
  if (is_closing() || ended_) return;
  reason_ = std::move(reason);
  cancel();
}

void Channel::conclude(std::optional<Status> reason) {
  over_ = true;
  if (reason.has_value() && !is_closing()) reason_ = std::move(reason);
  if (finished_) return;
  if (writing_ && end_ == LinkEnd::kHead) return cancel();  // a server may not finish during a write
  finished_ = true;
  finish();
}

void Channel::end(Status reason) {
  if (!is_closing()) reason_ = std::move(reason);
  ended_ = true;
}

void Channel::retire_if_idle() {
  {
    const std::lock_guard lock(mutex_);
    deaf_ = true;
    if (wake_set_) return;  // its event is the last
  }
  leaving_.drop();
  release();
  if (link_ != nullptr) link_->on_channel_down(*this, *reason_);
  owner_.retire(*this);
}

}  // namespace square::rpc
