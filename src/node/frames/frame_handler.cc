#include "node/frames/frame_handler.h"

#include <utility>

#include "base/log.h"
#include "base/plan/figures.h"
#include "base/planted.h"
#include "node/codes/code_adder.h"
#include "node/messages/answers.h"
#include "node/multicast/receiver.h"
#include "node/sums/sum_messages.h"

namespace square {
namespace {

OperationKey operation_of(const Arrival& arrival) {
  return {arrival.stream->collective, arrival.header().operation};
}

// What relays would pass on, and keep for a link that is slow, is no longer than what nodes write.
std::size_t most_payload_bytes(FrameType type) {
  switch (type) {
    case FrameType::kBlock: return kMaxPayloadBytes;
    case FrameType::kAck: return kMaxAcknowledgementBytes;
    case FrameType::kRequest: return kMaxRequestBytes;
    case FrameType::kReport: return kReportBytes;
    case FrameType::kAbort: return kMaxAbortBytes;
    case FrameType::kProbe:
    case FrameType::kCredit:
    case FrameType::kCreditRequest: break;
  }
  return 0;
}

}  // namespace

void FrameHandler::take(LinkHandle link, Frame frame, Landing landing) {
  const Neighbours::Connection* connection = parts_.neighbours.find(link);
  if (connection == nullptr) return parts_.node.refuse_frame();
  parts_.neighbours.note_heard(connection->peer());
  const bool is_too_long = frame.payload.size_bytes() > most_payload_bytes(frame.header.type);
  if (is_too_long && frame.header.type != FrameType::kBlock) return parts_.node.refuse_frame();
  Arrival arrival{.frame = std::move(frame), .landing = std::move(landing)};
  if (connection->incoming != nullptr) {
    take_from_parent(link, *connection->incoming, std::move(arrival));
  } else {
    take_from_child(*connection->outgoing, std::move(arrival));
  }
  parts_.operations.on_frame();
}

void FrameHandler::take_from_parent(LinkHandle link, IncomingLink& from, Arrival arrival) {
  const FrameHeader& header = arrival.header();
  // Of a connection that a newer one has replaced: it counts otherwise.
  if (from.handle() != link) return parts_.node.refuse_frame();
  IncomingStream* const stream = from.find(key_of(header));
  if (stream == nullptr) return parts_.node.refuse_frame();
  const LocalStream& local = stream->local();
  arrival.plan = stream->plan();
  arrival.stream = &local;
  arrival.place = stream->parent();
  arrival.from = local.parents[arrival.place];
  const bool is_sum = local.kind == SessionKind::kReduce;
  switch (header.type) {
    case FrameType::kBlock: return take_block(link, from, *stream, std::move(arrival));
    case FrameType::kCreditRequest: return stream->on_credit_request(header.hop_sequence);
    case FrameType::kAbort: return parts_.failures.take(arrival);
    case FrameType::kProbe:
    case FrameType::kReport:
      if (is_sum != (header.type == FrameType::kReport)) break;
      if (const Status there = check_members(arrival); !there.is_ok()) return answer_abort(arrival, there);
      return is_sum ? take_report(std::move(arrival)) : take_probe(*stream, std::move(arrival));
    case FrameType::kCredit:
    case FrameType::kAck:
    case FrameType::kRequest: break;
  }
  parts_.node.refuse_frame();
}

void FrameHandler::take_from_child(OutgoingLink& from, Arrival arrival) {
  const FrameHeader& header = arrival.header();
  const auto stream = from.find(key_of(header));
  if (!stream) return parts_.node.refuse_frame();
  const LocalStream& local = stream->local();
  arrival.plan = stream->plan();
  arrival.stream = &local;
  arrival.place = stream->child();
  arrival.from = local.children[arrival.place];
  const bool is_sum = local.kind == SessionKind::kReduce;
  switch (header.type) {
    case FrameType::kCredit: return from.on_credit(*stream, header.hop_sequence);
    case FrameType::kAbort: return parts_.failures.take(arrival);
    case FrameType::kAck:
      if (!is_sum) return take_acknowledgement(arrival);
      break;
    case FrameType::kRequest:
      if (is_sum) return take_request(arrival);
      break;
    case FrameType::kBlock:
    case FrameType::kProbe:
    case FrameType::kCreditRequest:
    case FrameType::kReport: break;
  }
  parts_.node.refuse_frame();
}

void FrameHandler::take_block(LinkHandle link, IncomingLink& from, IncomingStream& stream, Arrival arrival) {
  NodeContext& node = parts_.node;
  const std::size_t size = arrival.payload_bytes();
  arrival.guard = stream.take(arrival.header().hop_sequence, size);
  // An operation keeps the size that an older plan gave its blocks, which this node may never have had.
  if (!arrival.guard || size > kMaxPayloadBytes) {
    node.refuse_frame();
    log(LogLevel::kError, {.component = "node", .node = node.options.name, .peer = from.peer()},
        "{}: node \"{}\" sent what it has no credit for; closing the link", node.options.name, from.peer());
    return node.transport.close_link(link);
  }
  arrival.frees_credit = stream.tells_with_next();
  from.count_block(stream.tally(), size);
  if (from.way_back() != nullptr) from.way_back()->charge_receipt(size);
  if (arrival.header().is_audited && arrival.header().is_sealed)
    node.auditor.note(arrival.frame, arrival.from);
  if (!arrival.stream->is_member) parts_.operations.on_relayed();
  if (const Status there = check_members(arrival); !there.is_ok()) return answer_abort(arrival, there);
  Collective& collective = parts_.groups[arrival.stream->collective];
  if (arrival.stream->kind == SessionKind::kReduce) return take_part(std::move(arrival), collective);
  if (collective.failure && !collective.has_finished(arrival.header().operation)) {
    return answer_abort(arrival, *collective.failure);
  }
  for (const auto& child : stream.children()) child->enqueue(arrival.frame, arrival.guard);
  for (const auto& adder : stream.adders()) adder->on_block(stream.local(), arrival.frame, arrival.guard);
  if (!arrival.stream->is_destination) return;
  if (const auto operation = operation_for(arrival, collective)) operation->on_arrival(std::move(arrival));
}

void FrameHandler::take_probe(const IncomingStream& stream, Arrival arrival) {
  for (const auto& child : stream.children()) child->enqueue(arrival.frame, nullptr);
  for (const auto& adder : stream.adders()) adder->on_probe(stream.local(), arrival.header());
  if (!arrival.stream->is_destination) return;
  Collective& collective = parts_.groups[arrival.stream->collective];
  if (const auto operation = operation_for(arrival, collective)) operation->on_arrival(std::move(arrival));
}

std::shared_ptr<Operation> FrameHandler::operation_for(const Arrival& arrival, Collective& collective) {
  const FrameHeader& header = arrival.header();
  const OperationKey key = operation_of(arrival);
  const NodeId root = arrival.stream->session->root;
  const std::string& root_name = arrival.plan->name_of(root);
  Status alive =
      parts_.groups.check_life(key.collective, {header.session, root, root_name}, header.incarnation);
  // Of a sealed group another process of the source could not have the key: nothing of it is taken anyway.
  if (!alive.is_ok() && parts_.groups.key_of(key.collective)) alive = Status::ok();
  if (!alive.is_ok()) parts_.failures.poison(key, alive);
  if (alive.is_ok() && collective.has_finished(key.operation)) {
    if (!is_planted(Bug::kLastWordOnce))
      answer(*arrival.stream, final_answer(*arrival.stream, *arrival.plan->self(), header));
    return nullptr;
  }
  if (collective.failure) {
    answer_abort(arrival, *collective.failure);
    return nullptr;
  }
  if (refuses(key)) return nullptr;
  auto operation = collective.is_near(key.operation) ? parts_.operations.open(key, *arrival.plan) : nullptr;
  if (!operation) parts_.node.refuse_frame();
  const bool agrees = operation && parts_.agreement.on_frame(key, *operation, header, root_name);
  return agrees ? operation : nullptr;
}

bool FrameHandler::refuses(const OperationKey& key) {
  if (!parts_.groups.look(key.collective).is_closed || parts_.operations.find(key)) return false;
  parts_.failures.announce(key, Collective::closed_before(key.collective, parts_.node.options.name));
  return true;
}

Status FrameHandler::check_members(const Arrival& arrival) const {
  const Departures& departures = parts_.node.departures;
  if (arrival.stream->is_member || departures.is_empty()) return Status::ok();
  return departures.check(*arrival.plan, *arrival.stream->session, arrival.header().operation);
}

Frame FrameHandler::abort_of(const Arrival& arrival, const Status& cause) {
  Frame abort{arrival.header(), encode_abort(cause)};
  abort.header.type = FrameType::kAbort;
  abort.header.stream_sequence = 0;
  return abort;
}

void FrameHandler::answer_abort(const Arrival& arrival, const Status& cause) {
  answer(*arrival.stream, abort_of(arrival, cause));
}

void FrameHandler::take_acknowledgement(const Arrival& arrival) {
  if (!arrival.stream->starts_here()) return answer(*arrival.stream, arrival.frame);
  const auto operation = parts_.operations.find(operation_of(arrival));
  if (!operation) return;
  const auto ack = decode_acknowledgement(arrival.frame.payload);
  if (!ack.is_ok()) return parts_.node.refuse_frame();
  operation->on_acknowledgement(arrival.header(), *ack);
}

void FrameHandler::answer(const LocalStream& stream, const Frame& frame) {
  if (!stream.terms.empty()) {
    // On to the root by one of the streams that are added here.
    Frame onward = frame;
    set_stream(onward.header, stream.terms.front()->key);
    return answer(*stream.terms.front(), onward);
  }
  for (const std::string& parent : stream.parents) parts_.neighbours.answer(parent, frame);
}

}  // namespace square
