// What a node does with each type of frame.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "node/core.h"

namespace square {

void Node::Core::on_frame(LinkHandle link, Frame frame) {
  context_.executor.post([weak = weak_from_this(), link, frame = std::move(frame)]() mutable {
    if (const auto self = weak.lock()) self->take_frame(link, std::move(frame));
  });
}

std::optional<Node::Core::Place> Node::Core::place_of(const FrameHeader& header) const {
  const auto plan = plans_.find(header.epoch);
  if (plan == plans_.end()) return std::nullopt;
  const LocalStream* stream = plan->second->find({header.epoch, header.session, header.stream});
  if (stream == nullptr) return std::nullopt;
  return Place{plan->second, stream};
}

// A frame of a plan that is gone, or of nobody: dropped and counted.
void Node::Core::refuse() { ++context_.statistics.frames_refused; }

void Node::Core::take_frame(LinkHandle link, Frame frame) {
  const auto connection = connections_.find(link);
  const auto place = place_of(frame.header);
  if (connection == connections_.end() || !place || is_stopping_) return refuse();
  const Connection& from = connection->second;
  const LocalStream& stream = *place->stream;
  const StreamKey key = stream.key;
  const bool from_parent = from.end == LinkEnd::kHead && from.peer == stream.parent;
  const bool from_child =
      from.end == LinkEnd::kTail && std::ranges::find(stream.children, from.peer) != stream.children.end();
  switch (frame.header.type) {
    case FrameType::kBlock: return from_parent ? take_block(from, link, *place, std::move(frame)) : refuse();
    case FrameType::kProbe: return from_parent ? take_probe(*place, std::move(frame)) : refuse();
    case FrameType::kCreditRequest:
      return from_parent ? incoming_[from.peer].streams.at(key)->on_credit_request(frame.header.hop_sequence)
                         : refuse();
    case FrameType::kCredit:
      return from_child ? outgoing_.at(from.peer)->on_credit(key, frame.header.hop_sequence) : refuse();
    case FrameType::kAck: return from_child ? take_acknowledgement(*place, std::move(frame)) : refuse();
    case FrameType::kAbort: return from_parent || from_child ? take_abort(from, *place, frame) : refuse();
  }
}

void Node::Core::take_block(const Connection& from, LinkHandle link, const Place& place, Frame frame) {
  const StreamKey key = place.stream->key;
  const std::size_t size = frame.payload.size_bytes();
  auto guard = incoming_[from.peer].streams.at(key)->take(frame.header.hop_sequence, size);
  if (!guard) {
    refuse();
    log(LogLevel::kError, "node", "{}: node \"{}\" sent beyond its credit; closing the link",
        context_.options.name, from.peer);
    return context_.transport.close_link(link);
  }
  ++context_.statistics.blocks_received;
  context_.statistics.bytes_received += size;
  for (const std::string& child : place.stream->children) outgoing_.at(child)->enqueue(key, frame, guard);
  if (!place.stream->is_destination) return;
  if (const auto operation = operation_for(place, frame.header)) {
    operation->on_block(place.plan, *place.stream, std::move(frame), std::move(guard));
  }
}

void Node::Core::take_probe(const Place& place, Frame frame) {
  for (const std::string& child : place.stream->children) {
    outgoing_.at(child)->enqueue(place.stream->key, frame, nullptr);
  }
  if (!place.stream->is_destination) return;
  if (const auto operation = operation_for(place, frame.header)) {
    operation->on_probe(place.plan, *place.stream, frame.header);
  }
}

std::shared_ptr<Operation> Node::Core::operation_for(const Place& place, const FrameHeader& header) {
  const OperationKey key{place.stream->collective, header.operation};
  const Collective& collective = collectives_[key.collective];
  if (collective.has_finished(key.operation)) {
    answer(*place.stream, Receiver::final_answer(*place.stream, *place.plan->self(), header));
    return nullptr;
  }
  if (collective.failure) {
    Frame abort{header, encode_abort(*collective.failure)};
    abort.header.type = FrameType::kAbort;
    answer(*place.stream, std::move(abort));
    return nullptr;
  }
  const auto operation = open_operation(key);
  if (!operation) refuse();
  return operation;
}

void Node::Core::take_acknowledgement(const Place& place, Frame frame) {
  if (!place.stream->parent.empty()) return answer(*place.stream, std::move(frame));
  const auto found = operations_.find({place.stream->collective, frame.header.operation});
  if (found == operations_.end()) return;
  const auto ack = decode_acknowledgement(frame.payload);
  if (!ack.is_ok()) return refuse();
  const auto operation = found->second;
  operation->on_acknowledgement(frame.header, *ack);
}

void Node::Core::take_abort(const Connection& from, const Place& place, const Frame& frame) {
  const auto cause = decode_abort(frame.payload);
  if (!cause) return refuse();
  const OperationId operation = frame.header.operation;
  const SessionId session = frame.header.session;
  if (operation != kEveryOperation) {
    if (!remember_abort(session, operation)) return;
    abort_here({place.stream->collective, operation}, session, *cause);
  } else {
    const auto operations = operations_;
    for (const auto& [key, running] : operations) {
      if (running->takes_part_in(session)) abort_here(key, session, *cause);
    }
  }
  pass_abort(*place.plan, session, operation, *cause, from.peer);
}

void Node::Core::abort_here(const OperationKey& key, SessionId session, const Status& cause) {
  for (const auto& [peer, link] : outgoing_) link->drop_operation(session, key.operation);
  poison(key, cause);
  const auto found = operations_.find(key);
  if (found == operations_.end()) return;
  const auto operation = found->second;
  operation->fail(cause, false);
  // A source passes it on to the collective's other sessions.
  for (const auto& [epoch, plan] : plans_) {
    for (const PlanSession* other : plan->sessions_of(key.collective)) {
      if (other->id != session && remember_abort(other->id, key.operation)) {
        pass_abort(*plan, other->id, key.operation, cause, "");
      }
    }
  }
}

bool Node::Core::remember_abort(SessionId session, OperationId operation) {
  if (aborts_.size() >= kMaxRememberedAborts) aborts_.erase(aborts_.begin());
  return aborts_.insert({session, operation}).second;
}

void Node::Core::pass_abort(const InstalledPlan& plan, SessionId session, OperationId operation,
                            const Status& cause, const std::string& except) {
  std::set<std::string> told{except};
  for (const LocalStream* stream : plan.streams_of(session)) {
    Frame frame;
    frame.header.type = FrameType::kAbort;
    frame.header.epoch = stream->key.epoch;
    frame.header.session = session;
    frame.header.stream = stream->key.stream;
    frame.header.operation = operation;
    frame.payload = encode_abort(cause);
    if (!stream->parent.empty() && told.insert(stream->parent).second) answer(*stream, frame);
    for (const std::string& child : stream->children) {
      if (told.insert(child).second) outgoing_.at(child)->send_now(frame);
    }
  }
}

void Node::Core::answer(const LocalStream& stream, Frame frame) {
  send_answer(stream.parent, std::move(frame));
}

void Node::Core::send_answer(const std::string& peer, Frame frame) {
  const auto found = incoming_.find(peer);
  if (found == incoming_.end() || !found->second.handle) return;
  const auto way_back = outgoing_.find(peer);
  if (way_back != outgoing_.end()) way_back->second->charge_answer(frame.payload.size_bytes());
  ++answers_in_transport_;
  ++connections_.at(*found->second.handle).answers;
  context_.transport.send(*found->second.handle, std::move(frame));
}

}  // namespace square
