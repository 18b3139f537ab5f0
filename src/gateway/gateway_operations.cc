#include "gateway/gateway_operations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "gateway/messages.h"

namespace square::gateway {

namespace {

GatewayOperations::Key key_of(const Call& call) { return {call.part.collective, call.part.operation}; }

}  // namespace

GatewayOperations::GatewayOperations(OperationsHost host, std::shared_ptr<EventLoop> loop)
    : host_(std::move(host)),
      loop_(std::move(loop)),
      budget_({host_.options.tenant_staging_bytes, host_.options.staging_bytes}),
      segments_(host_.options.staging_bytes),
      copier_(loop_) {}

Status GatewayOperations::post(Attachment& from, std::uint64_t number, const v1::GatewayPost& message) {
  Poster& poster = posters_[from.id()];
  if (number <= poster.last_number) return invalid_argument("the numbers of operations must grow");
  poster.last_number = number;
  Call call = call_of({from.id(), number}, message);
  call.tenant = from.tenant;
  if (const Status usable = check_post(from, call); !usable.is_ok()) {
    v1::GatewayStatus outcome;
    put_status(usable, outcome);
    from.send(MessageType::kOutcome, number, outcome);
    return {};
  }
  ++poster.calls;
  by_operation_[key_of(call)].insert(call.id);
  Call& kept = calls_.emplace(call.id, std::move(call)).first->second;
  if (rooms_.contains(key_of(kept))) {
    admit(kept);
    return {};
  }
  waiting_[kept.tenant].push_back({++last_arrival_, kept.id});
  admit_waiting();
  return {};
}

Status GatewayOperations::check_post(const Attachment& from, Call& call) {
  if (is_closed_) {
    return unavailable(fmt::format("the gateway of node \"{}\" was stopped", host_.node.name()));
  }
  const MemberOperation& part = call.part;
  Status usable = host_.groups.claim(part.collective, part.operation, part.rank, from.id(), from.describe());
  // That another local rank has left, members on other nodes do not know yet.
  const bool concerns_others = usable.is_ok() || usable.code() == StatusCode::kUnavailable;
  if (usable.is_ok()) {
    const GroupCollective& collective = host_.groups.find(part.collective)->collectives.at(part.collective);
    call.stays_here = host_.groups.stays_here(part.collective);
    call.is_output_copied = from.is_shared && collective.op == CollectiveOp::kAllReduce && !call.stays_here;
    set_room(call, *host_.groups.find(part.collective), collective);
    usable = check_call(from, collective, call);
  }
  // The others would wait for this member until their time is over.
  if (!usable.is_ok() && concerns_others) end({part.collective, part.operation}, usable);
  return usable;
}

// What the node relies on, and what there is room for.
Status GatewayOperations::check_call(const Attachment& from, const GroupCollective& collective,
                                     const Call& call) const {
  const MemberOperation& part = call.part;
  const bool is_root = collective.op != CollectiveOp::kAllReduce && collective.root == part.rank;
  if (part.is_root != is_root) {
    return invalid_argument(fmt::format("{}: rank {} is {}the root of collective {}", from.describe(),
                                        part.rank.value(), is_root ? "" : "not ", part.collective.value()));
  }
  if (part.reduction != kNoReduction) {
    SQUARE_RETURN_IF_ERROR(check_reduction(part.reduction)
                               .with_context(fmt::format("{}: rank {}", from.describe(), part.rank.value())));
  }
  if (posters_.at(from.id()).calls >= host_.options.max_operations) {
    return resource_exhausted(
        fmt::format("{} has {} operations under way, as many as max_operations of the "
                    "gateway of node \"{}\" allows; wait for some",
                    from.describe(), host_.options.max_operations, host_.node.name()));
  }
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 60U;
  if (call.input_bytes > kLargest || call.output_bytes > kLargest) {
    return invalid_argument(fmt::format("{}: an operation of impossible size", from.describe()));
  }
  SQUARE_RETURN_IF_ERROR(budget_.check(call.tenant, call.bytes()));
  return budget_.check(call.tenant, call.room_bytes, call.room_segments)
      .with_context("all ranks of this node together");
}

void GatewayOperations::set_room(Call& call, const Group& group, const GroupCollective& collective) const {
  const auto ranks = members_on(group.spec, collective, host_.node.name()).size();
  // Of a reduce the root alone has an output.
  call.room_bytes =
      collective.op == CollectiveOp::kReduce ? call.input_bytes * (ranks + 1) : call.bytes() * ranks;
  // Not as this rank calls it: the others may have what it has not.
  call.room_segments = kSegmentsOfRank * ranks;
}

void GatewayOperations::give_back_room(const Call& call) {
  const auto room = rooms_.find(key_of(call));
  if (--room->second.calls > 0) return;
  budget_.give_back(room->second.tenant, room->second.bytes, room->second.segments);
  rooms_.erase(room);
}

// A tenant without room lets others pass; a call that finds the gateway full does not.
void GatewayOperations::admit_waiting() {
  std::set<std::string> full;
  for (;;) {
    auto first = waiting_.end();
    for (auto tenant = waiting_.begin(); tenant != waiting_.end(); ++tenant) {
      if (full.contains(tenant->first)) continue;
      if (first == waiting_.end() || tenant->second.front().arrival < first->second.front().arrival)
        first = tenant;
    }
    if (first == waiting_.end()) return;
    const auto found = calls_.find(first->second.front().id);
    const bool waits = found != calls_.end() && found->second.state == Call::State::kWaiting;
    if (waits) {
      const auto answer = budget_.take(first->first, found->second.room_bytes, found->second.room_segments);
      if (answer == StagingBudget::Answer::kAllIsFull) return;
      if (answer == StagingBudget::Answer::kTenantIsFull) {
        full.insert(first->first);
        continue;
      }
    }
    first->second.pop_front();
    if (first->second.empty()) waiting_.erase(first);
    if (waits) admit_all(key_of(found->second), found->second);
  }
}

// The calls of the operation that are there; it has its room.
void GatewayOperations::admit_all(const Key& key, const Call& first) {
  rooms_.emplace(key, Room{first.tenant, first.room_bytes, first.room_segments, 0});
  for (const CallId id : calls_of(key)) {
    const auto found = calls_.find(id);  // one that has to be ended ends others
    if (found != calls_.end() && found->second.state == Call::State::kWaiting) admit(found->second);
  }
}

void GatewayOperations::admit(Call& call) {
  call.state = Call::State::kAdmitted;
  ++rooms_.at(key_of(call)).calls;
  call.last_progress = steady_clock().now();
  Attachment* from = host_.find(call.id.attachment);
  if (!from->is_shared || call.bytes() == 0) {
    call.staging = make_copies(call);
    if (!call.staging) return end(key_of(call), no_memory(call));
  }
  if (call.staging && call.input_bytes == 0) {
    run(call);
  } else {
    from->send(MessageType::kAdmitted, call.id.number);
  }
}

Status GatewayOperations::staged(Attachment& from, std::uint64_t number, StagedMemory where) {
  const auto found = calls_.find({from.id(), number});
  if (found == calls_.end()) return {};  // has ended meanwhile
  Call& call = found->second;
  if (!from.is_shared || call.state != Call::State::kAdmitted || call.staging) {
    return invalid_argument(fmt::format("operation {} has its memory already", number));
  }
  const auto staging = std::make_shared<Staging>();
  SQUARE_RETURN_IF_ERROR(open_segments(segments_, from, std::move(where), call, *staging));
  if (call.is_output_copied) {
    staging->output_copy = make_copy(call.output_bytes);
    staging->output = {staging->output_copy.get(), call.output_bytes};
    if (!staging->output_copy) {
      end({call.part.collective, call.part.operation}, no_memory(call));
      return {};
    }
  }
  call.staging = staging;
  run(call);
  return {};
}

Status GatewayOperations::no_memory(const Call& call) const {
  return resource_exhausted(
      fmt::format("the gateway of node \"{}\" has no memory for {} bytes", host_.node.name(), call.bytes()));
}

Result<ChunkTarget> GatewayOperations::place_chunk(Attachment& from, const Header& header) {
  const auto found = calls_.find({from.id(), header.number});
  if (found == calls_.end()) return ChunkTarget{};  // has ended meanwhile; the rest is dropped
  Call& call = found->second;
  if (call.state == Call::State::kReturning) return ChunkTarget{};
  if (from.is_shared || !call.staging || header.offset_bytes != call.received_bytes ||
      header.body_bytes > call.input_bytes - call.received_bytes) {
    return data_loss(fmt::format("{} sent {} bytes at {} of an operation of {}, where {} comes next",
                                 from.describe(), header.body_bytes, header.offset_bytes, call.input_bytes,
                                 call.received_bytes));
  }
  // What is read holds its memory, whatever becomes of the operation.
  return ChunkTarget{call.staging, call.staging->input_copy.get() + header.offset_bytes};
}

void GatewayOperations::took_chunk(Attachment& from, const Header& header) {
  const auto found = calls_.find({from.id(), header.number});
  if (found == calls_.end() || found->second.state != Call::State::kAdmitted) return;
  Call& call = found->second;
  call.received_bytes += header.body_bytes;
  call.last_progress = steady_clock().now();
  if (call.received_bytes == call.input_bytes) run(call);
}

std::function<void(Status)> GatewayOperations::done_callback(const Call& call) {
  const auto notice = std::make_shared<DoneNotice>(
      [loop = std::weak_ptr(loop_), weak = weak_from_this(), id = call.id](Status outcome) {
        if (const auto alive = loop.lock()) {
          alive->post([weak, id, outcome = std::move(outcome)] {
            if (const auto self = weak.lock()) self->done(id, outcome);
          });
        }
      });
  // The memory goes with the last copy of the callback: the node looks at it until then.
  return [notice, staging = call.staging](Status outcome) { notice->tell(std::move(outcome)); };
}

void GatewayOperations::run(Call& call) {
  call.state = Call::State::kRunning;
  MemberOperation operation = call.part;
  operation.input = call.staging->input;
  operation.output = call.staging->output;
  operation.timeout = std::max(call.deadline - steady_clock().now(), Duration(std::chrono::milliseconds(1)));
  operation.done = done_callback(call);
  host_.node.post(std::move(operation));
}

void GatewayOperations::done(CallId id, Status outcome) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  Attachment* to = host_.find(id.attachment);
  const bool has_output = outcome.is_ok() && call.output_bytes > 0 && to != nullptr;
  if (has_output && !to->is_shared) {
    call.state = Call::State::kReturning;
    return to->stream(id.number, call.staging->output, call.staging);
  }
  if (has_output && call.is_output_copied) {
    call.state = Call::State::kReturning;
    return copier_.copy(call.staging->output, call.staging->output_segment->data().data(), call.staging,
                        [weak = weak_from_this(), id] {
                          if (const auto self = weak.lock()) self->finish(id, Status::ok());
                        });
  }
  finish(id, outcome);
}

void GatewayOperations::streamed(Attachment& from, std::uint64_t number) {
  finish({from.id(), number}, Status::ok());
}

void GatewayOperations::finish(CallId id, Status outcome) {
  if (!calls_.contains(id)) return;
  if (Attachment* to = host_.find(id.attachment)) {
    v1::GatewayStatus message;
    put_status(outcome, message);
    to->send(MessageType::kOutcome, id.number, message);
  }
  erase(id);
  admit_waiting();
  host_.on_ended();
}

void GatewayOperations::erase(CallId id) {
  const auto found = calls_.find(id);
  if (found->second.state != Call::State::kWaiting) give_back_room(found->second);
  const auto siblings = by_operation_.find(key_of(found->second));
  siblings->second.erase(id);
  if (siblings->second.empty()) by_operation_.erase(siblings);
  calls_.erase(found);
  const auto poster = posters_.find(id.attachment);
  if (poster != posters_.end()) --poster->second.calls;
}

std::vector<CallId> GatewayOperations::calls_of(const Key& key) const {
  const auto found = by_operation_.find(key);
  return found == by_operation_.end() ? std::vector<CallId>()
                                      : std::vector<CallId>(found->second.begin(), found->second.end());
}

std::set<GatewayOperations::Key> GatewayOperations::matching(
    const std::function<bool(const Call&)>& picks) const {
  std::set<Key> found;
  for (const auto& [id, call] : calls_) {
    if (picks(call)) found.emplace(call.part.collective, call.part.operation);
  }
  return found;
}

void GatewayOperations::drop(const Attachment& leaver) {
  std::vector<CallId> idle;
  for (const auto& [id, call] : calls_) {
    // What the node or a copy looks at keeps its room until they are through with it.
    const bool is_used =
        call.state == Call::State::kRunning || (leaver.is_shared && call.state == Call::State::kReturning);
    if (id.attachment == leaver.id() && !is_used) idle.push_back(id);
  }
  for (const CallId id : idle) erase(id);
  segments_.drop(leaver.id());
}

void GatewayOperations::forget(AttachmentId attachment) {
  posters_.erase(attachment);
  admit_waiting();
}

void GatewayOperations::cancel(Attachment& from, std::uint64_t number) {
  const auto found = calls_.find({from.id(), number});
  if (found == calls_.end() || found->second.state == Call::State::kReturning) return;
  const MemberOperation& part = found->second.part;
  end({part.collective, part.operation},
      cancelled(fmt::format("{}, rank {} on node \"{}\", cancelled the operation", from.describe(),
                            part.rank.value(), host_.node.name())));
}

void GatewayOperations::end(const Key& key, const Status& cause) {
  const auto [collective, operation] = key;
  Group* group = host_.groups.find(collective);
  if (group != nullptr && !group->failure) group->failure = {cause, collective, operation};
  host_.node.fail(collective, operation, cause);
  for (const CallId id : calls_of(key)) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    const Call::State state = found->second.state;
    // What the node has ends with it.
    if (state == Call::State::kWaiting || state == Call::State::kAdmitted) finish(id, cause);
  }
}

void GatewayOperations::end_late() {
  const TimePoint now = steady_clock().now();
  std::vector<std::pair<CallId, Status>> late;
  for (const auto& [id, call] : calls_) {
    if (call.state == Call::State::kWaiting && now >= call.deadline) {
      late.emplace_back(id, deadline_exceeded(fmt::format(
                                "rank {} on node \"{}\" timed out after {:.1f} s: no room at the gateway; {}",
                                call.part.rank.value(), host_.node.name(), to_seconds(call.part.timeout),
                                budget_.describe(call.tenant))));
    } else if (call.state == Call::State::kAdmitted &&
               (now >= call.deadline || now - call.last_progress > kMaxInputPause)) {
      late.emplace_back(
          id, deadline_exceeded(fmt::format(
                  "rank {} on node \"{}\" gave {} of {} bytes of its input to the gateway, and no more",
                  call.part.rank.value(), host_.node.name(), call.received_bytes, call.input_bytes)));
    }
  }
  for (const auto& [id, cause] : late) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    end({found->second.part.collective, found->second.part.operation}, cause);
  }
}

}  // namespace square::gateway
