#include "node/sums/relayed_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "node/operations/operation.h"
#include "node/sums/report_ways.h"

namespace square {

RelayedSums::~RelayedSums() {
  for (const auto& [key, one] : sums_) one.sum->cancel();
}

SumForwarder* RelayedSums::find(const Key& key) {
  const auto found = sums_.find(key);
  if (found == sums_.end()) return nullptr;
  found->second.heard = ++heard_;
  return found->second.sum.get();
}

RelayedSums::Sums::iterator RelayedSums::forget(Sums::iterator sum) {
  sum->second.sum->cancel();
  const auto count = count_.find(sum->first.first);
  if (--count->second == 0) count_.erase(count);
  return sums_.erase(sum);
}

// A neighbour that sends parts of sums that no member has called takes room from its own sessions alone.
void RelayedSums::make_room() {
  if (sums_.size() < kMaxRelayedSums) return;
  const auto most = std::ranges::max_element(count_, {}, [](const auto& entry) { return entry.second; });
  const SessionId session = most->first;
  const auto first = sums_.lower_bound({session, OperationId(0)});
  auto oldest = first;
  for (auto next = first; next != sums_.end() && next->first.first == session; ++next)
    if (next->second.heard < oldest->second.heard) oldest = next;
  forget(oldest);
}

SumForwarder* RelayedSums::open(const Arrival& arrival) {
  const LocalStream& stream = *arrival.stream;
  const FrameHeader& header = arrival.header();
  const Key key{stream.key.session, header.operation};
  if (SumForwarder* known = find(key)) return known;
  if (ended_.contains(key)) return nullptr;
  const SumShape shape = shape_of(header);
  if (const Status usable = square::check(shape); !usable.is_ok()) {
    check(usable, stream, header);
    return nullptr;
  }
  make_room();
  SumForwarder::Host host;
  host.answer = host_.answer;
  host.progress = [] {};
  host.fill = [](const StreamKey&) {};
  host.on_restart = [this, key] { shed_after(key); };
  // What the contributors called goes on to the root.
  const SumLabel label{key.first, key.second, node_->options.incarnation, header.call, shape};
  auto sum = std::make_shared<SumForwarder>(node_, links_, arrival.plan, label, std::move(host));
  ++count_[key.first];
  return sums_.emplace(key, UnderWay{std::move(sum), ++heard_}).first->second.sum.get();
}

Status RelayedSums::check_call(const SumForwarder& sum, const Arrival& arrival) {
  const GroupCall known = sum.call();
  const GroupCall call = group_call_from_bits(arrival.header().call);
  const bool says_nothing = known.kind == CallKind::kNone || call.kind == CallKind::kNone;
  if (says_nothing || known.kind == call.kind) return Status::ok();
  return different_calls({call, fmt::format("a member whose data comes from node \"{}\"", arrival.from)},
                         {known, "another contributor to the same sum"});
}

void RelayedSums::check(const Status& outcome, const LocalStream& stream, const FrameHeader& header) {
  if (outcome.is_ok()) return;
  end({stream.key.session, header.operation});
  host_.fail(stream.collective, header.operation, outcome);
}

void RelayedSums::on_block(Arrival arrival) {
  const FrameHeader header = arrival.header();
  const LocalStream& stream = *arrival.stream;
  const auto plan = arrival.plan;  // keeps the stream
  const std::string from(arrival.from);
  SumForwarder* sum = open(arrival);
  if (sum == nullptr) return;
  // Before the sizes, which differ too then.
  if (const Status alike = check_call(*sum, arrival); !alike.is_ok()) return check(alike, stream, header);
  const Status taken = sum->on_block(std::move(arrival));
  check(taken.is_ok() ? taken : taken.with_context("from node \"" + from + "\""), stream, header);
}

void RelayedSums::on_request(const Arrival& arrival) {
  const LocalStream& stream = *arrival.stream;
  const Key key{stream.key.session, arrival.header().operation};
  SumForwarder* sum = find(key);
  if (sum == nullptr) return host_.answer(stream, arrival.frame);
  check(sum->on_request(arrival), stream, arrival.header());
  sum = find(key);
  if (sum != nullptr && sum->is_done()) end(key);
}

void RelayedSums::on_report(Arrival arrival) {
  const FrameHeader header = arrival.header();
  const LocalStream& stream = *arrival.stream;
  const auto plan = arrival.plan;  // keeps the stream
  if (SumForwarder* sum = find({stream.key.session, header.operation})) {
    return check(sum->on_report(std::move(arrival)), stream, header);
  }
  pass_report(*links_.at(stream.children.front()), stream.key, std::move(arrival.frame));
}

void RelayedSums::shed_after(const Key& key) {
  for (auto later = sums_.upper_bound(key); later != sums_.end() && later->first.first == key.first;
       ++later) {
    later->second.sum->shed();
  }
}

void RelayedSums::end(const Key& key) {
  const auto found = sums_.find(key);
  if (found == sums_.end()) return;
  forget(found);
  if (!ended_.insert(key).second) return;
  ended_order_.push_back(key);
  if (ended_order_.size() <= kMaxEndedSums) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

void RelayedSums::drop(SessionId session, OperationId operation) { end({session, operation}); }

void RelayedSums::drop_session(SessionId session) {
  while (true) {
    const auto next = sums_.lower_bound({session, OperationId(0)});
    if (next == sums_.end() || next->first.first != session) return;
    end(Key(next->first));
  }
}

void RelayedSums::drop_closed(const InstalledCollective& collective) {
  for (const PlanSession& session : collective.sessions()) {
    auto next = sums_.lower_bound({session.id, OperationId(0)});
    while (next != sums_.end() && next->first.first == session.id)
      next = next->second.sum->epoch() > collective.epoch() ? std::next(next) : forget(next);
  }
}

}  // namespace square
