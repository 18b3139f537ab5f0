#include "node/sums/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "coding/sum.h"
#include "node/multicast/receiver.h"

namespace square {

SumShape shape_of(const FrameHeader& header) {
  return {header.total_bytes,
          header.block_bytes,
          {static_cast<ElementType>(header.element_type), static_cast<ReduceOp>(header.reduce_op)},
          header.layout};
}

Status check(const SumShape& shape) {
  SQUARE_RETURN_IF_ERROR(Receiver::check({shape.total_bytes, shape.block_bytes}));
  SQUARE_RETURN_IF_ERROR(check_reduction(shape.reduction));
  const std::size_t element = element_bytes(shape.reduction.type);
  if (shape.total_bytes % element != 0 || shape.block_bytes % kBlockGranuleBytes != 0) {
    return data_loss(fmt::format("sums of {} bytes in blocks of {} do not end where elements of {} bytes do",
                                 shape.total_bytes, shape.block_bytes, element));
  }
  return Status::ok();
}

Reducer::Reducer(std::shared_ptr<NodeContext> node, Links& links, std::shared_ptr<const InstalledPlan> plan,
                 const PlanSession& session, OperationId operation, SumShape shape, Host host)
    : node_(std::move(node)),
      links_(links),
      session_(session.id),
      operation_(operation),
      shape_(shape),
      host_(std::move(host)),
      is_root_(plan->self() == session.root) {
  contributes_ = std::ranges::find(session.members, *plan->self()) != session.members.end();
  enter(std::move(plan), {}, true);
}

Reducer::~Reducer() {
  if (node_->is_gone) return;
  // A sum in the making may let go of this when the executor is gone: then nothing is armed.
  if (ask_timer_ != 0) node_->executor.cancel(ask_timer_);
  close_zone();
  drop_everything();
}

void Reducer::cancel() {
  is_cancelled_ = true;
  close_zone();
  node_->executor.cancel(ask_timer_);
  ask_timer_ = 0;
  drop_everything();
  pin_.reset();
}

void Reducer::drop_everything() {
  for (auto& [index, stream] : streams_) {
    if (stream.to != nullptr) stream.to->drop_operation(session_, operation_);
  }
  streams_.clear();
  active_.clear();
  retries_.clear();
}

// Begins, or begins again, under a plan with what is not done.
void Reducer::enter(std::shared_ptr<const InstalledPlan> plan, const std::vector<bool>& done_before,
                    bool knows_start) {
  drop_everything();
  plan_ = std::move(plan);
  done_before_ = done_before;
  knows_start_ = knows_start;
  passed_.clear();
  interleave_ = std::make_shared<const Interleave>();
  if (is_open_ && knows_start_) deal();
  for (const LocalStream* local : plan_->streams_of(session_)) {
    Stream stream;
    stream.local = local;
    if (!is_root_) stream.to = links_.at(local->children.front()).get();
    stream.seen.resize(local->parents.size());
    streams_.emplace(local->key.stream, std::move(stream));
  }
}

// Not before the members have called: what a frame says of an operation costs no memory.
void Reducer::deal() {
  std::vector<Interleave::Stream> streams;
  for (const PlanStream& stream : plan_->plan().find_session(session_)->streams)
    streams.push_back({stream.rate_bps, depth_of(stream, SessionKind::kReduce)});
  interleave_ = std::make_shared<const Interleave>(streams, shape_.block_count(), done_before_);
}

bool Reducer::is_newer(const FrameHeader& header, Epoch epoch) const {
  return std::tuple(header.layout, attempt_from_wire(header.attempt).generation, epoch) >
         std::tuple(shape_.layout, generation_, plan_->epoch());
}

bool Reducer::is_older(const FrameHeader& header, Epoch epoch) const {
  return std::tuple(header.layout, attempt_from_wire(header.attempt).generation, epoch) <
         std::tuple(shape_.layout, generation_, plan_->epoch());
}

// Follows the root, or a contributor that begins, to a newer beginning.
Status Reducer::adopt(const std::shared_ptr<const InstalledPlan>& plan, const FrameHeader& header) {
  const SumShape shape = shape_of(header);
  SQUARE_RETURN_IF_ERROR(check(shape));
  if (is_open_) SQUARE_RETURN_IF_ERROR(check_same(shape));
  shape_ = shape;
  generation_ = attempt_from_wire(header.attempt).generation;
  // Of the first generation everybody knows where it begins.
  enter(plan, {}, generation_ == 0 || !contributes_);
  host_.on_restart();
  return Status::ok();
}

Reducer::Stream* Reducer::find(StreamIndex index) {
  const auto found = streams_.find(index);
  return found == streams_.end() ? nullptr : &found->second;
}

void Reducer::open(std::vector<const std::byte*> inputs, std::vector<std::byte*> outputs,
                   std::uint32_t group_size, std::shared_ptr<const void> pin) {
  buffers_ = {std::move(inputs), std::move(outputs), shape_.reduction, group_size};
  pin_ = std::move(pin);
  is_open_ = true;
  if (knows_start_) deal();
  if (is_root_) open_zone();
  // In the order of their streams, so that what passes keeps it.
  std::vector<std::tuple<std::uint64_t, std::size_t>> waiting;
  for (const auto& [block, active] : active_) {
    const std::uint64_t sequence = active.parts.empty() ? 0 : active.parts.front().sequence;
    waiting.emplace_back(sequence == 0 ? ~std::uint64_t{0} : sequence, block);
  }
  std::ranges::sort(waiting);
  for (const auto& [sequence, block] : waiting) {
    if (Stream* stream = find(active_.at(block).stream)) add_if_complete(*stream, block);
  }
  // Before the table knows it, nothing can land in it: what waited is claimed by now.
  if (is_root_ && !is_cancelled_) node_->landing.open(session_, operation_, zone_);
  // The root learns which life of this process it hears.
  if (!is_root_ && !streams_.empty()) report(streams_.begin()->second, 0);
  arm_ask();
  fill_all();
}

void Reducer::open_zone() {
  done_blocks_ = BlockSet(shape_.block_count());
  const auto drained = [weak = weak_from_this(), executor = &node_->executor] {
    executor->post([weak] {
      if (const auto self = weak.lock()) self->host_.progress();
    });
  };
  zone_ = std::make_shared<SumZone>(BlockShape{shape_.total_bytes, shape_.block_bytes, shape_.layout},
                                    buffers_, drained);
  zone_->begin({plan_->epoch(), generation_, interleave_});
}

void Reducer::close_zone() {
  if (zone_) node_->landing.close(session_, operation_, zone_);
}

// A block that landed is in the outputs, whatever becomes of the frame that brought it.
void Reducer::take_landed() {
  if (!zone_) return;
  for (const std::size_t block : zone_->take_added()) {
    done_blocks_.insert(block);
    count_sum(block);
  }
}

bool Reducer::has_results() const {
  if (done_blocks_.count() > 0 || !zone_) return done_blocks_.count() > 0;
  const std::vector<bool> claimed = zone_->claimed();
  return std::ranges::find(claimed, true) != claimed.end();
}

std::size_t Reducer::bytes_of(std::size_t block) const {
  const std::uint64_t offset = std::uint64_t{block} * shape_.block_bytes;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(shape_.block_bytes, shape_.total_bytes - std::min(shape_.total_bytes, offset)));
}

std::uint16_t Reducer::retry_of(std::size_t block) const {
  const auto found = retries_.find(block);
  return found == retries_.end() ? std::uint16_t{0} : found->second.count;
}

// Another neighbour's shape: does it add what is added here?
Status Reducer::check_same(const SumShape& other) const {
  if (other.reduction == shape_.reduction && other.total_bytes == shape_.total_bytes) return Status::ok();
  return invalid_argument(fmt::format("{} bytes of {} ({}) are added there, {} bytes of {} ({}) here",
                                      other.total_bytes, to_string(other.reduction.type),
                                      to_string(other.reduction.op), shape_.total_bytes,
                                      to_string(shape_.reduction.type), to_string(shape_.reduction.op)));
}

Status Reducer::check_block(const FrameHeader& header, std::size_t payload_bytes) const {
  SQUARE_RETURN_IF_ERROR(check_same(shape_of(header)));
  const std::uint64_t block = header.offset_bytes / shape_.block_bytes;
  if (header.block_bytes != shape_.block_bytes || header.offset_bytes % shape_.block_bytes != 0 ||
      block >= shape_.block_count() || payload_bytes != bytes_of(block)) {
    return data_loss(fmt::format("a block of {} bytes at {} does not fit a sum of {} bytes", payload_bytes,
                                 header.offset_bytes, shape_.total_bytes));
  }
  return Status::ok();
}

Status Reducer::on_block(Arrival arrival) {
  const auto self = shared_from_this();  // what ends now may let go of it
  const auto& plan = arrival.plan;
  const FrameHeader& header = arrival.header();
  if (arrival.landing) {
    arrival.guard.reset();
    take_landed();
  }
  if (is_cancelled_ || done_ || is_older(header, plan->epoch())) return Status::ok();
  if (is_newer(header, plan->epoch())) {
    if (is_root_) {
      if (plan->epoch() <= plan_->epoch()) return data_loss("a sum begins again that its root did not begin");
      migrate(plan);  // what this frame began is begun again, by everybody
      return Status::ok();
    }
    SQUARE_RETURN_IF_ERROR(adopt(plan, header));
  }
  SQUARE_RETURN_IF_ERROR(check_block(header, arrival.payload_bytes()));
  const StreamIndex index = arrival.key().stream;
  Stream* stream = find(index);
  if (stream == nullptr) return Status::ok();
  const auto parent = static_cast<std::size_t>(std::ranges::find(stream->local->parents, arrival.from) -
                                               stream->local->parents.begin());
  const std::size_t block = header.offset_bytes / shape_.block_bytes;
  if (!belongs_to(block, index)) {
    return data_loss(fmt::format("the parts of block {} of a sum come on different streams", block));
  }
  const std::uint16_t retry = attempt_from_wire(header.attempt).retry;
  const std::uint64_t sequence = header.stream_sequence;
  heard_ = true;
  idle_asks_ = 0;
  idle_limit_ = kMaxIdleAsks;
  if (retry > retry_of(block)) {
    if (is_root_) return data_loss("a block is sent again that its root did not ask for");
    // The request was lost on its way here; who sent this has heard it.
    retries_[block].count = retry;
    active_.erase(block);
    passed_.erase(block);
  }
  if (retry == retry_of(block) && !arrival.landing) {
    Part part{std::move(arrival.frame.payload), std::move(arrival.guard), sequence, true};
    take_part(*stream, block, std::move(part), parent);
  }
  if (is_root_ && is_open_ && sequence != 0) find_gap(*stream, parent, sequence);
  return Status::ok();
}

bool Reducer::belongs_to(std::size_t block, StreamIndex stream) const {
  if (contributes_ && knows_start_ && interleave_->is_dealt(block)) {
    return interleave_->stream_of(block) == stream.index();
  }
  const auto active = active_.find(block);
  return active == active_.end() || active->second.stream == stream;
}

void Reducer::take_part(Stream& stream, std::size_t block, Part part, std::size_t parent) {
  if (passed_.contains(block) || is_done(block)) return;
  Active& active = active_[block];
  active.stream = stream.local->key.stream;
  active.parts.resize(stream.local->parents.size());
  if (active.parts[parent].arrived) return;
  active.parts[parent] = std::move(part);
  ++active.arrived;
  add_if_complete(stream, block);
}

void Reducer::add_if_complete(Stream& stream, std::size_t block) {
  Active& active = active_.at(block);
  if (active.arrived < active.parts.size() || (contributes_ && !is_open_)) return;
  if (is_root_) {
    finish_at_root(block, active);
  } else {
    pass_on(stream, block, active);
  }
  active_.erase(block);
}

FrameHeader Reducer::header_for(const Stream& stream, FrameType type) const {
  FrameHeader header;
  header.type = type;
  header.epoch = stream.local->key.epoch;
  header.session = session_;
  header.stream = stream.local->key.stream;
  header.operation = operation_;
  header.incarnation = node_->options.incarnation;
  header.attempt = to_wire({generation_, 0});
  header.layout = shape_.layout;
  header.call = call_;
  header.element_type = static_cast<std::uint8_t>(shape_.reduction.type);
  header.reduce_op = static_cast<std::uint8_t>(shape_.reduction.op);
  header.total_bytes = shape_.total_bytes;
  header.block_bytes = shape_.block_bytes;
  return header;
}

void Reducer::pass_on(Stream& stream, std::size_t block, Active& active) {
  passed_.insert(block);
  auto item = std::make_shared<Item>();
  item->frame.header = header_for(stream, FrameType::kBlock);
  item->frame.header.attempt = to_wire({generation_, retry_of(block)});
  item->frame.header.offset_bytes = std::uint64_t{block} * shape_.block_bytes;
  item->frame.header.stream_sequence = active.parts.front().sequence;
  for (Part& part : active.parts) {
    item->frame.header.stream_sequence = std::min(item->frame.header.stream_sequence, part.sequence);
    item->guards.push_back(std::move(part.guard));
  }
  stream.leaving.push_back(item);
  if (!contributes_ && active.parts.size() == 1) {
    item->frame.payload = std::move(active.parts.front().payload);
    item->ready = true;
    return flush(stream);
  }
  make_sum(std::move(item), std::move(active.parts), block, stream);
}

void Reducer::emit_own(Stream& stream, std::size_t block, std::uint64_t sequence) {
  auto item = std::make_shared<Item>();
  item->frame.header = header_for(stream, FrameType::kBlock);
  item->frame.header.attempt = to_wire({generation_, retry_of(block)});
  item->frame.header.offset_bytes = std::uint64_t{block} * shape_.block_bytes;
  item->frame.header.stream_sequence = sequence;
  stream.leaving.push_back(item);
  if (buffers_.inputs.size() > 1) return make_sum(std::move(item), {}, block, stream);
  item->frame.payload =
      Buffer(pin_, buffers_.inputs.front() + item->frame.header.offset_bytes, bytes_of(block));
  item->ready = true;
  flush(stream);
}

// A partial sum: this node's own inputs, then its parents in the order of the plan.
void Reducer::make_sum(std::shared_ptr<Item> item, std::vector<Part> parts, std::size_t block,
                       Stream& stream) {
  ++adding_;
  const std::size_t size = bytes_of(block);
  const std::size_t offset = block * shape_.block_bytes;
  node_->executor.work([self = shared_from_this(), item = std::move(item), parts = std::move(parts),
                        inputs = buffers_.inputs, reduction = shape_.reduction, size, offset,
                        index = stream.local->key.stream]() mutable {
    std::shared_ptr<std::byte[]> sum = std::make_shared_for_overwrite<std::byte[]>(size);
    std::vector<Operand> operands;
    for (const std::byte* input : inputs) operands.push_back({input + offset, nullptr});
    for (const Part& part : parts) operands.push_back({nullptr, &part.payload});
    if (size > 0) add({sum.get(), size}, operands, reduction);
    parts.clear();
    const std::byte* data = sum.get();
    Buffer payload(std::move(sum), data, size);
    Executor& executor = self->node_->executor;
    executor.post(
        [self = std::move(self), item = std::move(item), payload = std::move(payload), index]() mutable {
          --self->adding_;
          item->frame.payload = std::move(payload);
          item->ready = true;
          if (Stream* here = self->find(index)) self->flush(*here);
          self->host_.progress();
        });
  });
}

void Reducer::finish_at_root(std::size_t block, Active& active) {
  if (!zone_->claim(block)) return;  // another copy of its part has landed
  done_blocks_.insert(block);
  ++adding_;
  std::vector<std::shared_ptr<void>> guards;
  for (Part& part : active.parts) guards.push_back(std::move(part.guard));
  node_->executor.work([self = shared_from_this(), parts = std::move(active.parts),
                        guards = std::move(guards), buffers = buffers_, size = bytes_of(block), block,
                        offset = block * shape_.block_bytes]() mutable {
    std::vector<const Buffer*> payloads;
    for (const Part& part : parts) payloads.push_back(&part.payload);
    buffers.add_block(offset, size, payloads);
    parts.clear();
    // The guards go back to the strand: credit is counted there.
    Executor& executor = self->node_->executor;
    executor.post([self = std::move(self), guards = std::move(guards), block] { self->on_added(block); });
  });
}

void Reducer::on_added(std::size_t block) {
  --adding_;
  count_sum(block);
}

void Reducer::count_sum(std::size_t block) {
  ++added_;
  node_->add_delivered(session_, bytes_of(block) * buffers_.outputs.size());
  if (!is_cancelled_) {
    host_.on_sum(block);
    if (added_ == shape_.block_count()) return finish();
  }
  host_.progress();
}

void Reducer::flush(Stream& stream) {
  while (!stream.leaving.empty() && stream.leaving.front()->ready) {
    const auto item = std::move(stream.leaving.front());
    stream.leaving.pop_front();
    auto guards = std::make_shared<std::vector<std::shared_ptr<void>>>(std::move(item->guards));
    stream.to->enqueue(stream.local->key, std::move(item->frame), std::move(guards));
  }
}

void Reducer::fill_all() {
  std::vector<StreamKey> keys;
  for (const auto& [index, stream] : streams_) {
    if (stream.local->starts_here()) keys.push_back(stream.local->key);
  }
  for (const StreamKey& key : keys) host_.fill(key);
}

bool Reducer::fill(const StreamKey& key) {
  Stream* const found = key.epoch == plan_->epoch() ? find(key.stream) : nullptr;
  if (is_cancelled_ || done_ || found == nullptr || !found->local->starts_here()) return true;
  Stream& stream = *found;
  // A link that sends at once has room at once: its call from there leaves it to this loop.
  if (std::exchange(stream.is_filling, true)) return false;
  bool has_more = false;
  while (true) {
    if (stream.again.empty() && stream.report_due) {
      push_report(stream, *std::exchange(stream.report_due, std::nullopt));
      continue;
    }
    has_more =
        is_open_ && knows_start_ && stream.next < interleave_->order(stream.local->key.stream.index()).size();
    if (stream.again.empty() && !has_more) break;
    if (stream.leaving.size() >= kSourceQueueBlocks || !stream.to->has_room(key)) {
      stream.to->want_room(key);
      break;
    }
    if (!stream.again.empty()) {
      const std::uint32_t block = stream.again.front();
      stream.again.pop_front();
      emit_own(stream, block, 0);
    } else {
      const std::uint32_t block = interleave_->order(stream.local->key.stream.index())[stream.next++];
      emit_own(stream, block, stream.next);
    }
  }
  stream.is_filling = false;
  return !has_more && stream.again.empty() && is_open_ && knows_start_;
}

}  // namespace square
