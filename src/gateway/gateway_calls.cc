// Operations at a gateway: room, input, the node, output.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "controller/protocol.h"
#include "gateway/gateway_core.h"
#include "gateway/messages.h"

namespace square::gateway {
namespace {

// Memory of the gateway's own, zero: what another operation left there is nobody's business.
// Its pages come when they are written.
OwnBytes make_copy(std::uint64_t size_bytes) {
  return OwnBytes(static_cast<std::byte*>(std::calloc(size_bytes + 1, 1)));
}

std::shared_ptr<Staging> make_copies(const Call& call) {
  const auto staging = std::make_shared<Staging>();
  staging->input_copy = make_copy(call.input_bytes);
  staging->output_copy = make_copy(call.output_bytes);
  if (!staging->input_copy || !staging->output_copy) return nullptr;
  staging->input = {staging->input_copy.get(), call.input_bytes};
  staging->output = {staging->output_copy.get(), call.output_bytes};
  return staging;
}

// What no byte holds is as unknown as the last one that does.
Reduction reduction_of(const v1::GatewayPost& message) {
  constexpr std::uint32_t kUnknown = 255;
  return {static_cast<ElementType>(std::min(message.element_type(), kUnknown)),
          static_cast<ReduceOp>(std::min(message.reduce_op(), kUnknown))};
}

// Tells the loop exactly once, also where a node that stops drops the operation.
class DoneNotice {
 public:
  explicit DoneNotice(std::function<void(Status)> tell) : tell_(std::move(tell)) {}
  DoneNotice(const DoneNotice&) = delete;
  DoneNotice& operator=(const DoneNotice&) = delete;
  ~DoneNotice() {
    if (tell_) tell_(cancelled("the node was stopped before the operation ended"));
  }
  void tell(Status outcome) {
    if (tell_) std::exchange(tell_, nullptr)(std::move(outcome));
  }

 private:
  std::function<void(Status)> tell_;
};

}  // namespace

Status GatewayCore::post(Attachment& from, std::uint64_t number, const v1::GatewayPost& message) {
  Member& member = members_.at(from.id());
  if (number <= member.last_number) return invalid_argument("the numbers of operations must grow");
  member.last_number = number;
  Call call;
  call.id = {from.id(), number};
  call.part.collective = CollectiveId(message.collective());
  call.part.operation = OperationId(message.operation());
  call.part.rank = Rank(message.rank());
  call.part.reduction = reduction_of(message);
  call.part.group_size = message.group_size();
  call.part.call = group_call_from_bits(static_cast<std::uint16_t>(message.call() & 0xffffU));
  call.part.is_root = message.is_root();
  call.part.timeout = controller::bounded(from_nanoseconds(message.timeout_nanoseconds()));
  call.tenant = from.tenant;
  call.input_bytes = message.input_bytes();
  call.output_bytes = message.output_bytes();
  call.last_progress = steady_clock().now();
  call.deadline = call.last_progress + call.part.timeout;
  if (const Status usable = check_post(from, call); !usable.is_ok()) {
    v1::GatewayStatus outcome;
    put_status(usable, outcome);
    from.send(MessageType::kOutcome, number, outcome);
    return {};
  }
  ++member.calls;
  waiting_.push_back(call.id);
  const CallId id = call.id;
  calls_.emplace(id, std::move(call));
  admit_waiting();
  return {};
}

Status GatewayCore::check_post(const Attachment& from, Call& call) {
  if (is_stopping_) {
    return unavailable(fmt::format("the gateway of node \"{}\" was stopped", host_.name()));
  }
  const MemberOperation& part = call.part;
  Status usable = groups_.claim(part.collective, part.operation, part.rank, from.id(), from.describe());
  // That another local rank has left, members on other nodes do not know yet.
  const bool concerns_others = usable.is_ok() || usable.code() == StatusCode::kUnavailable;
  if (usable.is_ok()) {
    const GroupCollective& collective = groups_.find(part.collective)->collectives.at(part.collective);
    call.stays_here = groups_.stays_here(part.collective);
    call.is_output_copied = from.is_shared && collective.op == CollectiveOp::kAllReduce && !call.stays_here;
    usable = check_call(from, collective, call);
  }
  // The others would wait for this member until their time is over.
  if (!usable.is_ok() && concerns_others) end_operation(part.collective, part.operation, usable);
  return usable;
}

// What the node relies on, and what there is room for.
Status GatewayCore::check_call(const Attachment& from, const GroupCollective& collective,
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
  if (members_.at(from.id()).calls >= options_.max_operations) {
    return resource_exhausted(
        fmt::format("{} has {} operations under way, as many as max_operations of the "
                    "gateway of node \"{}\" allows; wait for some",
                    from.describe(), options_.max_operations, host_.name()));
  }
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 60U;
  if (call.input_bytes > kLargest || call.output_bytes > kLargest) {
    return invalid_argument(fmt::format("{}: an operation of impossible size", from.describe()));
  }
  SQUARE_RETURN_IF_ERROR(budget_.check(call.tenant, call.bytes()));
  return check_siblings(call);
}

// All local members of an operation need their room at the same time.
Status GatewayCore::check_siblings(const Call& call) const {
  std::uint64_t all = call.bytes();
  for (const CallId id : calls_of(call.part.collective, call.part.operation)) all += calls_.at(id).bytes();
  return budget_.check(call.tenant, all).with_context("all ranks of this node together");
}

void GatewayCore::admit_waiting() {
  // Whoever waits for its tenant's room lets others pass; whoever waits for the gateway's does not.
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    const auto found = calls_.find(*place);
    if (found == calls_.end()) {
      place = waiting_.erase(place);
      continue;
    }
    const auto answer = budget_.take(found->second.tenant, found->second.bytes());
    if (answer == StagingBudget::Answer::kAllIsFull) return;
    if (answer == StagingBudget::Answer::kTenantIsFull) {
      ++place;
      continue;
    }
    place = waiting_.erase(place);
    if (!admit(found->second)) return admit_waiting();  // it ended others, perhaps
  }
}

// False if it had to be ended.
bool GatewayCore::admit(Call& call) {
  call.state = Call::State::kAdmitted;
  call.last_progress = steady_clock().now();
  Attachment* from = find(call.id.attachment);
  if (!from->is_shared || call.bytes() == 0) {
    call.staging = make_copies(call);
    if (!call.staging) {
      end_operation(call.part.collective, call.part.operation, no_memory(call));
      return false;
    }
  }
  if (call.staging && call.input_bytes == 0) {
    run(call);
  } else {
    from->send(MessageType::kAdmitted, call.id.number);
  }
  return true;
}

Status GatewayCore::staged(Attachment& from, std::uint64_t number, const v1::GatewayStaged& where) {
  const auto found = calls_.find({from.id(), number});
  if (found == calls_.end()) return {};  // has ended meanwhile
  Call& call = found->second;
  if (!from.is_shared || call.state != Call::State::kAdmitted || call.staging) {
    return invalid_argument(fmt::format("operation {} has its memory already", number));
  }
  const auto staging = std::make_shared<Staging>();
  SQUARE_RETURN_IF_ERROR(open_segments(from, where, call, *staging));
  if (call.is_output_copied) {
    staging->output_copy = make_copy(call.output_bytes);
    staging->output = {staging->output_copy.get(), call.output_bytes};
    if (!staging->output_copy) {
      end_operation(call.part.collective, call.part.operation, no_memory(call));
      return {};
    }
  }
  call.staging = staging;
  run(call);
  return {};
}

Status GatewayCore::open_segments(const Attachment& from, const v1::GatewayStaged& where, const Call& call,
                                  Staging& staging) {
  const auto place_of = [&](const v1::GatewaySegment& segment) {
    return SegmentPlace{from.process, segment.descriptor(), segment.nonce()};
  };
  if (call.input_bytes > 0) {
    const SegmentPlace place = place_of(where.input());
    if (call.stays_here) {
      SQUARE_ASSIGN_OR_RETURN(staging.input_segment, segments_.open(from.id(), place, call.input_bytes));
    } else {
      // A new file for each operation: nothing to keep.
      SQUARE_ASSIGN_OR_RETURN(const SegmentFile file,
                              open_segment(place, call.input_bytes, SegmentUse::kSealed));
      SQUARE_ASSIGN_OR_RETURN(Mapping mapping, map_segment(file, call.input_bytes, SegmentUse::kSealed));
      staging.input_segment = std::make_shared<const Mapping>(std::move(mapping));
    }
    staging.input = staging.input_segment->data().first(call.input_bytes);
  }
  if (call.output_bytes > 0) {
    SQUARE_ASSIGN_OR_RETURN(staging.output_segment,
                            segments_.open(from.id(), place_of(where.output()), call.output_bytes));
    staging.output = staging.output_segment->data().first(call.output_bytes);
  }
  return {};
}

Status GatewayCore::no_memory(const Call& call) const {
  return resource_exhausted(
      fmt::format("the gateway of node \"{}\" has no memory for {} bytes", host_.name(), call.bytes()));
}

Result<ChunkTarget> GatewayCore::place_chunk(Attachment& from, const Header& header) {
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

void GatewayCore::took_chunk(Attachment& from, const Header& header) {
  const auto found = calls_.find({from.id(), header.number});
  if (found == calls_.end() || found->second.state != Call::State::kAdmitted) return;
  Call& call = found->second;
  call.received_bytes += header.body_bytes;
  call.last_progress = steady_clock().now();
  if (call.received_bytes == call.input_bytes) run(call);
}

std::function<void(Status)> GatewayCore::done_callback(const Call& call) {
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

void GatewayCore::run(Call& call) {
  call.state = Call::State::kRunning;
  MemberOperation operation = call.part;
  operation.input = call.staging->input;
  operation.output = call.staging->output;
  operation.timeout = std::max(call.deadline - steady_clock().now(), Duration(std::chrono::milliseconds(1)));
  operation.done = done_callback(call);
  host_.post(std::move(operation));
}

void GatewayCore::done(CallId id, Status outcome) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  Attachment* to = find(id.attachment);
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

void GatewayCore::streamed(Attachment& from, std::uint64_t number) {
  finish({from.id(), number}, Status::ok());
}

void GatewayCore::finish(CallId id, Status outcome) {
  if (!calls_.contains(id)) return;
  if (Attachment* to = find(id.attachment)) {
    v1::GatewayStatus message;
    put_status(outcome, message);
    to->send(MessageType::kOutcome, id.number, message);
  }
  erase(id);
  admit_waiting();
  finish_stop_if_quiet();
}

void GatewayCore::erase(CallId id) {
  const auto found = calls_.find(id);
  if (found->second.state != Call::State::kWaiting) {
    budget_.give_back(found->second.tenant, found->second.bytes());
  }
  calls_.erase(found);
  const auto member = members_.find(id.attachment);
  if (member != members_.end()) --member->second.calls;
}

std::vector<CallId> GatewayCore::calls_of(CollectiveId collective, OperationId operation) const {
  std::vector<CallId> found;
  for (const auto& [id, call] : calls_) {
    if (call.part.collective == collective && call.part.operation == operation) found.push_back(id);
  }
  return found;
}

void GatewayCore::cancel(Attachment& from, std::uint64_t number) {
  const auto found = calls_.find({from.id(), number});
  if (found == calls_.end() || found->second.state == Call::State::kReturning) return;
  const MemberOperation& part = found->second.part;
  end_operation(part.collective, part.operation,
                cancelled(fmt::format("{}, rank {} on node \"{}\", cancelled the operation", from.describe(),
                                      part.rank.value(), host_.name())));
}

void GatewayCore::fail(Attachment& from, const v1::GatewayFail& message) {
  const CollectiveId collective(message.collective());
  const Group* group = groups_.find(collective);
  const Status cause = status_of(message.cause());
  if (group == nullptr || !group->attachments.contains(from.id()) || cause.is_ok()) return;
  end_operation(collective, OperationId(message.operation()), cause.with_context(from.describe()));
}

void GatewayCore::watch(Attachment& from, std::uint64_t number, const v1::GatewayWatch& message) {
  const CollectiveId collective(message.collective());
  const Group* group = groups_.find(collective);
  Member& member = members_.at(from.id());
  ++member.watches;
  if (group == nullptr || !group->attachments.contains(from.id())) {
    return answer_watch(from.id(), number,
                        permission_denied(fmt::format("{} has not registered the group of collective {}",
                                                      from.describe(), collective.value())));
  }
  if (member.watches > kMaxWatchesOfOne) {
    return answer_watch(from.id(), number,
                        resource_exhausted(fmt::format("{} waits to hear of {} operations already",
                                                       from.describe(), kMaxWatchesOfOne)));
  }
  host_.watch(collective, OperationId(message.operation()),
              controller::bounded(from_nanoseconds(message.timeout_nanoseconds())),
              [loop = std::weak_ptr(loop_), weak = weak_from_this(), id = from.id(), number](Status outcome) {
                if (const auto alive = loop.lock()) {
                  alive->post([weak, id, number, outcome = std::move(outcome)] {
                    if (const auto self = weak.lock()) self->answer_watch(id, number, outcome);
                  });
                }
              });
}

void GatewayCore::answer_watch(AttachmentId attachment, std::uint64_t number, const Status& outcome) {
  Attachment* to = find(attachment);
  if (to == nullptr) return;
  --members_.at(attachment).watches;
  v1::GatewayStatus message;
  put_status(outcome, message);
  to->send(MessageType::kArrived, number, message);
}

void GatewayCore::end_operation(CollectiveId collective, OperationId operation, const Status& cause) {
  Group* group = groups_.find(collective);
  if (group != nullptr && !group->failure) group->failure = {cause, collective, operation};
  host_.fail(collective, operation, cause);
  for (const CallId id : calls_of(collective, operation)) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    const Call::State state = found->second.state;
    // What the node has ends with it.
    if (state == Call::State::kWaiting || state == Call::State::kAdmitted) finish(id, cause);
  }
}

void GatewayCore::end_late_calls() {
  const TimePoint now = steady_clock().now();
  std::vector<std::pair<CallId, Status>> late;
  for (const auto& [id, call] : calls_) {
    if (call.state == Call::State::kWaiting && now >= call.deadline) {
      late.emplace_back(id, deadline_exceeded(fmt::format(
                                "rank {} on node \"{}\" timed out after {:.1f} s: no room at the gateway; {}",
                                call.part.rank.value(), host_.name(), to_seconds(call.part.timeout),
                                budget_.describe(call.tenant))));
    } else if (call.state == Call::State::kAdmitted &&
               (now >= call.deadline || now - call.last_progress > kMaxInputPause)) {
      late.emplace_back(
          id, deadline_exceeded(fmt::format(
                  "rank {} on node \"{}\" gave {} of {} bytes of its input to the gateway, and no more",
                  call.part.rank.value(), host_.name(), call.received_bytes, call.input_bytes)));
    }
  }
  for (const auto& [id, cause] : late) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    end_operation(found->second.part.collective, found->second.part.operation, cause);
  }
}

}  // namespace square::gateway
