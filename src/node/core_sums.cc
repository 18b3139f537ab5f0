// What a node does with the frames of reduces.
#include <algorithm>

#include "node/core.h"

namespace square {

bool DataPlane::Core::is_member(const Place& place) const {
  const PlanSession* session = place.plan->plan().find_session(place.stream->key.session);
  return std::ranges::find(session->members, *place.plan->self()) != session->members.end();
}

std::shared_ptr<Operation> DataPlane::Core::sum_for(const Place& place, const FrameHeader& header,
                                                    const std::string& from) {
  const OperationKey key{place.stream->collective, header.operation};
  const Collective& collective = collectives_[key.collective];
  const bool is_near = header.operation.value() - collective.all_finished_below < kMaxOperationsAhead;
  const auto operation = is_near ? open_operation(key) : nullptr;
  if (!operation) refuse();
  return operation && agrees_on_call(key, *operation, header, from) ? operation : nullptr;
}

void DataPlane::Core::take_part(const Connection& from, const Place& place, Frame frame,
                                std::shared_ptr<void> guard, const Landing& landing) {
  const Collective& collective = collectives_[place.stream->collective];
  if (collective.failure) return answer_abort(place, frame.header, *collective.failure);
  const std::string peer = from.peer;
  if (!is_member(place)) {
    return relayed_sums_.on_block(place.plan, *place.stream, peer, std::move(frame), std::move(guard));
  }
  if (collective.has_finished(frame.header.operation)) return;  // its sender will ask
  if (const auto operation = sum_for(place, frame.header, peer)) {
    operation->on_part(place.plan, *place.stream, peer, std::move(frame), std::move(guard), landing);
  }
}

// From the root, on its way to all contributors.
void DataPlane::Core::take_request(const Place& place, const Frame& frame) {
  const PlanSession* session = place.plan->plan().find_session(frame.header.session);
  const OperationKey key{place.stream->collective, frame.header.operation};
  const auto request = decode_request(frame.payload);
  if (request.is_ok() && request->tells_layout()) {
    const auto found = operations_.find(key);
    if (found != operations_.end()) found->second->on_layout(*place.plan, frame.header);
    return answer(*place.stream, frame);
  }
  if (!is_member(place)) return relayed_sums_.on_request(place.plan, *place.stream, frame);
  const Collective& collective = collectives_[key.collective];
  if (const Status alive = check_life(place, frame.header, session->root); !alive.is_ok()) {
    return announce_failure(key, alive);
  }
  const bool is_over = collective.failure || collective.has_finished(key.operation);
  const auto operation =
      is_over ? nullptr : sum_for(place, frame.header, place.plan->plan().nodes[session->root.index()].name);
  if (!operation) return answer(*place.stream, frame);
  operation->on_request(place.plan, *place.stream, frame);
}

// From a contributor, on its way to the root.
void DataPlane::Core::take_report(const Place& place, Frame frame) {
  const auto report = decode_report(frame.payload);
  const PlanSession* session = place.plan->plan().find_session(frame.header.session);
  if (!report.is_ok() || report->contributor == session->root ||
      std::ranges::find(session->members, report->contributor) == session->members.end()) {
    return refuse();
  }
  if (!is_member(place)) return relayed_sums_.on_report(place.plan, *place.stream, std::move(frame));
  const OperationKey key{place.stream->collective, frame.header.operation};
  const Collective& collective = collectives_[key.collective];
  const bool is_root = session->root == *place.plan->self();
  if (is_root) {
    const Status alive = check_life(place, frame.header, report->contributor);
    if (!alive.is_ok()) return announce_failure(key, alive);
  }
  if (collective.failure) return answer_abort(place, frame.header, *collective.failure);
  if (is_root && collective.has_finished(key.operation)) {
    return answer(*place.stream, Reducer::done_answer(frame.header, context_.options.incarnation));
  }
  const auto operation =
      collective.has_finished(key.operation)
          ? nullptr
          : sum_for(place, frame.header, place.plan->plan().nodes[report->contributor.index()].name);
  if (operation) return operation->on_report(place.plan, *place.stream, std::move(frame));
  if (!is_root)
    outgoing_.at(place.stream->children.front())->enqueue(place.stream->key, std::move(frame), nullptr);
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
