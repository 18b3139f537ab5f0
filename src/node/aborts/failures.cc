#include "node/aborts/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "base/planted.h"
#include "node/messages/answers.h"

namespace square {

Failures::Failures(const Parts& parts)
    : parts_(parts),
      aborts_(parts.node.options.name, {[&links = parts.neighbours](const std::string& peer, Frame frame) {
                                          links.answer(peer, std::move(frame));
                                        },
                                        [&links = parts.neighbours](const std::string& peer, Frame frame) {
                                          links.send_ahead(peer, std::move(frame));
                                        }}) {}

void Failures::poison(const OperationKey& key, const Status& whole, GroupCall call) {
  // Every collective of the group keeps a copy.
  const Status cause(whole.code(), whole.message().substr(0, kMaxAbortTextBytes));
  // What is forgotten stays so.
  if (!parts_.groups.knows(key.collective) && !parts_.plans.knows(key.collective)) return;
  for (const CollectiveId id : parts_.groups.poison(key, cause, call)) {
    parts_.operations.fail(id, cause);
    parts_.watches.tell_collective(id, cause);
  }
}

void Failures::announce(const OperationKey& key, const Status& cause, GroupCall call) {
  const bool is_first = !parts_.groups.look(key.collective).failure;
  poison(key, cause, call);
  if (is_first) {
    const std::string& self = parts_.node.options.name;
    log(LogLevel::kWarning, {.component = "node", .node = self, .collective = key.collective},
        "{}: collective {}: {}", self, key.collective.value(), cause.to_string());
  }
  std::set<SessionId> told;
  for (const auto& collective : parts_.plans.ways_of(key.collective)) {
    for (const PlanSession& session : collective->sessions()) {
      const Abort abort{session.id, key.operation, 0, cause, to_bits(call)};
      if (!aborts_.remember(abort) && !told.contains(session.id)) continue;
      told.insert(session.id);
      aborts_.pass_on(*collective, abort);
    }
  }
}

void Failures::take(const Arrival& arrival) {
  const auto cause = decode_abort(arrival.frame.payload);
  if (!cause) return parts_.node.refuse_frame();
  const OperationId operation = arrival.header().operation;
  const CollectiveId collective = arrival.stream->collective;
  const Abort abort{arrival.key().session, operation, arrival.header().stream_sequence, *cause,
                    arrival.header().call};
  if (!aborts_.hear(abort, parts_.node.clock.now())) return;
  if (operation == kEveryOperation) {
    parts_.sums.drop_session(abort.session);
    parts_.operations.fail(collective, *cause);
  } else {
    parts_.neighbours.drop_operation(abort.session, operation);
    parts_.sums.drop(abort.session, operation);
    poison({collective, operation}, *cause, group_call_from_bits(abort.call));
  }
  aborts_.pass_on(*arrival.plan, abort, std::string(arrival.from));
}

void Failures::on_neighbour_gone(const std::string& peer) {
  const Departures& departures = parts_.node.departures;
  if (departures.left_in_order(peer)) return on_neighbour_left();
  std::map<SessionId, Status> ended;
  for (const auto& [id, collective] : parts_.plans.sessions()) {
    if (collective->streams_of(id).empty()) continue;
    const PlanSession& session = *collective->session(id);
    const auto is_gone = [&](NodeId member) { return collective->name_of(member) == peer; };
    if (std::ranges::none_of(session.members, is_gone)) continue;
    ended.emplace(id, departures.check(*collective, session, kEveryOperation));
  }
  for (const auto& [session, cause] : ended) end_session(session, cause);
}

// What it had finished comes to its end without it. Every member hears of it, and ends the rest itself.
void Failures::on_neighbour_left() {
  const auto running = parts_.operations.all();
  for (const auto& [key, operation] : running) {
    for (const auto& plan : parts_.plans.ways_of(key.collective)) {
      const Status there = parts_.node.departures.check(*plan, key.operation);
      there.is_ok() ? operation->hurry() : operation->fail(there, true);
    }
  }
}

void Failures::on_neighbour_replaced(const std::string& peer) {
  if (is_planted(Bug::kReplacedIsBack)) return;
  std::set<CollectiveId> ended;
  for (const auto& [id, collective] : parts_.plans.sessions()) {
    const auto is_it = [&](NodeId member) { return collective->name_of(member) == peer; };
    if (std::ranges::any_of(collective->session(id)->members, is_it)) ended.insert(collective->id());
  }
  for (const CollectiveId id : ended) poison({id, kEveryOperation}, lost_count(peer));
}

// Tells everybody.
void Failures::end_session(SessionId session, const Status& cause) {
  const Abort abort = aborts_.end_session(session, cause);
  parts_.sums.drop_session(session);
  for (const auto& collective : parts_.plans.ways_of(session)) {
    parts_.operations.fail(collective->id(), cause);
    aborts_.pass_on(*collective, abort);
  }
}

}  // namespace square
