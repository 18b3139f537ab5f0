#include "node/sums/sum_forwarder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "node/sums/partial_sum.h"

namespace square {

SumForwarder::SumForwarder(std::shared_ptr<NodeContext> node, Links& links,
                           std::shared_ptr<const InstalledCollective> plan, const SumLabel& label, Host host)
    : SumSession(label),
      node_(std::move(node)),
      links_(links),
      host_(std::move(host)),
      ask_timer_(node_->executor, node_->clock) {
  const auto& members = plan->session(label.session)->members;
  if (std::ranges::find(members, *plan->self()) != members.end()) own_.emplace();
  enter(std::move(plan), true);
}

SumForwarder::~SumForwarder() {
  ask_timer_.cancel();
  drop_everything();
}

void SumForwarder::cancel() {
  is_cancelled_ = true;
  ask_timer_.cancel();
  drop_everything();
  if (own_) own_->close();
}

void SumForwarder::drop_everything() {
  for (auto& [index, stream] : streams_) link_of(stream).drop_operation(label_.session, label_.operation);
  streams_.clear();
  parts_.clear();
  retries_.clear();
}

// Begins, or begins again, under a plan.
void SumForwarder::enter(std::shared_ptr<const InstalledCollective> plan, bool knows_start) {
  drop_everything();
  plan_ = std::move(plan);
  passed_.clear();
  if (own_) own_->begin(0, {}, {}, knows_start);
  deal();
  for (const LocalStream* local : plan_->streams_of(label_.session))
    streams_.emplace(local->key.stream, Stream{local, links_.at(local->children.front())->find(local->key)});
}

void SumForwarder::deal() {
  if (own_) own_->deal(*plan_->session(label_.session), label_.shape.block_count());
}

// Follows the root, or a contributor that begins, to a newer beginning.
Status SumForwarder::adopt(const std::shared_ptr<const InstalledCollective>& plan,
                           const FrameHeader& header) {
  const SumShape shape = shape_of(header);
  SQUARE_RETURN_IF_ERROR(check(shape));
  if (own_ && own_->is_open()) SQUARE_RETURN_IF_ERROR(label_.shape.check_same(shape));
  label_.shape = shape;
  label_.generation = attempt_from_wire(header.attempt).generation;
  // Of the first generation everybody knows where it begins.
  enter(plan, label_.generation == 0);
  host_.on_restart();
  return Status::ok();
}

SumForwarder::Stream* SumForwarder::find(StreamIndex index) {
  const auto found = streams_.find(index);
  return found == streams_.end() ? nullptr : &found->second;
}

void SumForwarder::open(SumBuffers buffers, std::shared_ptr<const void> pin) {
  own_->open(std::move(buffers.inputs), std::move(pin));
  deal();
  for (const auto& [block, index] : parts_.in_order()) {
    if (Stream* stream = find(index)) add_if_complete(*stream, block);
  }
  // The root learns which life of this process it hears.
  if (!streams_.empty()) report(streams_.begin()->second, 0);
  arm_ask();
  fill_all();
}

Status SumForwarder::on_block(Arrival arrival) {
  const FrameHeader& header = arrival.header();
  const SumAge age = age_of(header);
  const SumAge present = label_.age(plan_->epoch());
  if (is_cancelled_ || done_ || age < present) return Status::ok();
  if (age > present) SQUARE_RETURN_IF_ERROR(adopt(arrival.plan, header));
  SQUARE_RETURN_IF_ERROR(label_.shape.check_block(header, arrival.payload_bytes()));
  const StreamIndex index = arrival.key().stream;
  Stream* stream = find(index);
  if (stream == nullptr) return Status::ok();
  const std::size_t block = header.offset_bytes / label_.shape.block_bytes;
  if (!belongs_to(block, index)) {
    return data_loss(fmt::format("the parts of block {} of a sum come on different streams", block));
  }
  const std::uint16_t retry = attempt_from_wire(header.attempt).retry;
  ask_timer_.hear();
  // The request was lost on its way here; who sent this has heard it.
  if (retry > retries_.of(block)) drop_block(block, retry);
  if (retry != retries_.of(block) || passed_.contains(block)) return Status::ok();
  SumPart part{std::move(arrival.frame.payload), std::move(arrival.guard), header.stream_sequence};
  if (parts_.add(block, index, stream->local->parents.size(), arrival.place, std::move(part)))
    add_if_complete(*stream, block);
  return Status::ok();
}

bool SumForwarder::belongs_to(std::size_t block, StreamIndex stream) const {
  if (own_ && own_->interleave().is_dealt(block))
    return own_->interleave().stream_of(block) == stream.index();
  return parts_.may_come_on(block, stream);
}

// It begins again.
void SumForwarder::drop_block(std::size_t block, std::uint16_t retry) {
  retries_.set(block, retry);
  parts_.drop(block);
  passed_.erase(block);
}

void SumForwarder::add_if_complete(Stream& stream, std::size_t block) {
  if ((own_ && !own_->is_open()) || !parts_.is_complete(block)) return;
  pass_on(stream, block, parts_.take(block));
}

void SumForwarder::pass_on(Stream& stream, std::size_t block, std::vector<SumPart> parts) {
  passed_.insert(block);
  auto item = stream.leaving.reserve(label_.block_header(stream.key(), block, retries_.of(block)));
  item->frame.header.stream_sequence = parts.front().sequence;
  for (SumPart& part : parts) {
    item->frame.header.stream_sequence = std::min(item->frame.header.stream_sequence, part.sequence);
    item->guards.push_back(std::move(part.guard));
  }
  if (own_ || parts.size() > 1) return make_sum(stream, block, item, std::move(parts));
  item->frame.payload = std::move(parts.front().payload);
  item->is_ready = true;
  flush(stream);
}

void SumForwarder::emit_own(Stream& stream, const OwnBlocks::Turn& turn) {
  auto item = stream.leaving.reserve(label_.block_header(stream.key(), turn.block, retries_.of(turn.block)));
  item->frame.header.stream_sequence = turn.sequence;
  if (own_->inputs().size() > 1) return make_sum(stream, turn.block, item, {});
  item->frame.payload = own_->show(label_.shape.offset_of(turn.block), label_.shape.bytes_of(turn.block));
  item->is_ready = true;
  flush(stream);
}

// A partial sum: this node's own inputs, then its parents' in the order of the plan.
void SumForwarder::make_sum(Stream& stream, std::size_t block,
                            const std::shared_ptr<LeavingQueue::Item>& item, std::vector<SumPart> parts) {
  ++adding_;
  auto added = life_.bind([this, item, index = stream.key().stream](Buffer& sum) {
    --adding_;
    item->frame.payload = std::move(sum);
    item->is_ready = true;
    if (Stream* here = find(index)) flush(*here);
    host_.progress();
  });
  auto inputs = own_ ? own_->inputs() : std::vector<const std::byte*>();
  const std::size_t size = label_.shape.bytes_of(block);
  const std::size_t operands = parts.size() + inputs.size();
  node_->executor.work(
      operands * size, [parts = std::move(parts), added = std::move(added), inputs = std::move(inputs),
                        reduction = label_.shape.reduction, size, offset = label_.shape.offset_of(block),
                        executor = &node_->executor]() mutable {
        Buffer sum = partial_sum(inputs, offset, size, parts, reduction);
        parts.clear();
        executor->post([added = std::move(added), sum = std::move(sum)]() mutable { added(sum); });
      });
}

void SumForwarder::flush(Stream& stream) {
  while (const auto item = stream.leaving.take_ready()) {
    auto guards = std::make_shared<std::vector<std::shared_ptr<void>>>(std::move(item->guards));
    stream.to->enqueue(std::move(item->frame), std::move(guards));
  }
}

void SumForwarder::fill_all() {
  std::vector<StreamKey> keys;
  for (const auto& [index, stream] : streams_) {
    if (stream.starts_here()) keys.push_back(stream.key());
  }
  for (const StreamKey& key : keys) host_.fill(key);
}

bool SumForwarder::fill(const StreamKey& key) {
  Stream* const found = key.epoch == plan_->epoch() ? find(key.stream) : nullptr;
  if (!own_ || is_cancelled_ || done_ || found == nullptr || !found->starts_here()) return true;
  Stream& stream = *found;
  const auto& order = own_->interleave().order(key.stream.index());
  while (true) {
    if (const auto number = stream.own.take_report()) {
      push_report(stream, *number);
      continue;
    }
    if (!stream.own.has_turn(order)) break;
    if (stream.leaving.size() >= kSourceQueueBlocks || !stream.to->has_room()) {
      stream.to->want_room();
      break;
    }
    emit_own(stream, stream.own.take(order));
  }
  return own_->is_ready() && !stream.own.has_turn(order);
}

}  // namespace square
