// What a node does with the frames of reduces.
#include <algorithm>
#include <utility>

#include "node/frames/frame_handler.h"
#include "node/sums/report_ways.h"

namespace square {

std::shared_ptr<Operation> FrameHandler::sum_for(const Arrival& arrival, std::string_view from) {
  const FrameHeader& header = arrival.header();
  const OperationKey key{arrival.stream->collective, header.operation};
  if (refuses(key)) return nullptr;
  const bool is_near = parts_.groups[key.collective].is_near(key.operation);
  auto operation = is_near ? parts_.operations.open(key, *arrival.plan) : nullptr;
  if (!operation) parts_.node.refuse_frame();
  return operation && parts_.agreement.on_frame(key, *operation, header, from) ? operation : nullptr;
}

void FrameHandler::take_part(Arrival arrival, Collective& collective) {
  if (collective.failure) return answer_abort(arrival, *collective.failure);
  if (!arrival.stream->is_member) return parts_.sums.on_block(std::move(arrival));
  if (collective.has_finished(arrival.header().operation)) return;  // its sender will ask
  if (const auto operation = sum_for(arrival, arrival.from)) operation->on_arrival(std::move(arrival));
}

// From the root, on its way to all contributors.
void FrameHandler::take_request(const Arrival& arrival) {
  const FrameHeader& header = arrival.header();
  const OperationKey key{arrival.stream->collective, header.operation};
  const auto request = decode_request(arrival.frame.payload);
  if (request.is_ok() && request->tells_layout()) {
    if (const auto known = parts_.operations.find(key)) known->on_layout(*arrival.plan, header);
    return answer(*arrival.stream, arrival.frame);
  }
  const Status there = request.is_ok() && request->done ? Status::ok() : check_members(arrival);
  if (!there.is_ok()) {
    return parts_.neighbours.send_ahead(std::string(arrival.from), abort_of(arrival, there));
  }
  if (!arrival.stream->is_member) return parts_.sums.on_request(arrival);
  const NodeId root = arrival.stream->session->root;
  const std::string& root_name = arrival.plan->name_of(root);
  const Status alive =
      parts_.groups.check_life(key.collective, {header.session, root, root_name}, header.incarnation);
  if (!alive.is_ok()) return parts_.failures.announce(key, alive);
  const Collective& collective = parts_.groups[key.collective];
  const bool is_over = collective.failure || collective.has_finished(key.operation);
  const auto operation = is_over ? nullptr : sum_for(arrival, root_name);
  if (!operation) return answer(*arrival.stream, arrival.frame);
  operation->on_arrival(arrival);
}

// From a contributor, on its way to the root.
void FrameHandler::take_report(Arrival arrival) {
  const auto report = decode_report(arrival.frame.payload);
  const LocalStream& stream = *arrival.stream;
  const PlanSession& session = *stream.session;
  if (!report.is_ok() || report->contributor == session.root ||
      std::ranges::find(session.members, report->contributor) == session.members.end()) {
    return parts_.node.refuse_frame();
  }
  if (!stream.is_member) return parts_.sums.on_report(std::move(arrival));
  const OperationKey key{stream.collective, arrival.header().operation};
  const std::string& contributor = arrival.plan->name_of(report->contributor);
  if (stream.is_root) {
    const Groups::Speaker speaker{stream.key.session, report->contributor, contributor};
    const Status alive = parts_.groups.check_life(key.collective, speaker, arrival.header().incarnation);
    if (!alive.is_ok()) return parts_.failures.announce(key, alive);
  }
  const Collective& collective = parts_.groups[key.collective];
  if (collective.failure) return answer_abort(arrival, *collective.failure);
  const bool has_finished = collective.has_finished(key.operation);
  if (stream.is_root && has_finished) {
    return answer(stream, done_answer(arrival.header(), parts_.node.options.incarnation));
  }
  const auto operation = has_finished ? nullptr : sum_for(arrival, contributor);
  if (operation) return operation->on_arrival(std::move(arrival));
  if (stream.is_root) return;
  const auto plan = arrival.plan;  // keeps the stream
  pass_report(*parts_.neighbours.outgoing().at(stream.children.front()), stream.key,
              std::move(arrival.frame));
}

}  // namespace square
