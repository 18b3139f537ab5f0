#include "node/sums/sum_root.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/planted.h"

namespace square {

SumRoot::SumRoot(std::shared_ptr<NodeContext> node, std::shared_ptr<const InstalledCollective> plan,
                 const SumLabel& label, Host host)
    : SumSession(label),
      node_(std::move(node)),
      host_(std::move(host)),
      ask_timer_(node_->executor, node_->clock) {
  enter(std::move(plan), {});
}

SumRoot::~SumRoot() {
  ask_timer_.cancel();
  close_zone();
}

void SumRoot::cancel() {
  is_cancelled_ = true;
  close_zone();
  ask_timer_.cancel();
  drop_everything();
  pin_.reset();
}

void SumRoot::drop_everything() {
  streams_.clear();
  parts_.clear();
  retries_.clear();
}

// Begins, or begins again, under a plan with what is not done.
void SumRoot::enter(std::shared_ptr<const InstalledCollective> plan, const std::vector<bool>& done_before) {
  drop_everything();
  if (plan != plan_) left_.clear();
  plan_ = std::move(plan);
  silence_.clear();
  done_before_ = done_before;
  interleave_ = std::make_shared<const Interleave>();
  if (is_open_) deal();
  for (const LocalStream* local : plan_->streams_of(label_.session)) {
    Stream& stream = streams_.emplace(local->key.stream, Stream{local, LossWatch(local->parents.size()), {}})
                         .first->second;
    for (const std::string& parent : local->parents)
      stream.relays.push_back(relay_from(*plan_, planned().streams[local->key.stream.index()], parent));
  }
}

// Not before the members have called: what a frame says of an operation costs no memory.
void SumRoot::deal() { interleave_ = deal_out(planned(), label_.shape.block_count(), done_before_, left_); }

SumRoot::Stream* SumRoot::find(StreamIndex index) {
  const auto found = streams_.find(index);
  return found == streams_.end() ? nullptr : &found->second;
}

void SumRoot::open(SumBuffers buffers, std::shared_ptr<const void> pin) {
  buffers_ = std::move(buffers);
  pin_ = std::move(pin);
  is_open_ = true;
  deal();
  const auto drained = life_.bind([this] { host_.progress(); });
  results_.open(label_.shape, buffers_, [drained, executor = &node_->executor] { executor->post(drained); });
  results_.begin({plan_->epoch(), label_.generation, interleave_});
  // Before, a block could come on any stream: who relays on one of them has no say on the others.
  parts_.drop_if([&](const WaitingParts::Place& place) { return !belongs_to(place.block, place.stream); });
  for (const auto& [block, stream] : parts_.in_order())
    if (find(stream) != nullptr) add_if_complete(block);
  // Before the table knows it, nothing can land in it: what waited is claimed by now.
  if (!is_cancelled_) node_->landing.open(label_.session, label_.operation, results_.zone());
  arm_ask();
}

void SumRoot::close_zone() {
  if (const auto& zone = results_.zone()) node_->landing.close(label_.session, label_.operation, zone);
}

void SumRoot::take_landed() {
  for (const std::size_t block : results_.take_landed()) count_sum(block);
}

Status SumRoot::on_block(Arrival arrival) {
  const FrameHeader& header = arrival.header();
  if (arrival.landing) {
    arrival.guard.reset();
    take_landed();
  }
  const SumAge age = age_of(header);
  const SumAge present = label_.age(plan_->epoch());
  if (is_cancelled_ || done_) return Status::ok();
  if (age < present && !is_planted(Bug::kPartsOfOldSums)) return Status::ok();
  if (age > present) {
    if (arrival.plan->epoch() <= plan_->epoch())
      return data_loss("a sum begins again that its root did not begin");
    migrate(arrival.plan);  // what this frame began is begun again, by everybody
    return Status::ok();
  }
  SQUARE_RETURN_IF_ERROR(label_.shape.check_block(header, arrival.payload_bytes()));
  const StreamIndex index = arrival.key().stream;
  Stream* stream = find(index);
  const std::size_t parent = arrival.place;
  // A place in an older plan: where that is planted.
  if (stream == nullptr || parent >= stream->local->parents.size()) return Status::ok();
  const std::size_t block = header.offset_bytes / label_.shape.block_bytes;
  if (!belongs_to(block, index)) {
    return data_loss(fmt::format("the parts of block {} of a sum come on different streams", block));
  }
  const std::uint16_t retry = attempt_from_wire(header.attempt).retry;
  const std::uint64_t sequence = header.stream_sequence;
  ask_timer_.hear();
  silence_.on_part(index);
  if (stream->relays[parent]) node_->lossy.note_blocks(*stream->relays[parent], 0, 1);
  idle_asks_ = 0;
  idle_limit_ = kMaxIdleAsks;
  if (retry > retries_.of(block)) return data_loss("a block is sent again that its root did not ask for");
  if (retry == retries_.of(block) && !arrival.landing) {
    take_part(*stream, block, parent, {std::move(arrival.frame.payload), std::move(arrival.guard), sequence});
  }
  if (is_open_ && sequence != 0) find_gap(*stream, parent, sequence);
  return Status::ok();
}

bool SumRoot::belongs_to(std::size_t block, StreamIndex stream) const {
  return interleave_->is_dealt(block) ? interleave_->stream_of(block) == stream.index()
                                      : parts_.may_come_on(block, stream);
}

void SumRoot::take_part(Stream& stream, std::size_t block, std::size_t parent, SumPart part) {
  if (results_.has(block)) return;
  const LocalStream& local = *stream.local;
  if (parts_.add(block, local.key.stream, local.parents.size(), parent, std::move(part)))
    add_if_complete(block);
}

void SumRoot::add_if_complete(std::size_t block) {
  if (!is_open_ || !parts_.is_complete(block)) return;
  std::vector<SumPart> parts = parts_.take(block);
  if (!results_.claim(block)) return;  // another copy of its part has landed
  ++adding_;
  std::vector<std::shared_ptr<void>> guards;
  for (SumPart& part : parts) guards.push_back(std::move(part.guard));
  // The guards go back to the strand: credit is counted there.
  auto added = life_.bind([this, guards = std::move(guards), block] {
    --adding_;
    count_sum(block);
  });
  const std::size_t size = label_.shape.bytes_of(block);
  const std::size_t operands = parts.size() + buffers_.inputs.size();
  node_->executor.work(operands * size, [parts = std::move(parts), buffers = buffers_, size,
                                         offset = label_.shape.offset_of(block), added = std::move(added),
                                         executor = &node_->executor]() mutable {
    std::vector<const Buffer*> payloads;
    for (const SumPart& part : parts) payloads.push_back(&part.payload);
    buffers.add_block(offset, size, payloads);
    parts.clear();
    executor->post(std::move(added));
  });
}

void SumRoot::count_sum(std::size_t block) {
  results_.count();
  node_->add_delivered(label_.session, label_.shape.bytes_of(block) * buffers_.outputs.size());
  if (!is_cancelled_) {
    host_.on_sum(block);
    if (results_.is_complete()) return finish();
  }
  host_.progress();
}

void SumRoot::finish() {
  done_ = true;
  close_zone();
  ask_timer_.cancel();
  for (auto& [index, stream] : streams_) {
    host_.answer(*stream.local, done_answer(label_.header(FrameType::kRequest, stream.local->key),
                                            node_->options.incarnation));
  }
  host_.progress();
}

std::string SumRoot::describe_missing() const {
  if (done_) return "";
  std::string names;
  const PlanSession& session = planned();
  for (const NodeId member : session.members) {
    if (member == session.root || called_.contains(member)) continue;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", plan_->name_of(member));
  }
  return fmt::format(
      "{} of {} sums are there{}", results_.count_added(), label_.shape.block_count(),
      names.empty() ? "" : fmt::format("; nothing is known of {}; have they called it?", names));
}

}  // namespace square
