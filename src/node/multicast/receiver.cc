#include "node/multicast/receiver.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/links/tick.h"

namespace square {
namespace {

// Blocks that one operation may have in one session: 128 GiB in blocks of 8 KiB. Bounds
// the bitmap that a frame can make this node allocate at 2 MiB.
constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 24U;

}  // namespace

Status Receiver::check(const Shape& shape) {
  if (shape.block_bytes < kMinBlockBytes || shape.block_bytes > kMaxBlockBytes) {
    return data_loss(fmt::format("a block size of {} bytes is outside {} to {}", shape.block_bytes,
                                 kMinBlockBytes, kMaxBlockBytes));
  }
  if (shape.total_bytes / shape.block_bytes >= kMaxBlocks) {
    return invalid_argument(fmt::format("an operation of {} bytes is too large for blocks of {} bytes",
                                        shape.total_bytes, shape.block_bytes));
  }
  return Status::ok();
}

Receiver::Receiver(std::shared_ptr<NodeContext> node, Place place, Shape shape, Answer answer, Done on_done)
    : node_(std::move(node)),
      place_(place),
      shape_(shape),
      answer_(std::move(answer)),
      on_done_(std::move(on_done)),
      have_(shape.block_count()) {}

Receiver::~Receiver() {
  close_zone();
  forget_held();
}

void Receiver::close_zone() {
  if (zone_) node_->landing.close(place_.session, place_.operation, zone_);
}

void Receiver::cancel() {
  is_cancelled_ = true;
  close_zone();
  node_->executor.cancel(answer_timer_);
  answer_timer_ = 0;
  forget_held();
}

void Receiver::forget_held() {
  for (const Held& held : held_) node_->remove_held(place_.session, tenant_, held.payload.size_bytes());
  held_.clear();
}

Receiver::Progress& Receiver::progress_of(std::shared_ptr<const LocalStream> stream) {
  const StreamKey key = stream->key;
  return progress_.try_emplace(key, Progress{std::move(stream), 0}).first->second;
}

void Receiver::open(std::vector<std::byte*> destinations) {
  if (is_open_) return;
  destinations_ = std::move(destinations);
  is_open_ = true;
  const auto drained = life_.bind([this] {
    if (is_cancelled_ && is_drained()) on_done_();
  });
  zone_ = std::make_shared<CopyZone>(shape_, destinations_,
                                     [drained, executor = &node_->executor] { executor->post(drained); });
  const bool refused = !accepting_;
  accepting_ = true;
  for (Held& held : held_) {
    node_->remove_held(place_.session, tenant_, held.payload.size_bytes());
    zone_->claim(held.block);
    deliver(held.block, std::move(held.payload), nullptr);
  }
  held_.clear();
  // Before the table knows it, nothing can land in it: what was held is claimed by now.
  if (!is_cancelled_) node_->landing.open(place_.session, place_.operation, zone_);
  if (refused) answer_on_every_stream();
}

Status Receiver::on_block(Arrival arrival) {
  const FrameHeader& header = arrival.header();
  const Landing& landing = arrival.landing;
  if (Shape{header.total_bytes, header.block_bytes, header.layout} != shape_) {
    return data_loss("two blocks of one operation disagree on its size");
  }
  const std::size_t size = arrival.payload_bytes();
  if (!shape_.fits(header, size)) {
    return data_loss(fmt::format("a block of {} bytes at {} does not fit an operation of {} bytes", size,
                                 header.offset_bytes, shape_.total_bytes));
  }
  const std::size_t block = header.offset_bytes / shape_.block_bytes;
  tenant_ = arrival.stream->tenant;
  Progress& progress = progress_of(arrival.shared_stream());
  progress.seen = std::max(progress.seen, header.stream_sequence);
  ++unanswered_;
  if (is_cancelled_) return Status::ok();
  bool refuses_now = false;
  if (have_.contains(block)) {
    // Came twice: nothing to do but to say so.
  } else if (landing) {
    if (landing->is_in(zone_)) {
      have_.insert(block);
      landing->keep();
      on_delivered(size);
      if (is_done()) return Status::ok();  // all was said
    }
  } else if (is_open_) {
    // Claimed by another: a copy of it has landed, and its frame is on the way here.
    if (zone_->claim(block)) {
      have_.insert(block);
      deliver(block, std::move(arrival.frame.payload), std::move(arrival.guard));
    }
  } else if (node_->may_hold(tenant_, size)) {
    have_.insert(block);
    node_->add_held(place_.session, tenant_, size);
    held_.push_back({block, std::move(arrival.frame.payload)});
  } else {
    // The source learns at once that it need not hurry.
    refuses_now = std::exchange(accepting_, false);
  }
  if (refuses_now || is_answer_due(arrival.frees_credit)) {
    answer(*progress.stream, refuses_now);
  } else {
    answer_later(progress.stream);
  }
  return Status::ok();
}

void Receiver::deliver(std::size_t block, Buffer payload, std::shared_ptr<void> guard) {
  ++copying_;
  const std::size_t offset = block * shape_.block_bytes;
  const std::size_t bytes = payload.size_bytes();
  // The guard goes back to the strand: credit is counted there.
  auto copied = life_.bind([this, guard = std::move(guard), bytes] { on_copied(bytes); });
  node_->executor.work(bytes * destinations_.size(),
                       [payload = std::move(payload), offset, destinations = destinations_,
                        copied = std::move(copied), executor = &node_->executor]() mutable {
                         for (std::byte* destination : destinations) payload.copy_to(destination + offset);
                         payload = {};
                         executor->post(std::move(copied));
                       });
}

void Receiver::on_copied(std::size_t bytes) {
  --copying_;
  on_delivered(bytes);
}

void Receiver::on_delivered(std::size_t bytes) {
  ++delivered_;
  bytes_delivered_ += bytes;
  node_->add_delivered(place_.session, bytes * destinations_.size());
  if (is_cancelled_) {
    if (is_drained()) on_done_();
    return;
  }
  if (!is_done()) return;
  close_zone();
  answer_on_every_stream();
  on_done_();
}

void Receiver::on_probe(const Arrival& probe) {
  Progress& progress = progress_of(probe.shared_stream());
  progress.seen = std::max(progress.seen, probe.header().stream_sequence);
  if (!is_cancelled_) answer(*progress.stream, true);
}

// With a block that has woken the node anyway, before the timer would; rather with credit than alone.
bool Receiver::is_answer_due(bool has_company) const {
  if (unanswered_ >= kBlocksPerAcknowledgement) return true;
  const Duration delay = has_company ? kAcknowledgementDelay / 2 : kAcknowledgementDelay;
  return answer_timer_ != 0 && node_->clock.now() >= unanswered_since_ + delay;
}

void Receiver::answer(const LocalStream& stream, bool is_awaited) {
  unanswered_ = 0;
  node_->executor.cancel(answer_timer_);
  answer_timer_ = 0;
  Acknowledgement ack;
  ack.destination = place_.self;
  ack.done = is_done();
  ack.accepting = accepting_;
  ack.awaited = is_awaited;
  ack.first_missing = static_cast<std::uint32_t>(have_.first_missing());
  const std::size_t end = std::min(have_.end(), have_.first_missing() + kMaxSpreadBlocks);
  for (std::size_t block = have_.first_missing(); block < end; ++block)
    ack.bits.push_back(have_.contains(block));
  for (const auto& [key, progress] : progress_) {
    if (key.epoch == stream.key.epoch) ack.seen.push_back({key.stream, progress.seen});
  }
  Frame frame;
  frame.header.type = FrameType::kAck;
  set_stream(frame.header, stream.key);
  frame.header.operation = place_.operation;
  frame.payload = encode_acknowledgement(ack);
  answer_(stream, std::move(frame));
}

void Receiver::answer_on_every_stream() {
  for (const auto& [key, progress] : progress_) answer(*progress.stream, true);
}

void Receiver::answer_later(const std::shared_ptr<const LocalStream>& stream) {
  if (answer_timer_ != 0) return;
  unanswered_since_ = node_->clock.now();
  const TimePoint when = tick_after(unanswered_since_ + kAcknowledgementDelay, kAnswerTick) + kAnswerTick;
  answer_timer_ = node_->executor.post_at(when, life_.bind([this, stream] {
    if (is_cancelled_) return;
    answer_timer_ = 0;
    answer(*stream, false);
  }));
}

Frame Receiver::final_answer(const LocalStream& stream, NodeId self, const FrameHeader& question) {
  Acknowledgement ack;
  ack.destination = self;
  ack.done = true;
  Frame frame;
  frame.header = question;
  frame.header.type = FrameType::kAck;
  set_stream(frame.header, stream.key);
  frame.payload = encode_acknowledgement(ack);
  return frame;
}

}  // namespace square
