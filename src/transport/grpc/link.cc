#include "transport/grpc/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/grpc/limits.h"
#include "transport/grpc/padding.h"

namespace square::rpc {

Link::Link(ChannelOwner& owner, LinkHandle handle, LinkEnd end, std::string id, MakeChannel make_channel)
    : owner_(owner), handle_(handle), end_(end), id_(std::move(id)), make_channel_(std::move(make_channel)) {}

void Link::open() {
  const std::shared_ptr<Channel> first = make_channel_(0);
  std::optional<Status> closed;
  {
    const std::lock_guard lock(mutex_);
    slots_.push_back({first});
    closed = reason_;
  }
  closed.has_value() ? first->close(*std::move(closed)) : first->wake();
}

void Link::send(Frame frame) {
  bool overflow = false;
  std::shared_ptr<Channel> idle;
  {
    const std::lock_guard lock(mutex_);
    if (reason_.has_value()) return;
    overflow = frames_.size() >= kMaxQueuedFrames;
    if (!overflow) frames_.push_back(std::move(frame));
    if (has_idle_channel()) idle = slots_.front().channel;  // a busy one goes on by itself
  }
  if (overflow) {
    return close(resource_exhausted(
        fmt::format("{} frames wait on one link; keep to kMaxFramesInTransport", kMaxQueuedFrames)));
  }
  if (idle != nullptr) idle->wake();
}

void Link::set_channels(std::size_t channels) {
  std::shared_ptr<Channel> first;
  {
    const std::lock_guard lock(mutex_);
    if (reason_.has_value() || end_ == LinkEnd::kHead || slots_.empty()) return;
    wanted_ = std::clamp<std::size_t>(channels, 1, kMaxChannels);
    first = slots_.front().channel;
  }
  if (first != nullptr) first->wake();
}

void Link::close(Status reason) {
  std::vector<std::shared_ptr<Channel>> channels;
  std::deque<Frame> dropped;  // owners are dropped outside the lock
  bool is_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (reason_.has_value()) return;
    reason_ = std::move(reason);  // from here on it does not change
    dropped.swap(frames_);
    // At a head: its first channel was admitted, has not joined, and will be told to go.
    is_empty = end_ == LinkEnd::kHead && slots_.empty();
    is_over_ = is_over_ || is_empty;
    for (const Slot& slot : slots_) {
      if (slot.channel != nullptr) channels.push_back(slot.channel);
    }
  }
  for (const auto& channel : channels) channel->close(*reason_);
  if (is_empty) owner_.retire(*this);
}

Status Link::add_channel(const std::shared_ptr<Channel>& channel, std::size_t number) {
  const std::lock_guard lock(mutex_);
  if (reason_.has_value()) return unavailable("the link is being closed");
  if (slots_.size() <= number) slots_.resize(number + 1);
  if (slots_[number].channel != nullptr) {
    return already_exists(fmt::format("the link has a channel {} already", number));
  }
  slots_[number] = {channel};
  return Status::ok();
}

void Link::on_channel_up(Channel& channel, const std::string& peer) {
  if (channel.number() == 0) {
    const std::lock_guard handling(handler_mutex_);
    was_up_ = true;
    owner_.handler().on_link_up(handle_, end_, peer);
  }
  const std::lock_guard lock(mutex_);
  slots_[channel.number()].is_up = true;
}

std::optional<Link::Outgoing> Link::next(Channel& channel) {
  std::vector<Frame> frames;
  FrameTickets tickets;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[channel.number()];
    slot.is_busy = true;
    if (const auto control = next_control(channel)) return Outgoing{to_message(*control), {}};
    const bool is_idle = frames_.empty() && meter_.is_probed();
    const std::size_t room = is_idle || may_send_frame(channel) ? channel.room() : 0;
    if (is_idle && room > 0) return Outgoing{padding(room / 2), {}};
    if (room == 0) {
      slot.is_busy = false;
      return std::nullopt;
    }
    frames = take_frames();
    tickets = {first_ticket_ + written_.size(), frames.size()};
    written_.resize(written_.size() + frames.size(), false);
    watch_.note_use();
  }
  return Outgoing{to_message(std::move(frames), owner_.ledger()), tickets};
}

// Small ones go together, as many as wait: a message costs more than a frame does.
std::vector<Frame> Link::take_frames() {
  std::vector<Frame> frames;
  std::size_t bytes = 0;
  // Once numbered, always: the head can tell what came before.
  const bool are_numbered = end_ == LinkEnd::kTail && (last_sequence_ > 0 || channels_up() > 1);
  do {
    Frame& frame = frames.emplace_back(std::move(frames_.front()));
    frames_.pop_front();
    frame.header.link_sequence = are_numbered ? ++last_sequence_ : 0;
    if (are_numbered) window_.add(frame.payload.size_bytes());
    bytes += kFrameHeaderBytes + frame.payload.size_bytes();
    // Numbered ones are dealt to the channels one by one.
  } while (!are_numbered && !frames_.empty() &&
           bytes + kFrameHeaderBytes + frames_.front().payload.size_bytes() <= kMaxBundleBytes);
  return frames;
}

std::optional<Control> Link::next_control(const Channel& channel) {
  if (channel.number() != 0) return std::nullopt;
  if (end_ == LinkEnd::kTail && watch_.ping_is_due()) {
    return Control{ControlType::kPing, watch_.ping(steady_clock().now())};
  }
  if (!pongs_.empty()) {
    const std::uint64_t number = pongs_.front();
    pongs_.pop_front();
    return Control{ControlType::kPong, number};
  }
  if (std::exchange(tell_delivered_, false)) return Control{ControlType::kDelivered, delivered_};
  return std::nullopt;
}

bool Link::may_send_frame(const Channel& channel) const {
  if (frames_.empty() || reason_.has_value()) return false;
  if (channel.number() == 0) return last_sequence_ == 0 || window_.has_room(channels_up());
  // Number 1 goes on channel 0, behind all that was not numbered.
  return channel.number() < wanted_ && last_sequence_ > 0 && window_.has_room(channels_up());
}

std::size_t Link::channels_up() const {
  return static_cast<std::size_t>(std::ranges::count_if(slots_, &Slot::is_up));
}

bool Link::has_idle_channel() const {
  const auto used = static_cast<std::ptrdiff_t>(std::min(wanted_, slots_.size()));
  return std::any_of(slots_.begin(), slots_.begin() + used,
                     [](const Slot& slot) { return slot.is_up && !slot.is_busy; });
}

void Link::on_written(Channel& channel, const FrameTickets& tickets) {
  std::size_t sent = 0;
  {
    const std::lock_guard lock(mutex_);
    slots_[channel.number()].is_busy = false;
    for (std::size_t i = 0; i < tickets.count; ++i) written_[tickets.first + i - first_ticket_] = true;
    for (; !written_.empty() && written_.front(); ++sent) {
      written_.pop_front();
      ++first_ticket_;
    }
  }
  if (sent > 0) {
    const std::lock_guard handling(handler_mutex_);
    for (; sent > 0; --sent) owner_.handler().on_sent(handle_);
  }
  channel.pump();
  pump_idle();
}

Status Link::on_message(Channel& channel, Buffer message) {
  if (end_ == LinkEnd::kTail) note_heard();
  if (is_control(message)) return on_control(channel, message);
  if (end_ == LinkEnd::kHead && is_padding(message)) return Status::ok();
  do {
    SQUARE_ASSIGN_OR_RETURN(Frame frame, take_frame(message));
    frame.payload = unpinned(std::move(frame.payload));
    SQUARE_RETURN_IF_ERROR(on_frame(channel, std::move(frame)));
  } while (message.size_bytes() > 0);
  return Status::ok();
}

Status Link::on_frame(const Channel& channel, Frame frame) {
  const std::lock_guard handling(handler_mutex_);
  if (frame.header.link_sequence > 0) return take_in_order(std::move(frame));
  if (order_.has_begun() || channel.number() != 0)
    return data_loss("a frame of several channels has no number");
  owner_.handler().on_frame(handle_, std::move(frame));
  return Status::ok();
}

Status Link::take_in_order(Frame frame) {
  if (end_ == LinkEnd::kTail) return data_loss("an answer has a number, as if there were several channels");
  std::size_t channels = 0;
  {
    const std::lock_guard lock(mutex_);
    channels = slots_.size();
  }
  SQUARE_RETURN_IF_ERROR(order_.put(std::move(frame), channels));
  std::uint64_t cost = 0;
  // Frames of a faster channel may be here before the first has come up.
  while (auto next = was_up_ ? order_.take() : std::nullopt) {
    cost += window_cost(next->payload.size_bytes());
    owner_.handler().on_frame(handle_, *std::move(next));
  }
  std::shared_ptr<Channel> first;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t before = delivered_;
    delivered_ += cost;
    if (before / kDeliveredStep != delivered_ / kDeliveredStep) {
      tell_delivered_ = true;
      first = slots_.front().channel;
    }
  }
  if (first != nullptr) first->wake();
  return Status::ok();
}

Status Link::on_control(Channel& channel, const Buffer& message) {
  SQUARE_ASSIGN_OR_RETURN(const Control control, decode_control(message));
  const bool at_head = end_ == LinkEnd::kHead;
  if (channel.number() != 0 || at_head != (control.type == ControlType::kPing)) {
    return data_loss("a control message came the wrong way");
  }
  std::optional<Duration> round_trip;
  {
    const std::lock_guard lock(mutex_);
    switch (control.type) {
      case ControlType::kPing:
        if (pongs_.size() >= kMaxWaitingPongs) return data_loss("the peer sends pings and reads no answers");
        pongs_.push_back(control.value);
        break;
      case ControlType::kPong: round_trip = watch_.pong(control.value, steady_clock().now()); break;
      case ControlType::kDelivered:
        if (!window_.set_delivered(control.value)) return data_loss("the peer confirms what was not sent");
        break;
    }
  }
  if (round_trip) tell([&](TransportHandler& node) { node.on_round_trip(handle_, *round_trip); });
  channel.pump();
  pump_idle();
  return Status::ok();
}

void Link::on_wake(Channel& channel) {
  if (end_ == LinkEnd::kTail) open_missing();
  if (channel.number() == 0) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(wants_probe_, false) && channel.begin_close_looks())
      meter_.begin_probe(steady_clock().now());
  }
  channel.pump();
  pump_idle();
}

void Link::begin_looks() {
  const std::lock_guard lock(mutex_);
  watch_.begin(steady_clock().now());
}

bool Link::look(Channel& channel, bool takes) {
  bool is_suspected = false;
  std::optional<double> capacity_bps;
  {
    const std::lock_guard lock(mutex_);
    is_suspected = watch_.look(steady_clock().now(), takes);
    if (!meter_.is_probed()) capacity_bps = meter_.look(figures(), steady_clock().now());
  }
  if (capacity_bps) tell([&](TransportHandler& node) { node.on_capacity(handle_, *capacity_bps, false); });
  if (is_suspected) tell([&](TransportHandler& node) { node.on_suspicion(handle_, true); });
  channel.pump();  // may begin a use, for which the looks go on
  const std::lock_guard lock(mutex_);
  return !watch_.rests();
}

// Channels of a link share this thread. Those that are not wanted any more have nothing to send.
std::vector<SocketFigures> Link::figures() {
  std::vector<SocketFigures> figures;
  for (std::size_t number = 0; number < slots_.size(); ++number) {
    if (!slots_[number].is_up) continue;
    figures.push_back(slots_[number].channel->figures());
    if (number >= wanted_ && !meter_.is_probed()) figures.back().is_limited = true;
  }
  return figures;
}

void Link::note_local() {
  tell([&](TransportHandler& node) { node.on_capacity(handle_, kUnlimited, false); });
}

void Link::probe() {
  std::unique_lock lock(mutex_);
  if (reason_.has_value() || end_ == LinkEnd::kHead || slots_.empty() || !slots_.front().is_up) return;
  wants_probe_ = true;
  const std::shared_ptr<Channel> first = slots_.front().channel;
  lock.unlock();
  first->wake();
}

bool Link::look_closely(Channel& channel) {
  std::unique_lock lock(mutex_);
  const std::optional<double> capacity_bps = meter_.look_closely(figures(), steady_clock().now());
  const bool goes_on = meter_.is_probed();
  lock.unlock();
  if (capacity_bps) tell([&](TransportHandler& node) { node.on_capacity(handle_, *capacity_bps, true); });
  channel.pump();
  return goes_on;
}

void Link::note_heard() {
  {
    const std::lock_guard lock(mutex_);
    if (!watch_.note_heard()) return;
  }
  tell([&](TransportHandler& node) { node.on_suspicion(handle_, false); });
}

// At a tail, whose channels share this thread; a head sends on its first channel only.
void Link::pump_idle() {
  if (end_ == LinkEnd::kHead) return;
  std::vector<std::shared_ptr<Channel>> idle;
  {
    const std::lock_guard lock(mutex_);
    if (slots_.size() == 1) return;
    for (const Slot& slot : slots_) {
      if (slot.is_up && !slot.is_busy && slot.channel != nullptr) idle.push_back(slot.channel);
    }
  }
  for (const auto& channel : idle) channel->pump();
}

void Link::open_missing() {
  std::vector<std::shared_ptr<Channel>> opened;
  {
    const std::lock_guard lock(mutex_);
    if (reason_.has_value() || !slots_.front().is_up) return;
    for (std::size_t number = 1; number < wanted_; ++number) {
      if (slots_.size() <= number) slots_.resize(number + 1);
      if (slots_[number].channel != nullptr) continue;
      slots_[number].channel = make_channel_(number);
      opened.push_back(slots_[number].channel);
    }
  }
  for (const auto& channel : opened) channel->wake();
}

void Link::on_channel_down(Channel& channel, const Status& reason) {
  bool ends = false;
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[channel.number()];
    ends = channel.number() == 0 || slot.is_up;
    slot = {};
    // One that never came up is done without until somebody asks again.
    if (!ends) wanted_ = std::min(wanted_, channel.number());
  }
  if (ends) close(reason);
  {
    const std::lock_guard lock(mutex_);
    is_last = reason_.has_value() && !is_over_ &&
              std::ranges::all_of(slots_, [](const Slot& slot) { return slot.channel == nullptr; });
    is_over_ = is_over_ || is_last;
  }
  if (!is_last) return;
  {
    const std::lock_guard handling(handler_mutex_);
    if (was_up_ || end_ == LinkEnd::kTail) owner_.handler().on_link_down(handle_, *reason_);
  }
  owner_.retire(*this);
}

}  // namespace square::rpc
