// What a node does with each type of frame.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "node/core.h"

namespace square {

void DataPlane::Core::on_frame(LinkHandle link, Frame frame) {
  // Into the members' buffers on this thread; what the frame means is the strand's to say.
  Landing landing = context_.landing.land(link, frame);
  context_.executor.post(
      [weak = weak_from_this(), link, frame = std::move(frame), landing = std::move(landing)]() mutable {
        if (const auto self = weak.lock()) self->take_frame(link, std::move(frame), landing);
      });
}

std::optional<DataPlane::Core::Place> DataPlane::Core::place_of(const FrameHeader& header) const {
  const auto plan = plans_.find(header.epoch);
  if (plan == plans_.end()) return std::nullopt;
  const LocalStream* stream = plan->second->find({header.epoch, header.session, header.stream});
  if (stream == nullptr) return std::nullopt;
  return Place{plan->second, stream};
}

// A frame of a plan that is gone, or of nobody: dropped and counted.
void DataPlane::Core::refuse() { ++context_.statistics.frames_refused; }

void DataPlane::Core::take_frame(LinkHandle link, Frame frame, const Landing& landing) {
  const auto connection = connections_.find(link);
  const auto place = place_of(frame.header);
  if (connection == connections_.end() || !place || is_stopping_) return refuse();
  const Connection& from = connection->second;
  const LocalStream& stream = *place->stream;
  const StreamKey key = stream.key;
  const bool from_parent = from.end == LinkEnd::kHead && stream.comes_from(from.peer);
  const bool from_child =
      from.end == LinkEnd::kTail && std::ranges::find(stream.children, from.peer) != stream.children.end();
  const bool is_sum = stream.kind == SessionKind::kReduce;
  switch (frame.header.type) {
    case FrameType::kBlock:
      return from_parent ? take_block(from, link, *place, std::move(frame), landing) : refuse();
    case FrameType::kProbe: return from_parent && !is_sum ? take_probe(*place, std::move(frame)) : refuse();
    case FrameType::kCreditRequest:
      return from_parent ? incoming_[from.peer].streams.at(key)->on_credit_request(frame.header.hop_sequence)
                         : refuse();
    case FrameType::kCredit:
      return from_child ? outgoing_.at(from.peer)->on_credit(key, frame.header.hop_sequence) : refuse();
    case FrameType::kAck:
      return from_child && !is_sum ? take_acknowledgement(*place, std::move(frame)) : refuse();
    case FrameType::kAbort: return from_parent || from_child ? take_abort(from, *place, frame) : refuse();
    case FrameType::kRequest: return from_child && is_sum ? take_request(*place, frame) : refuse();
    case FrameType::kReport: return from_parent && is_sum ? take_report(*place, std::move(frame)) : refuse();
  }
}

void DataPlane::Core::take_block(const Connection& from, LinkHandle link, const Place& place, Frame frame,
                                 const Landing& landing) {
  const StreamKey key = place.stream->key;
  const std::size_t size = landing ? landing->size_bytes() : frame.payload.size_bytes();
  auto guard = incoming_[from.peer].streams.at(key)->take(frame.header.hop_sequence, size);
  if (!guard || size > largest_block(key.session)) {
    refuse();
    log(LogLevel::kError, {.component = "node", .node = context_.options.name, .peer = from.peer},
        "{}: node \"{}\" sent what it has no credit for; closing the link", context_.options.name, from.peer);
    return context_.transport.close_link(link);
  }
  ++context_.statistics.blocks_received;
  context_.statistics.bytes_received += size;
  context_.traffic.on_received(from.peer, key.session, size);
  const auto way_back = outgoing_.find(from.peer);
  if (way_back != outgoing_.end()) way_back->second->charge_receipt(size);
  if (place.stream->kind == SessionKind::kReduce) {
    return take_part(from, place, std::move(frame), std::move(guard), landing);
  }
  const Collective& collective = collectives_[place.stream->collective];
  if (collective.failure && !collective.has_finished(frame.header.operation)) {
    return answer_abort(place, frame.header, *collective.failure);
  }
  for (const std::string& child : place.stream->children) outgoing_.at(child)->enqueue(key, frame, guard);
  if (!place.stream->is_destination) return;
  if (const auto operation = operation_for(place, frame.header)) {
    operation->on_block(place.plan, *place.stream, std::move(frame), std::move(guard), landing);
  }
}

void DataPlane::Core::take_probe(const Place& place, Frame frame) {
  for (const std::string& child : place.stream->children) {
    outgoing_.at(child)->enqueue(place.stream->key, frame, nullptr);
  }
  if (!place.stream->is_destination) return;
  if (const auto operation = operation_for(place, frame.header)) {
    operation->on_probe(place.plan, *place.stream, frame.header);
  }
}

std::shared_ptr<Operation> DataPlane::Core::operation_for(const Place& place, const FrameHeader& header) {
  const OperationKey key{place.stream->collective, header.operation};
  const Collective& collective = collectives_[key.collective];
  const PlanSession* session = place.plan->plan().find_session(header.session);
  const Status alive = check_life(place, header, session->root);
  if (!alive.is_ok()) poison(key, alive);
  if (alive.is_ok() && collective.has_finished(key.operation)) {
    answer(*place.stream, Receiver::final_answer(*place.stream, *place.plan->self(), header));
    return nullptr;
  }
  if (collective.failure) {
    answer_abort(place, header, *collective.failure);
    return nullptr;
  }
  const bool is_near = header.operation.value() - collective.all_finished_below < kMaxOperationsAhead;
  const auto operation = is_near ? open_operation(key) : nullptr;
  if (!operation) refuse();
  const std::string& root = place.plan->plan().nodes[session->root.index()].name;
  return operation && agrees_on_call(key, *operation, header, root) ? operation : nullptr;
}

void DataPlane::Core::answer_abort(const Place& place, const FrameHeader& header, const Status& cause) {
  Frame abort{header, encode_abort(cause)};
  abort.header.type = FrameType::kAbort;
  abort.header.stream_sequence = 0;
  answer(*place.stream, std::move(abort));
}

// A process that starts to count again would be told that its first operations are done.
Status DataPlane::Core::check_life(const Place& place, const FrameHeader& header, NodeId speaker) {
  auto& lives = collectives_[place.stream->collective].lives;
  const auto [life, is_new] = lives.try_emplace({header.session, speaker}, header.incarnation);
  if (life->second == header.incarnation) return Status::ok();
  return failed_precondition(
      fmt::format("node \"{}\" was restarted and has lost count of the group's operations; make a new group",
                  place.plan->plan().nodes[speaker.index()].name));
}

std::size_t DataPlane::Core::largest_block(SessionId session) const {
  const auto found = largest_blocks_.find(session);
  return found == largest_blocks_.end() ? kMinBlockBytes : found->second;
}

void DataPlane::Core::take_acknowledgement(const Place& place, Frame frame) {
  if (!place.stream->starts_here()) return answer(*place.stream, std::move(frame));
  const auto found = operations_.find({place.stream->collective, frame.header.operation});
  if (found == operations_.end()) return;
  const auto ack = decode_acknowledgement(frame.payload);
  if (!ack.is_ok()) return refuse();
  const auto operation = found->second;
  operation->on_acknowledgement(frame.header, *ack);
}

void DataPlane::Core::take_abort(const Connection& from, const Place& place, const Frame& frame) {
  const auto cause = decode_abort(frame.payload);
  if (!cause) return refuse();
  const OperationId operation = frame.header.operation;
  const CollectiveId collective = place.stream->collective;
  const Abort abort{frame.header.session, operation, frame.header.stream_sequence, *cause};
  // Passed on once, so that it ends also where trees form cycles.
  if (!remember(abort)) return;
  if (operation == kEveryOperation) {
    relayed_sums_.drop_session(abort.session);
    fail_all(collective, *cause);
  } else {
    for (const auto& [peer, link] : outgoing_) link->drop_operation(abort.session, operation);
    relayed_sums_.drop(abort.session, operation);
    poison({collective, operation}, *cause);
  }
  pass_abort(*place.plan, abort, from.peer);
}

bool DataPlane::Core::remember(const Abort& abort) {
  const auto is_same = [&](const Abort& known) {
    return known.session == abort.session && known.operation == abort.operation &&
           known.number == abort.number;
  };
  if (std::ranges::any_of(aborts_, is_same)) return false;
  if (aborts_.size() >= kMaxRememberedAborts) aborts_.pop_front();
  aborts_.push_back(abort);
  return true;
}

// A neighbour that was out of reach may have missed why its operations will not end.
void DataPlane::Core::repeat_aborts(const std::string& peer) {
  const std::size_t first = aborts_.size() - std::min(aborts_.size(), kRepeatedAborts);
  for (std::size_t i = first; i < aborts_.size(); ++i) {
    if (aborts_[i].operation == kEveryOperation) continue;  // what ran then, not what runs now
    for (const auto& [epoch, plan] : plans_) pass_abort(*plan, aborts_[i], "", peer);
  }
}

void DataPlane::Core::pass_abort(const InstalledPlan& plan, const Abort& abort, const std::string& except,
                                 const std::string& only) {
  std::set<std::string> told{except};
  const auto tells = [&](const std::string& peer) {
    return !peer.empty() && (only.empty() || peer == only) && told.insert(peer).second;
  };
  for (const LocalStream* stream : plan.streams_of(abort.session)) {
    Frame frame;
    frame.header.type = FrameType::kAbort;
    frame.header.epoch = stream->key.epoch;
    frame.header.session = abort.session;
    frame.header.stream = stream->key.stream;
    frame.header.operation = abort.operation;
    frame.header.stream_sequence = abort.number;
    frame.payload = encode_abort(abort.cause);
    for (const std::string& parent : stream->parents) {
      if (tells(parent)) send_answer(parent, frame);
    }
    for (const std::string& child : stream->children) {
      if (tells(child)) outgoing_.at(child)->send_now(frame);
    }
  }
}

void DataPlane::Core::answer(const LocalStream& stream, Frame frame) {
  for (const std::string& parent : stream.parents) send_answer(parent, frame);
}

void DataPlane::Core::send_answer(const std::string& peer, Frame frame) {
  const auto found = incoming_.find(peer);
  if (found == incoming_.end() || !found->second.handle) return;
  const auto way_back = outgoing_.find(peer);
  if (way_back != outgoing_.end()) way_back->second->charge_answer(frame.payload.size_bytes());
  ++answers_in_transport_;
  ++connections_.at(*found->second.handle).answers;
  context_.transport.send(*found->second.handle, std::move(frame));
}

}  // namespace square
