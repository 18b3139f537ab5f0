#include "node/operations/multicasts.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {

namespace {

enum class Seal { kOpens, kIsMadeUp, kCannotBeLookedAt };

// Of a frame by itself: what a code adds, what is empty, and probes say nothing.
Seal look_at(const Arrival& arrival, const Sealing& sealing) {
  const FrameHeader& header = arrival.header();
  const bool is_coded = arrival.stream->coded != nullptr;
  if (header.type != FrameType::kBlock || (is_coded && !arrival.stream->block))
    return Seal::kCannotBeLookedAt;
  const auto shape = BlockShape::of(header);
  const std::size_t block = header.offset_bytes / shape.block_bytes;
  // Beyond the end of a code's last generation.
  if (is_coded && block >= shape.block_count() && arrival.payload_bytes() == 0)
    return Seal::kCannotBeLookedAt;
  if (!shape.fits(header, arrival.payload_bytes())) return Seal::kIsMadeUp;
  const trust::BlockOpener opener(
      sealing.key, sealed_cargo(sealing, header.incarnation, header.session, header.operation, shape));
  return opener.open(block, arrival.frame.payload) ? Seal::kOpens : Seal::kIsMadeUp;
}

}  // namespace

std::function<void()> Multicasts::done_of(SessionId session) {
  return [this, weak = operation_.weak_from_this(), session] {
    if (const auto held = weak.lock()) on_done_(session);
  };
}

void Multicasts::send(const std::shared_ptr<const InstalledCollective>& plan, const PlanSession& session,
                      Buffer data, GroupCall call, ElementType elements, std::optional<Sender::Sums> sums) {
  operation_.show_to_neighbours(*plan, session.id);
  Sender::Cargo cargo{
      operation_.key().operation,
      std::move(data),
      call,
      elements,
      sums,
      operation_.host().sealing(operation_.key().collective, operation_.node()->options.name)};
  senders_[session.id] = std::make_unique<Sender>(*operation_.node(), operation_.host().links(), plan,
                                                  session, std::move(cargo), done_of(session.id));
}

Sender* Multicasts::sender(SessionId session) const {
  const auto found = senders_.find(session);
  return found == senders_.end() ? nullptr : found->second.get();
}

void Multicasts::fill(SessionId session) {
  if (Sender* const here = sender(session)) here->fill();
}

void Multicasts::fill_all() {
  for (const auto& [session, sender] : senders_) sender->fill();
}

Receiver* Multicasts::receiver(SessionId session) const {
  const auto found = receivers_.find(session);
  return found == receivers_.end() ? nullptr : found->second.get();
}

Receiver* Multicasts::receiver_of(const Arrival& arrival) {
  const SessionId session = arrival.key().session;
  Receiver* const here = receiver(session);
  if (here == nullptr || here->is_proven() || here->is_of(arrival.header())) return here;
  const std::string& source = arrival.plan->name_of(arrival.stream->session->root);
  const Sealing sealing = operation_.host().sealing(operation_.key().collective, source);
  const bool is_proof = sealing.key && arrival.header().is_sealed && !arrival.landing &&
                        Receiver::check(BlockShape::of(arrival.header())).is_ok() &&
                        look_at(arrival, sealing) == Seal::kOpens;
  if (!is_proof) return here;
  give_up(session);
  return nullptr;
}

void Multicasts::give_up(SessionId session) {
  std::erase_if(former_receivers_, [](const auto& former) { return former->is_drained(); });
  receivers_.at(session)->cancel();
  former_receivers_.push_back(receivers_.at(session));
  receivers_.erase(session);
}

Receiver* Multicasts::add_receiver(const Arrival& first) {
  const FrameHeader& header = first.header();
  const SessionId session = first.key().session;
  const auto shape = Receiver::Shape::of(header);
  const std::string& source = first.plan->name_of(first.stream->session->root);
  Sealing sealing = operation_.host().sealing(operation_.key().collective, source);
  if (sealing.key && !header.is_sealed) {
    operation_.node()->refuse_forged(first.from, source,
                                     fmt::format("session {}, unsealed", session.value()));
    return nullptr;
  }
  if (const Status usable = Receiver::check(shape); !usable.is_ok()) {
    operation_.fail(usable, true);
    return nullptr;
  }
  // What somebody on the way has made up is not to say what the others must agree with.
  if (sealing.key && look_at(first, sealing) == Seal::kIsMadeUp) {
    operation_.node()->refuse_forged(first.from, source,
                                     fmt::format("session {}, first block", session.value()));
    return nullptr;
  }
  const auto answer = [&host = operation_.host()](const LocalStream& stream, Frame frame) {
    host.answer(stream, std::move(frame));
  };
  const Receiver::Place place{*first.plan->self(), session, operation_.key().operation, header.incarnation};
  auto receiver = std::make_shared<Receiver>(operation_.node(), place, shape, answer, done_of(session));
  receiver->set_sealing(std::move(sealing));
  return receivers_.emplace(session, std::move(receiver)).first->second.get();
}

void Multicasts::open(SessionId session, const std::string& root, const RangeOf& range_of) {
  Receiver& receiver = *receivers_.at(session);
  const Sealing sealing = operation_.host().sealing(operation_.key().collective, root);
  if (receiver.shape().is_sealed != (sealing.key != nullptr)) {
    return operation_.fail(
        failed_precondition(fmt::format("node \"{}\" {} its blocks, and node \"{}\" has {} key of the group",
                                        root, sealing.key ? "does not seal" : "seals",
                                        operation_.node()->options.name, sealing.key ? "a" : "no")),
        true);
  }
  std::vector<std::byte*> destinations;
  for (const auto& [rank, member] : operation_.members()) {
    const ByteRange range = range_of(member.call);
    const bool agrees = range.size_bytes == receiver.shape().total_bytes;
    if (!agrees && !receiver.is_proven()) return give_up(session);
    if (!agrees) {
      return operation_.fail(
          invalid_argument(fmt::format(
              "rank {} on node \"{}\" posted a buffer of {} bytes where {} arrive from node \"{}\"",
              rank.value(), operation_.node()->options.name, range.size_bytes, receiver.shape().total_bytes,
              root)),
          true);
    }
    destinations.push_back(member.call.output.data() + range.offset_bytes);
  }
  receiver.set_sealing(sealing);
  receiver.open(std::move(destinations));
}

void Multicasts::take(Receiver& receiver, Arrival arrival) {
  if (arrival.header().type == FrameType::kProbe) return receiver.on_probe(arrival);
  const std::string_view from = arrival.from;
  const auto plan = arrival.plan;  // keeps the name
  const Status taken = receiver.on_block(std::move(arrival));
  if (!taken.is_ok()) operation_.fail(taken.with_context(fmt::format("from node \"{}\"", from)), true);
}

void Multicasts::on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) {
  if (Sender* const here = sender(header.session)) here->on_acknowledgement(header, ack);
}

bool Multicasts::runs_before(Epoch epoch) const {
  return std::ranges::any_of(senders_, [&](const auto& entry) { return entry.second->epoch() < epoch; });
}

void Multicasts::migrate(const std::shared_ptr<const InstalledCollective>& plan, bool may_stay) {
  for (const auto& [id, sender] : senders_) {
    if (sender->is_done() || !(sender->epoch() < plan->epoch())) continue;
    if (may_stay && sender->outlives_losses()) continue;
    if (plan->streams_of(id).empty()) {
      // It could never move, and would hold up whoever waits for the next plan.
      return operation_.fail(failed_precondition(fmt::format(
                                 "plan {} gives collective {} no rate from \"{}\"", plan->epoch().value(),
                                 operation_.key().collective.value(), operation_.node()->options.name)),
                             true);
    }
    sender->migrate(plan);
    sender->fill();
  }
}

void Multicasts::follow(const std::shared_ptr<const InstalledCollective>& plan) const {
  for (const auto& [id, sender] : senders_) {
    const bool can_move = sender->epoch() < plan->epoch() && !plan->streams_of(id).empty();
    if (sender->is_done() || sender->outlives_losses() || !can_move) continue;
    sender->migrate(plan);
    sender->fill();
  }
}

void Multicasts::let_go(Epoch closed) const {
  for (const auto& [id, sender] : senders_) {
    if (!sender->is_done()) sender->let_go(closed);
  }
}

void Multicasts::hurry() const {
  for (const auto& [id, sender] : senders_) sender->hurry();
}

bool Multicasts::is_done(SessionId session) const {
  const Sender* const source = sender(session);
  const Receiver* const destination = receiver(session);
  return (source != nullptr && source->is_done()) || (destination != nullptr && destination->is_done());
}

bool Multicasts::has_delivered() const {
  return std::ranges::any_of(receivers_,
                             [](const auto& entry) { return entry.second->bytes_delivered() > 0; });
}

bool Multicasts::is_quiet() const {
  const auto has_drained = [](const auto& receiver) { return receiver->is_drained(); };
  return senders_.empty() &&
         std::ranges::all_of(receivers_, [&](const auto& entry) { return has_drained(entry.second); }) &&
         std::ranges::all_of(former_receivers_, has_drained);
}

void Multicasts::release(bool receivers_too) {
  senders_.clear();
  if (!receivers_too) return;
  for (const auto& [id, receiver] : receivers_) receiver->cancel();
}

void Multicasts::drop() {
  release(true);
  for (const auto& [id, receiver] : receivers_) {
    if (!receiver->is_drained()) former_receivers_.push_back(receiver);
  }
  receivers_.clear();
}

void Multicasts::abandon() {
  senders_.clear();
  receivers_.clear();
}

std::vector<std::string> Multicasts::unconfirmed() const {
  std::vector<std::string> names;
  for (const auto& [id, sender] : senders_) {
    if (std::string missing = sender->describe_missing(); !missing.empty())
      names.push_back("no confirmation from " + missing);
  }
  return names;
}

std::vector<std::string> Multicasts::unfinished(bool with_done_ones) const {
  std::vector<std::string> texts;
  for (const auto& [id, receiver] : receivers_) {
    if (!with_done_ones && receiver->is_done()) continue;
    texts.push_back(
        fmt::format("{} of {} bytes arrived", receiver->bytes_delivered(), receiver->shape().total_bytes));
  }
  return texts;
}

}  // namespace square
