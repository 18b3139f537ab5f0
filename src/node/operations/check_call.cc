#include "node/operations/check_call.h"

#include <fmt/format.h>

#include "base/check.h"
#include "node/messages/call_description.h"

namespace square {

namespace {

// What frames say of it, too.
CallDescription description_of(const MemberOperation& call) {
  return {{}, call.reduction, call.input.size(), 0, {}};
}

Caller caller_of(const MemberOperation& call) {
  CallDescription called = description_of(call);
  called.group_size = call.group_size;
  return {fmt::format("rank {}", call.rank.value()), called};
}

}  // namespace

std::string describe(const MemberOperation& call) { return to_string(description_of(call)); }

Status check_call(const MemberOperation& call, const InstalledCollective& collective) {
  const CollectiveOp op = collective.planned().op;
  if (op == CollectiveOp::kBroadcast) return Status::ok();
  if (op != CollectiveOp::kReduce && op != CollectiveOp::kAllReduce) {
    return unimplemented(fmt::format("nodes do not run {} yet", to_string(op)));
  }
  for (const PlanSession& session : collective.sessions()) {
    if (session.kind == SessionKind::kUnicast) {
      return unimplemented("nodes do not run ring all-reduces yet: plan it with algorithm \"planned\"");
    }
  }
  SQUARE_RETURN_IF_ERROR(check_reduction(call.reduction).with_context(to_string(op)));
  if (call.reduction.op == ReduceOp::kAverage && call.group_size == 0) {
    return invalid_argument(
        fmt::format("rank {}: an average needs group_size, the number of members", call.rank.value()));
  }
  const std::size_t element = element_bytes(call.reduction.type);
  if (call.input.size() % element != 0) {
    return invalid_argument(fmt::format("rank {}: {} bytes are not a number of {}, which have {} bytes each",
                                        call.rank.value(), call.input.size(), to_string(call.reduction.type),
                                        element));
  }
  const bool has_result = op == CollectiveOp::kAllReduce || call.is_root;
  if (has_result && call.output.size() != call.input.size()) {
    return invalid_argument(fmt::format("rank {}: the output has {} bytes, the input {}", call.rank.value(),
                                        call.output.size(), call.input.size()));
  }
  return Status::ok();
}

Status check_alike(const MemberOperation& call, const MemberOperation& other) {
  return compare_calls(caller_of(call), caller_of(other));
}

}  // namespace square
