// The root of sums whose parts were lost, and of sums that go on under another plan.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/planted.h"
#include "node/sums/sum_root.h"

namespace square {
namespace {

// An answer takes the stream's way down and up, and again where it was lost.
constexpr int kAnswerTrips = 8;

void note_lost(LossyRelays& lossy, const std::optional<RelayOnWay>& relay, std::size_t blocks) {
  if (blocks > 0 && relay) lossy.note_blocks(*relay, blocks, 0);
}

}  // namespace

// A parent keeps the order of a stream: what it passed over is lost.
void SumRoot::find_gap(Stream& stream, std::size_t parent, std::uint64_t sequence) {
  std::vector<std::uint32_t> lost;
  const auto& order = interleave_->order(stream.local->key.stream.index());
  for (const std::uint32_t block : stream.losses.on_part(order, parent, sequence)) {
    if (!results_.has(block) && retries_.of(block) == 0 && !parts_.has(block, parent)) lost.push_back(block);
  }
  note_lost(node_->lossy, stream.relays[parent], lost.size());
  request_again(stream, lost);
}

// What every contributor has sent its part of, and is not here, is lost.
void SumRoot::find_lost(Stream& stream) {
  const auto reported = stream.losses.reported_by(planned().members.size() - 1);
  if (!reported) return;
  const auto& order = interleave_->order(stream.local->key.stream.index());
  std::vector<std::uint32_t> lost;
  for (std::size_t i = 0; i < std::min<std::size_t>(reported->position, order.size()); ++i) {
    const std::uint32_t block = order[i];
    if (results_.has(block) || parts_.is_complete(block)) continue;
    if (!retries_.is_asked_after(block, reported->number)) lost.push_back(block);
  }
  for (std::size_t parent = 0; parent < stream.relays.size(); ++parent) {
    note_lost(node_->lossy, stream.relays[parent],
              static_cast<std::size_t>(std::ranges::count_if(
                  lost, [&](std::uint32_t block) { return !parts_.has(block, parent); })));
  }
  request_again(stream, lost);
}

void SumRoot::request_again(Stream& stream, const std::vector<std::uint32_t>& blocks) {
  for (std::size_t first = 0; first < blocks.size(); first += kMaxRequestedBlocks) {
    SumRequest request;
    request.number = ++request_count_;
    for (std::size_t i = first; i < std::min(blocks.size(), first + kMaxRequestedBlocks); ++i) {
      const std::uint32_t block = blocks[i];
      const std::uint16_t tries = retries_.of(block);
      if (tries == std::numeric_limits<std::uint16_t>::max()) {
        return host_.fail(unavailable(fmt::format("block {} of a sum was lost {} times", block, tries)));
      }
      // It has landed meanwhile, and its frame is on the way here.
      if (!results_.ask_again(block, static_cast<std::uint16_t>(tries + 1))) continue;
      request.again.push_back({block, retries_.ask(block, request.number)});
      parts_.drop(block);
      node_->add_resent(label_.session, {});
    }
    if (!request.again.empty()) send_request(stream, std::move(request));
  }
}

void SumRoot::send_request(Stream& stream, SumRequest request) {
  const auto first = std::ranges::find(done_before_, false);
  request.first_missing = static_cast<std::uint32_t>(first - done_before_.begin());
  request.bits.assign(first, done_before_.end());
  request.left = left_;
  Frame frame{label_.header(FrameType::kRequest, stream.local->key), encode_request(request)};
  host_.answer(*stream.local, frame);
}

Status SumRoot::on_report(Arrival arrival) {
  if (is_cancelled_) return Status::ok();
  const FrameHeader& header = arrival.header();
  const Result<SumReport> report = decode_report(arrival.frame.payload);
  if (!report.is_ok()) return report.status();
  if (report->has_called) called_.insert(report->contributor);
  const SumAge age = age_of(header);
  const SumAge present = label_.age(plan_->epoch());
  if (done_) {
    host_.answer(*arrival.stream, done_answer(header, node_->options.incarnation));
  } else if (age > present) {
    migrate(arrival.plan);
  } else if (report->is_behind || age < present) {
    poll_soon();
  } else if (report->may_have_lost) {
    hurry();
  } else if (Stream* stream = find(arrival.key().stream)) {
    silence_.on_answer(arrival.key().stream, report->contributor, node_->clock.now());
    stream->losses.on_report(*report);
    find_lost(*stream);
  }
  return Status::ok();
}

void SumRoot::migrate(const std::shared_ptr<const InstalledCollective>& plan) {
  const bool goes_on = !is_cancelled_ && !done_ && plan->epoch() > plan_->epoch();
  if (goes_on && !plan->streams_of(label_.session).empty()) begin_again(plan);
}

// What is done stays; everything else is sent again, by everybody in the same order.
void SumRoot::begin_again(std::shared_ptr<const InstalledCollective> plan) {
  if (label_.generation == std::numeric_limits<std::uint16_t>::max()) {
    return host_.fail(
        unavailable(fmt::format("the sums of a reduce began again {} times", label_.generation)));
  }
  const std::vector<bool> done_before = results_.hold();
  ++label_.generation;
  may_have_lost_ = false;
  enter(std::move(plan), done_before);
  if (is_open_) results_.begin({plan_->epoch(), label_.generation, interleave_});
  host_.on_restart();
  poll();
}

void SumRoot::arm_ask() {
  ask_timer_.arm(life_.bind([this] { ask(); }));
}

// A link that was lost and is back took parts along, and windows may be full of those that wait for them: as
// soon as nothing comes any more, everything begins again.
void SumRoot::hurry() {
  if (is_cancelled_ || done_) return;
  may_have_lost_ = true;
  if (ask_timer_.hurry()) arm_ask();
}

void SumRoot::ask() {
  if (is_cancelled_ || done_) return;
  take_landed();
  if (done_) return;
  if (ask_timer_.take_heard()) return arm_ask();
  if (leave_silent_streams()) return arm_ask();
  if ((may_have_lost_ || idle_asks_ >= idle_limit_) && all_have_called()) {
    idle_asks_ = 0;
    idle_limit_ = std::min(2 * idle_limit_, kMostIdleAsks);
    begin_again(plan_);
  } else {
    ++idle_asks_;
    poll();
  }
  if (is_planted(Bug::kAskOnce)) return;
  ask_timer_.wait_longer();
  arm_ask();
}

// What does not come through on one stream goes on those on which everybody answers.
bool SumRoot::leave_silent_streams() {
  if (!is_open_ || !all_have_called()) return false;
  std::map<StreamIndex, Duration> patience;
  for (const auto& [index, stream] : streams_) {
    if (!is_left(index)) patience[index] = kLeastAnswerTime + kAnswerTrips * stream.local->latency;
  }
  const std::set<StreamIndex> silent = silence_.find(patience, contributors(), node_->clock.now());
  if (silent.empty()) return false;
  left_.resize(planned().streams.size());
  for (const StreamIndex index : silent) {
    left_[index.index()] = true;
    blame_relays(index);
  }
  log(LogLevel::kWarning, {.component = "node", .node = node_->options.name},
      "{}: sums leave {} of {} streams, through which nothing comes", node_->options.name, silent.size(),
      streams_.size());
  begin_again(plan_);
  return true;
}

// On the ways of those that do not answer there. Where there is none it is the contributor that is late.
void SumRoot::blame_relays(StreamIndex stream) const {
  std::vector<RelayOnWay> blamed;
  for (const NodeId contributor : silence_.awaited_on(stream)) {
    const auto relay = relay_to(*plan_, planned(), planned().streams[stream.index()], contributor);
    if (!relay) return;
    if (std::ranges::find(blamed, *relay) == blamed.end()) blamed.push_back(*relay);
  }
  for (const RelayOnWay& relay : blamed) node_->lossy.note_silence(relay);
}

std::vector<NodeId> SumRoot::contributors() const {
  std::vector<NodeId> nodes = planned().members;
  std::erase(nodes, planned().root);
  return nodes;
}

bool SumRoot::all_have_called() const { return called_.size() + 1 >= planned().members.size(); }

// Asks everybody, on every stream that is not through, how far they are; and on the others where somebody
// owes an answer for long.
void SumRoot::poll() {
  polled_at_ = node_->clock.now();
  is_poll_due_ = false;
  const bool is_in_doubt = silence_.is_in_doubt(polled_at_);
  for (auto& [index, stream] : streams_) {
    if (is_left(index)) continue;
    const auto& order = interleave_->order(index.index());
    const auto is_through = [&](std::uint32_t block) { return results_.has(block); };
    if (is_open_ && !is_in_doubt && std::ranges::all_of(order, is_through)) continue;
    silence_.on_question(index, contributors(), polled_at_);
    SumRequest request;
    request.number = ++request_count_;
    send_request(stream, std::move(request));
  }
}

// Somebody does not know what the last question said. Where it is on its way yet all of them say so, on every
// stream, and each of those would bring as many answers again.
void SumRoot::poll_soon() {
  if (is_cancelled_ || done_) return;
  const TimePoint when = polled_at_ + kMinAskWait;
  if (node_->clock.now() >= when) return poll();
  if (std::exchange(is_poll_due_, true)) return;
  node_->executor.post_at(when, life_.bind([this] {
    if (std::exchange(is_poll_due_, false)) poll_soon();
  }));
}

}  // namespace square
