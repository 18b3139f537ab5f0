// Sums whose parts were lost, and sums that go on under another plan.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "node/messages/answers.h"
#include "node/sums/reducer.h"

namespace square {

// A parent keeps the order of a stream: what it passed over is lost.
void Reducer::find_gap(Stream& stream, std::size_t parent, std::uint64_t sequence) {
  const auto& order = interleave_->order(stream.local->key.stream.index());
  std::uint64_t& seen = stream.seen[parent];
  std::vector<std::uint32_t> lost;
  for (std::uint64_t passed = seen + 1; passed < sequence && passed <= order.size(); ++passed) {
    const std::uint32_t block = order[passed - 1];
    if (is_done(block) || retry_of(block) > 0) continue;
    const auto active = active_.find(block);
    if (active == active_.end() || !active->second.parts[parent].arrived) lost.push_back(block);
  }
  seen = std::max(seen, sequence);
  request_again(stream, lost);
}

// What every contributor has sent its part of, and is not here, is lost.
void Reducer::find_lost(Stream& stream) {
  const PlanSession* session = plan_->plan().find_session(session_);
  if (stream.contributors.size() + 1 < session->members.size()) return;
  Progress least{std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<std::uint32_t>::max()};
  for (const auto& [node, progress] : stream.contributors) {
    least.number = std::min(least.number, progress.number);
    least.position = std::min(least.position, progress.position);
  }
  const auto& order = interleave_->order(stream.local->key.stream.index());
  std::vector<std::uint32_t> lost;
  for (std::size_t i = 0; i < std::min<std::size_t>(least.position, order.size()); ++i) {
    const std::uint32_t block = order[i];
    if (is_done(block)) continue;
    const auto active = active_.find(block);
    if (active != active_.end() && active->second.arrived == active->second.parts.size()) continue;
    const auto retry = retries_.find(block);
    if (retry == retries_.end() || retry->second.request <= least.number) lost.push_back(block);
  }
  request_again(stream, lost);
}

void Reducer::request_again(Stream& stream, const std::vector<std::uint32_t>& blocks) {
  for (std::size_t first = 0; first < blocks.size(); first += kMaxRequestedBlocks) {
    SumRequest request;
    request.number = ++request_count_;
    for (std::size_t i = first; i < std::min(blocks.size(), first + kMaxRequestedBlocks); ++i) {
      const std::uint16_t tries = retry_of(blocks[i]);
      if (tries == std::numeric_limits<std::uint16_t>::max()) {
        return host_.fail(unavailable(fmt::format("block {} of a sum was lost {} times", blocks[i], tries)));
      }
      // It has landed meanwhile, and its frame is on the way here.
      if (!zone_->ask_again(blocks[i], static_cast<std::uint16_t>(tries + 1))) continue;
      Retry& retry = retries_[blocks[i]];
      ++retry.count;
      retry.request = request.number;
      active_.erase(blocks[i]);
      node_->add_resent(session_, {});
      request.again.push_back({blocks[i], retry.count});
    }
    if (!request.again.empty()) send_request(stream, std::move(request));
  }
}

void Reducer::send_request(Stream& stream, SumRequest request) {
  const auto first = std::ranges::find(done_before_, false);
  request.first_missing = static_cast<std::uint32_t>(first - done_before_.begin());
  request.bits.assign(first, done_before_.end());
  Frame frame{header_for(stream, FrameType::kRequest), encode_request(request)};
  host_.answer(*stream.local, frame);
}

Frame Reducer::done_answer(const FrameHeader& question, std::uint32_t incarnation) {
  SumRequest request;
  request.done = true;
  Frame frame{question, encode_request(request)};
  frame.header.type = FrameType::kRequest;
  frame.header.incarnation = incarnation;
  return frame;
}

Status Reducer::on_request(const Arrival& arrival) {
  const auto& plan = arrival.plan;
  const FrameHeader& header = arrival.header();
  host_.answer(*arrival.stream, arrival.frame);
  if (is_cancelled_ || done_) return Status::ok();
  const Result<SumRequest> decoded = decode_request(arrival.frame.payload);
  if (!decoded.is_ok()) return decoded.status();
  if (decoded->done) {
    done_ = true;
    node_->executor.cancel(ask_timer_);
    drop_everything();
    host_.progress();
    return Status::ok();
  }
  if (is_older(header, plan->epoch())) return Status::ok();
  const bool begins = is_newer(header, plan->epoch());
  if (begins) SQUARE_RETURN_IF_ERROR(adopt(plan, header));
  if (begins || !knows_start_) {
    if (decoded->first_missing > shape_.block_count())
      return data_loss("a request is about blocks that there are not");
    std::vector<bool> done_before(decoded->first_missing, true);
    done_before.insert(done_before.end(), decoded->bits.begin(), decoded->bits.end());
    done_before.resize(std::min(done_before.size(), shape_.block_count()));
    // Parts that came ahead of this are kept by those who sent them: the root asks again.
    enter(plan, done_before, true);
  }
  if (Stream* stream = find(arrival.key().stream)) follow(*stream, *decoded);
  fill_all();
  return Status::ok();
}

void Reducer::follow(Stream& stream, const SumRequest& request) {
  for (const auto& [block, retry] : request.again) {
    if (block >= shape_.block_count() || retry <= retry_of(block)) continue;
    retries_[block].count = retry;
    active_.erase(block);
    passed_.erase(block);
    if (!contributes_ || !stream.local->starts_here() || !interleave_->is_dealt(block)) continue;
    if (interleave_->stream_of(block) == stream.local->key.stream.index() &&
        interleave_->position_of(block) < stream.next) {
      stream.again.push_back(block);
    }
  }
  if (contributes_) report(stream, request.number);
}

// Behind everything that this node has sent on the stream so far.
void Reducer::report(Stream& stream, std::uint32_t number) {
  if (!stream.local->starts_here()) return push_report(stream, number);
  stream.report_due = std::max(number, stream.report_due.value_or(0));
  host_.fill(stream.local->key);
}

void Reducer::push_report(Stream& stream, std::uint32_t number) {
  SumReport report{*plan_->self(), number, is_open_, false, 0};
  if (is_open_ && knows_start_) {
    const std::size_t all = interleave_->order(stream.local->key.stream.index()).size();
    report.position = static_cast<std::uint32_t>(stream.local->starts_here() ? stream.next : all);
  }
  auto item = std::make_shared<Item>();
  item->frame = {header_for(stream, FrameType::kReport), encode_report(report)};
  item->ready = true;
  stream.leaving.push_back(std::move(item));
  flush(stream);
}

Status Reducer::on_report(Arrival arrival) {
  const auto& plan = arrival.plan;
  const LocalStream& local = *arrival.stream;
  Frame& frame = arrival.frame;
  Stream* stream = find(local.key.stream);
  if (is_cancelled_) return Status::ok();
  if (!is_root_) {
    const bool is_ours = stream != nullptr && plan->epoch() == plan_->epoch();
    if (!is_ours) {
      links_.at(local.children.front())->enqueue(local.key, std::move(frame), nullptr);
      return Status::ok();
    }
    if (stream->leaving.size() >= kMaxLeavingItems) return Status::ok();  // it is said again
    auto item = std::make_shared<Item>();
    item->frame = std::move(frame);
    item->ready = true;
    stream->leaving.push_back(std::move(item));
    flush(*stream);
    return Status::ok();
  }
  const Result<SumReport> report = decode_report(frame.payload);
  if (!report.is_ok()) return report.status();
  if (report->has_called) called_.insert(report->contributor);
  if (done_) {
    host_.answer(local, done_answer(frame.header, node_->options.incarnation));
  } else if (is_newer(frame.header, plan->epoch())) {
    migrate(plan);
  } else if (report->is_behind || is_older(frame.header, plan->epoch())) {
    poll();
  } else if (stream != nullptr) {
    Progress& progress = stream->contributors[report->contributor];
    progress.number = std::max(progress.number, report->number);
    progress.position = std::max(progress.position, report->position);
    find_lost(*stream);
  }
  return Status::ok();
}

void Reducer::migrate(const std::shared_ptr<const InstalledPlan>& plan) {
  if (is_cancelled_ || done_ || plan->epoch() <= plan_->epoch() || plan->streams_of(session_).empty()) return;
  if (is_root_) return begin_again(plan);
  if (!contributes_) return;
  // Tells the root, in case it does not know yet, that there is a newer plan.
  for (const LocalStream* local : plan->streams_of(session_)) {
    Stream there;
    there.local = local;
    Frame frame{header_for(there, FrameType::kReport), encode_report({*plan->self(), 0, is_open_, true, 0})};
    links_.at(local->children.front())->enqueue(local->key, std::move(frame), nullptr);
  }
}

// What is done stays; everything else is sent again, by everybody in the same order.
void Reducer::begin_again(std::shared_ptr<const InstalledPlan> plan) {
  if (generation_ == std::numeric_limits<std::uint16_t>::max()) {
    return host_.fail(unavailable(fmt::format("the sums of a reduce began again {} times", generation_)));
  }
  if (zone_) {
    // What was claimed by now is done, or soon will be.
    zone_->pause();
    const std::vector<bool> claimed = zone_->claimed();
    for (std::size_t block = 0; block < claimed.size(); ++block) {
      if (claimed[block]) done_blocks_.insert(block);
    }
  }
  const std::size_t first = done_blocks_.first_missing();
  std::vector<bool> done_before(first, true);
  for (std::size_t block = first; block < std::min(done_blocks_.end(), first + kMaxSpreadBlocks); ++block) {
    done_before.push_back(is_done(block));
  }
  ++generation_;
  enter(std::move(plan), done_before, true);
  if (zone_) zone_->begin({plan_->epoch(), generation_, interleave_});
  host_.on_restart();
  poll();
}

void Reducer::shed() {
  active_.clear();
  for (auto& [index, stream] : streams_) {
    if (stream.to != nullptr) stream.to->drop_operation(session_, operation_);
  }
}

void Reducer::arm_ask() {
  node_->executor.cancel(ask_timer_);
  ask_timer_ = node_->executor.post_at(node_->clock.now() + ask_wait_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ask();
  });
}

void Reducer::ask() {
  if (is_cancelled_ || done_) return;
  take_landed();
  if (done_) return;
  fill_all();
  if (std::exchange(heard_, false)) {
    ask_wait_ = kMinAskWait;
    return arm_ask();
  }
  if (is_root_ && idle_asks_ >= idle_limit_ && all_have_called()) {
    idle_asks_ = 0;
    idle_limit_ = std::min(2 * idle_limit_, kMostIdleAsks);
    begin_again(plan_);
  } else if (is_root_) {
    ++idle_asks_;
    poll();
  } else {
    for (auto& [index, stream] : streams_) report(stream, 0);
  }
  ask_wait_ = std::min(2 * ask_wait_, kMaxAskWait);
  arm_ask();
}

bool Reducer::all_have_called() const {
  return called_.size() + 1 >= plan_->plan().find_session(session_)->members.size();
}

// Asks everybody, on every stream that is not through, how far they are.
void Reducer::poll() {
  for (auto& [index, stream] : streams_) {
    const auto& order = interleave_->order(index.index());
    const auto is_through = [&](std::uint32_t block) { return is_done(block); };
    if (is_open_ && std::ranges::all_of(order, is_through)) continue;
    SumRequest request;
    request.number = ++request_count_;
    send_request(stream, std::move(request));
  }
}

void Reducer::finish() {
  done_ = true;
  close_zone();
  node_->executor.cancel(ask_timer_);
  for (auto& [index, stream] : streams_) {
    host_.answer(*stream.local,
                 done_answer(header_for(stream, FrameType::kRequest), node_->options.incarnation));
  }
  host_.progress();
}

std::string Reducer::describe_missing() const {
  if (!is_root_) return done_ ? "" : "no word from the root that it has every sum";
  if (done_) return "";
  std::string names;
  const PlanSession* session = plan_->plan().find_session(session_);
  for (const NodeId member : session->members) {
    if (member == session->root) continue;
    if (!called_.contains(member))
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", plan_->plan().nodes[member.index()].name);
  }
  return fmt::format(
      "{} of {} sums are there{}", added_, shape_.block_count(),
      names.empty() ? "" : fmt::format("; nothing is known of {}; have they called it?", names));
}

}  // namespace square
