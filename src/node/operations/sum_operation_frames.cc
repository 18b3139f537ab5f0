// What a reduce or an all-reduce does with the frames that reach it.
#include <fmt/format.h>

#include "node/operations/check_call.h"
#include "node/operations/sum_operation.h"
#include "node/sums/sum_messages.h"

namespace square {
namespace {

Frame layout_notice(const FrameHeader& question, Epoch layout, std::uint32_t incarnation) {
  Frame notice{question, encode_request({})};
  notice.header.type = FrameType::kRequest;
  notice.header.layout = layout;
  // Generations of a cut begin anew, and it says nothing of them.
  notice.header.attempt = to_wire({0, 0});
  notice.header.incarnation = incarnation;
  return notice;
}

}  // namespace

void SumOperation::on_arrival(Arrival arrival) {
  switch (arrival.header().type) {
    case FrameType::kRequest: return take_request(arrival);
    case FrameType::kReport: return take_report(std::move(arrival));
    default: break;
  }
  if (!agrees_on_layout(arrival.header())) return;
  if (arrival.stream->kind == SessionKind::kReduce) return take_part(std::move(arrival));
  take_multicast(std::move(arrival));
}

void SumOperation::take_multicast(Arrival arrival) {
  const SessionId session = arrival.key().session;
  if (multicasts_.receiver_of(arrival) == nullptr) {
    if (multicasts_.add_receiver(arrival) == nullptr) return;
    if (is_open_) open_receiver(session);
    if (operation_.is_over()) return;
  }
  if (Receiver* const receiver = multicasts_.receiver(session))
    multicasts_.take(*receiver, std::move(arrival));
}

void SumOperation::take_part(Arrival part) {
  const auto sums = sums_for(part);
  if (!sums) return;
  const std::string_view from = part.from;
  const auto plan = part.plan;  // keeps the name
  const Status taken = sums->on_block(std::move(part));
  if (taken.is_ok()) return;
  const std::string& self = operation_.node()->options.name;
  operation_.fail(taken.with_context(fmt::format("from node \"{}\" to \"{}\"", from, self)), true);
}

void SumOperation::take_request(const Arrival& request) {
  const auto sums = agrees_on_layout(request.header()) ? sums_for(request) : nullptr;
  if (!sums) return operation_.host().answer(*request.stream, request.frame);
  const Status taken = sums->on_request(request);
  if (!taken.is_ok()) operation_.fail(taken.with_context("from the root of a reduce"), true);
}

void SumOperation::take_report(Arrival report) {
  const FrameHeader& header = report.header();
  if (plan_ && header.layout != Epoch(0) && header.layout < plan_->epoch()) {
    // The contributor cannot move up with a cut that is over, and may not hear from anybody else.
    const auto incarnation = operation_.node()->options.incarnation;
    return operation_.host().answer(*report.stream, layout_notice(header, plan_->epoch(), incarnation));
  }
  const auto sums = agrees_on_layout(header) ? sums_for(report) : nullptr;
  if (!sums) return;
  const Status taken = sums->on_report(std::move(report));
  if (!taken.is_ok()) operation_.fail(taken, true);
}

// The first frame of a session says what is added there, if the members here have not.
std::shared_ptr<SumSession> SumOperation::sums_for(const Arrival& arrival) {
  const SessionId session = arrival.key().session;
  if (auto known = sums_.find(session)) return known;
  const SumShape shape = shape_of(arrival.header());
  if (const Status usable = check(shape); !usable.is_ok()) {
    operation_.fail(usable, true);
    return nullptr;
  }
  if (is_open_) {
    // All sums that this node knows of are open: another's buffer is cut in another way.
    const MemberOperation& first = first_call();
    operation_.fail(
        invalid_argument(fmt::format("rank {} on node \"{}\" posted {}; another posted another size",
                                     first.rank.value(), operation_.node()->options.name, describe(first))),
        true);
    return nullptr;
  }
  return sums_.add(arrival.plan, *arrival.plan->session(session), shape);
}

}  // namespace square
