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
      life_.bind([this, link, frame = std::move(frame), landing = std::move(landing)]() mutable {
        take_frame(link, std::move(frame), std::move(landing));
      }));
}

bool DataPlane::Core::place(Arrival& arrival) const {
  const FrameHeader& header = arrival.header();
  const auto plan = plans_.find(header.epoch);
  if (plan == plans_.end()) return false;
  arrival.plan = plan->second;
  arrival.stream = plan->second->find({header.epoch, header.session, header.stream});
  return arrival.stream != nullptr;
}

// A frame that nobody can place: dropped and counted.
void DataPlane::Core::refuse() { ++context_.statistics.frames_refused; }

void DataPlane::Core::take_frame(LinkHandle link, Frame frame, Landing landing) {
  const auto connection = connections_.find(link);
  Arrival arrival{.frame = std::move(frame), .landing = std::move(landing)};
  if (connection == connections_.end() || !place(arrival) || is_stopping_) return refuse();
  const auto& [end, peer] = std::tie(connection->second.end, connection->second.peer);
  const LocalStream& stream = *arrival.stream;
  const auto& senders = end == LinkEnd::kHead ? stream.parents : stream.children;
  const auto sender = std::ranges::find(senders, peer);
  if (sender == senders.end()) return refuse();
  arrival.from = *sender;
  const bool from_parent = end == LinkEnd::kHead;
  const bool from_child = !from_parent;
  const bool is_sum = stream.kind == SessionKind::kReduce;
  const std::uint64_t hop = arrival.header().hop_sequence;
  switch (arrival.header().type) {
    case FrameType::kBlock: return from_parent ? take_block(link, std::move(arrival)) : refuse();
    case FrameType::kProbe: return from_parent && !is_sum ? take_probe(std::move(arrival)) : refuse();
    case FrameType::kCreditRequest:
      return from_parent ? incoming_from(peer).find(stream.key)->on_credit_request(hop) : refuse();
    case FrameType::kCredit: return from_child ? outgoing_.at(peer)->on_credit(stream.key, hop) : refuse();
    case FrameType::kAck: return from_child && !is_sum ? take_acknowledgement(std::move(arrival)) : refuse();
    case FrameType::kAbort: return take_abort(arrival);
    case FrameType::kRequest: return from_child && is_sum ? take_request(arrival) : refuse();
    case FrameType::kReport: return from_parent && is_sum ? take_report(std::move(arrival)) : refuse();
  }
}

void DataPlane::Core::take_block(LinkHandle link, Arrival arrival) {
  const StreamKey key = arrival.key();
  const std::string peer(arrival.from);
  const std::size_t size = arrival.payload_bytes();
  arrival.guard = incoming_from(peer).find(key)->take(arrival.header().hop_sequence, size);
  if (!arrival.guard || size > largest_block(key.session)) {
    refuse();
    log(LogLevel::kError, {.component = "node", .node = context_.options.name, .peer = peer},
        "{}: node \"{}\" sent what it has no credit for; closing the link", context_.options.name, peer);
    return context_.transport.close_link(link);
  }
  ++context_.statistics.blocks_received;
  context_.statistics.bytes_received += size;
  context_.traffic.on_received(peer, key.session, size);
  const auto way_back = outgoing_.find(peer);
  if (way_back != outgoing_.end()) way_back->second->charge_receipt(size);
  if (arrival.stream->kind == SessionKind::kReduce) return take_part(std::move(arrival));
  const Collective& collective = collectives_[arrival.stream->collective];
  if (collective.failure && !collective.has_finished(arrival.header().operation)) {
    return answer_abort(arrival, *collective.failure);
  }
  for (const std::string& child : arrival.stream->children)
    outgoing_.at(child)->enqueue(key, arrival.frame, arrival.guard);
  if (!arrival.stream->is_destination) return;
  if (const auto operation = operation_for(arrival)) operation->on_arrival(std::move(arrival));
}

void DataPlane::Core::take_probe(Arrival arrival) {
  for (const std::string& child : arrival.stream->children) {
    outgoing_.at(child)->enqueue(arrival.key(), arrival.frame, nullptr);
  }
  if (!arrival.stream->is_destination) return;
  if (const auto operation = operation_for(arrival)) operation->on_arrival(std::move(arrival));
}

std::shared_ptr<Operation> DataPlane::Core::operation_for(const Arrival& arrival) {
  const FrameHeader& header = arrival.header();
  const OperationKey key{arrival.stream->collective, header.operation};
  const Collective& collective = collectives_[key.collective];
  const PlanSession* session = arrival.plan->plan().find_session(header.session);
  const Status alive = check_life(arrival, session->root);
  if (!alive.is_ok()) poison(key, alive);
  if (alive.is_ok() && collective.has_finished(key.operation)) {
    answer(*arrival.stream, Receiver::final_answer(*arrival.stream, *arrival.plan->self(), header));
    return nullptr;
  }
  if (collective.failure) {
    answer_abort(arrival, *collective.failure);
    return nullptr;
  }
  const bool is_near = header.operation.value() - collective.all_finished_below < kMaxOperationsAhead;
  const auto operation = is_near ? open_operation(key, *arrival.plan) : nullptr;
  if (!operation) refuse();
  const std::string& root = arrival.plan->plan().nodes[session->root.index()].name;
  return operation && agrees_on_call(key, *operation, header, root) ? operation : nullptr;
}

void DataPlane::Core::answer_abort(const Arrival& arrival, const Status& cause) {
  Frame abort{arrival.header(), encode_abort(cause)};
  abort.header.type = FrameType::kAbort;
  abort.header.stream_sequence = 0;
  answer(*arrival.stream, std::move(abort));
}

// A process that starts to count again would be told that its first operations are done.
Status DataPlane::Core::check_life(const Arrival& arrival, NodeId speaker) {
  const FrameHeader& header = arrival.header();
  auto& lives = collectives_[arrival.stream->collective].lives;
  const auto [life, is_new] = lives.try_emplace({header.session, speaker}, header.incarnation);
  if (life->second == header.incarnation) return Status::ok();
  return failed_precondition(
      fmt::format("node \"{}\" was restarted and has lost count of the group's operations; make a new group",
                  arrival.plan->plan().nodes[speaker.index()].name));
}

std::size_t DataPlane::Core::largest_block(SessionId session) const {
  const auto found = largest_blocks_.find(session);
  return found == largest_blocks_.end() ? kMinBlockBytes : found->second;
}

void DataPlane::Core::take_acknowledgement(Arrival arrival) {
  if (!arrival.stream->starts_here()) return answer(*arrival.stream, std::move(arrival.frame));
  const auto found = operations_.find({arrival.stream->collective, arrival.header().operation});
  if (found == operations_.end()) return;
  const auto ack = decode_acknowledgement(arrival.frame.payload);
  if (!ack.is_ok()) return refuse();
  const auto operation = found->second;
  operation->on_acknowledgement(arrival.header(), *ack);
}

void DataPlane::Core::take_abort(const Arrival& arrival) {
  const auto cause = decode_abort(arrival.frame.payload);
  if (!cause) return refuse();
  const OperationId operation = arrival.header().operation;
  const CollectiveId collective = arrival.stream->collective;
  const Abort abort{arrival.key().session, operation, arrival.header().stream_sequence, *cause};
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
  pass_abort(*arrival.plan, abort, std::string(arrival.from));
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
      if (tells(child)) outgoing_.at(child)->send_ahead(frame);
    }
  }
}

void DataPlane::Core::answer(const LocalStream& stream, Frame frame) {
  for (const std::string& parent : stream.parents) send_answer(parent, frame);
}

void DataPlane::Core::send_answer(const std::string& peer, Frame frame) {
  const auto found = incoming_.find(peer);
  if (found != incoming_.end()) found->second->answer(std::move(frame));
}

}  // namespace square
