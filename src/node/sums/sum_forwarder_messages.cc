// What a forwarder of sums does when the root asks, and what it tells the root.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "node/sums/report_ways.h"
#include "node/sums/sum_forwarder.h"

namespace square {

Status SumForwarder::on_request(const Arrival& arrival) {
  host_.answer(*arrival.stream, arrival.frame);
  if (is_cancelled_ || done_) return Status::ok();
  const Result<SumRequest> request = decode_request(arrival.frame.payload);
  if (!request.is_ok()) return request.status();
  if (request->done) {
    finish();
    return Status::ok();
  }
  const SumAge age = age_of(arrival.header());
  const SumAge present = label_.age(plan_->epoch());
  if (age < present) return Status::ok();
  if (age > present) SQUARE_RETURN_IF_ERROR(adopt(arrival.plan, arrival.header()));
  if (own_ && !own_->knows_start()) SQUARE_RETURN_IF_ERROR(begin_by(*request));
  if (Stream* stream = find(arrival.key().stream)) follow(*stream, *request);
  fill_all();
  return Status::ok();
}

void SumForwarder::finish() {
  done_ = true;
  ask_timer_.cancel();
  drop_everything();
  host_.progress();
}

// It says what the sums leave out.
Status SumForwarder::begin_by(const SumRequest& request) {
  if (request.first_missing > label_.shape.block_count())
    return data_loss("a request is about blocks that there are not");
  const auto streams = std::ssize(plan_->session(label_.session)->streams);
  const auto left = std::ranges::count(request.left, true);
  if (std::ssize(request.left) > streams || (left > 0 && left == streams))
    return data_loss("a request leaves streams that there are not, or all");
  // Parts of this generation that came ahead of this stay: who waits for the others' may have no room left
  // for what would be sent again.
  own_->begin(request.first_missing, request.bits, request.left, true);
  deal();
  parts_.drop_if([&](const WaitingParts::Place& place) { return !belongs_to(place.block, place.stream); });
  return Status::ok();
}

void SumForwarder::follow(Stream& stream, const SumRequest& request) {
  for (const auto& [block, retry] : request.again) {
    if (block >= label_.shape.block_count() || retry <= retries_.of(block)) continue;
    drop_block(block, retry);
    if (!own_ || !stream.starts_here() || !own_->interleave().is_dealt(block)) continue;
    if (own_->interleave().stream_of(block) == stream.key().stream.index() &&
        own_->interleave().position_of(block) < stream.own.position()) {
      stream.own.ask_again(block);
    }
  }
  if (own_) report(stream, request.number);
}

// Behind everything that this node has sent on the stream so far.
void SumForwarder::report(Stream& stream, std::uint32_t number) {
  if (!stream.starts_here()) return push_report(stream, number);
  stream.own.report(number);
  host_.fill(stream.key());
  if (stream.own.has_report()) hasten_report(link_of(stream), stream.key(), report_on(stream, number));
}

void SumForwarder::push_report(Stream& stream, std::uint32_t number) {
  put_report(stream, report_on(stream, number));
}

Frame SumForwarder::report_on(const Stream& stream, std::uint32_t number) const {
  SumReport report{*plan_->self(), number, own_->is_open(), false, 0};
  const std::size_t all = own_->interleave().order(stream.key().stream.index()).size();
  report.position = static_cast<std::uint32_t>(stream.starts_here() ? stream.own.position() : all);
  return {label_.header(FrameType::kReport, stream.key()), encode_report(report)};
}

void SumForwarder::put_report(Stream& stream, Frame report) {
  if (hasten_report(link_of(stream), stream.key(), report)) return;
  if (stream.leaving.is_full()) return;  // it is said again
  stream.leaving.push(std::move(report));
  flush(stream);
}

Status SumForwarder::on_report(Arrival arrival) {
  if (is_cancelled_) return Status::ok();
  const LocalStream& local = *arrival.stream;
  Stream* stream = arrival.plan->epoch() == plan_->epoch() ? find(local.key.stream) : nullptr;
  if (stream == nullptr) {
    pass_report(*links_.at(local.children.front()), local.key, std::move(arrival.frame));
  } else {
    put_report(*stream, std::move(arrival.frame));
  }
  return Status::ok();
}

void SumForwarder::migrate(const std::shared_ptr<const InstalledCollective>& plan) {
  if (!own_ || is_cancelled_ || done_ || plan->epoch() <= plan_->epoch()) return;
  // Tells the root, in case it does not know yet, that there is a newer plan.
  for (const LocalStream* local : plan->streams_of(label_.session)) {
    Frame frame{label_.header(FrameType::kReport, local->key),
                encode_report({*plan->self(), 0, own_->is_open(), true, 0})};
    pass_report(*links_.at(local->children.front()), local->key, std::move(frame));
  }
}

void SumForwarder::shed() {
  parts_.clear();
  for (auto& [index, stream] : streams_) link_of(stream).drop_operation(label_.session, label_.operation);
}

void SumForwarder::arm_ask() {
  ask_timer_.arm(life_.bind([this] { ask(); }));
}

void SumForwarder::hurry() {
  if (is_cancelled_ || done_ || !own_) return;
  SumReport report{*plan_->self(), 0, own_->is_open()};
  report.may_have_lost = true;
  for (auto& [index, stream] : streams_) {
    pass_report(link_of(stream), stream.key(),
                {label_.header(FrameType::kReport, stream.key()), encode_report(report)});
  }
  if (ask_timer_.hurry()) arm_ask();
}

void SumForwarder::ask() {
  if (is_cancelled_ || done_) return;
  // The root has left in order, and may have taken its last word along.
  const std::string& root = plan_->name_of(plan_->session(label_.session)->root);
  if (node_->departures.has_finished(root, plan_->id(), label_.operation)) return finish();
  fill_all();
  if (ask_timer_.take_heard()) return arm_ask();
  for (auto& [index, stream] : streams_) report(stream, 0);
  ask_timer_.wait_longer();
  arm_ask();
}

std::string SumForwarder::describe_missing() const {
  if (done_) return "";
  const PlanSession* const session = plan_->session(label_.session);
  const std::string root = session == nullptr ? std::string("the root")
                                              : fmt::format("the root \"{}\"", plan_->name_of(session->root));
  return fmt::format("no word from {} that it has every sum", root);
}

}  // namespace square
