// What a node does with the frames of reduces.
#include <algorithm>

#include "node/core.h"

namespace square {

bool DataPlane::Core::is_member(const Arrival& arrival) {
  const PlanSession* session = arrival.plan->plan().find_session(arrival.key().session);
  return std::ranges::find(session->members, *arrival.plan->self()) != session->members.end();
}

std::shared_ptr<Operation> DataPlane::Core::sum_for(const Arrival& arrival, const std::string& from) {
  const FrameHeader& header = arrival.header();
  const OperationKey key{arrival.stream->collective, header.operation};
  const Collective& collective = collectives_[key.collective];
  const bool is_near = header.operation.value() - collective.all_finished_below < kMaxOperationsAhead;
  const auto operation = is_near ? open_operation(key, *arrival.plan) : nullptr;
  if (!operation) refuse();
  return operation && agrees_on_call(key, *operation, header, from) ? operation : nullptr;
}

void DataPlane::Core::take_part(Arrival arrival) {
  const Collective& collective = collectives_[arrival.stream->collective];
  if (collective.failure) return answer_abort(arrival, *collective.failure);
  if (!is_member(arrival)) return relayed_sums_.on_block(std::move(arrival));
  if (collective.has_finished(arrival.header().operation)) return;  // its sender will ask
  if (const auto operation = sum_for(arrival, std::string(arrival.from)))
    operation->on_arrival(std::move(arrival));
}

// From the root, on its way to all contributors.
void DataPlane::Core::take_request(const Arrival& arrival) {
  const FrameHeader& header = arrival.header();
  const PlanSession* session = arrival.plan->plan().find_session(header.session);
  const OperationKey key{arrival.stream->collective, header.operation};
  const auto request = decode_request(arrival.frame.payload);
  if (request.is_ok() && request->tells_layout()) {
    const auto found = operations_.find(key);
    if (found != operations_.end()) found->second->on_layout(*arrival.plan, header);
    return answer(*arrival.stream, arrival.frame);
  }
  if (!is_member(arrival)) return relayed_sums_.on_request(arrival);
  const Collective& collective = collectives_[key.collective];
  if (const Status alive = check_life(arrival, session->root); !alive.is_ok()) {
    return announce_failure(key, alive);
  }
  const bool is_over = collective.failure || collective.has_finished(key.operation);
  const auto operation =
      is_over ? nullptr : sum_for(arrival, arrival.plan->plan().nodes[session->root.index()].name);
  if (!operation) return answer(*arrival.stream, arrival.frame);
  operation->on_arrival(arrival);
}

// From a contributor, on its way to the root.
void DataPlane::Core::take_report(Arrival arrival) {
  const auto report = decode_report(arrival.frame.payload);
  const PlanSession* session = arrival.plan->plan().find_session(arrival.key().session);
  if (!report.is_ok() || report->contributor == session->root ||
      std::ranges::find(session->members, report->contributor) == session->members.end()) {
    return refuse();
  }
  if (!is_member(arrival)) return relayed_sums_.on_report(std::move(arrival));
  const OperationKey key{arrival.stream->collective, arrival.header().operation};
  const Collective& collective = collectives_[key.collective];
  const bool is_root = session->root == *arrival.plan->self();
  if (is_root) {
    const Status alive = check_life(arrival, report->contributor);
    if (!alive.is_ok()) return announce_failure(key, alive);
  }
  if (collective.failure) return answer_abort(arrival, *collective.failure);
  if (is_root && collective.has_finished(key.operation)) {
    return answer(*arrival.stream, done_answer(arrival.header(), context_.options.incarnation));
  }
  const auto operation = collective.has_finished(key.operation)
                             ? nullptr
                             : sum_for(arrival, arrival.plan->plan().nodes[report->contributor.index()].name);
  if (operation) return operation->on_arrival(std::move(arrival));
  if (!is_root)
    outgoing_.at(arrival.stream->children.front())->enqueue(arrival.key(), std::move(arrival.frame), nullptr);
}

// What later operations have here must not hold it up; and an older plan may be free now.
void DataPlane::Core::on_restart(const OperationKey& key, SessionId session) {
  auto later = operations_.upper_bound(key);
  for (; later != operations_.end() && later->first.collective == key.collective; ++later) {
    later->second->shed(session);
  }
  confirm_installs();
}

}  // namespace square
