#include "gateway/call.h"

#include <algorithm>

#include "base/check.h"
#include "controller/protocol.h"
#include "gateway/messages.h"
#include "square/clock.h"

namespace square::gateway {
namespace {

// What no byte holds is as unknown as the last one that does.
constexpr std::uint32_t kUnknown = 255;

ElementType element_type_of(std::uint32_t value) {
  return static_cast<ElementType>(std::min(value, kUnknown));
}

Reduction reduction_of(const v1::GatewayPost& message) {
  return {element_type_of(message.element_type()),
          static_cast<ReduceOp>(std::min(message.reduce_op(), kUnknown))};
}

}  // namespace

Call call_of(CallId id, const v1::GatewayPost& message) {
  Call call;
  call.id = id;
  call.part.collective = CollectiveId(message.collective());
  call.part.operation = OperationId(message.operation());
  call.part.rank = Rank(message.rank());
  call.part.reduction = reduction_of(message);
  call.part.elements = element_type_of(message.elements());
  call.part.group_size = message.group_size();
  call.part.call = group_call_from_bits(static_cast<std::uint16_t>(message.call() & 0xffffU));
  if (message.call_root() > 0) call.part.call_root = Rank(message.call_root() - 1);
  call.part.is_root = message.is_root();
  call.part.timeout = controller::bounded(from_nanoseconds(message.timeout_nanoseconds()));
  call.input_bytes = message.input_bytes();
  call.output_bytes = message.output_bytes();
  call.last_progress = steady_clock().now();
  call.deadline = call.last_progress + call.part.timeout;
  return call;
}

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

Status open_segments(SegmentCache& segments, const Attachment& from, StagedMemory where, const Call& call,
                     Staging& staging) {
  if (call.input_bytes > 0) {
    if (call.stays_here) {
      SQUARE_ASSIGN_OR_RETURN(staging.input_segment,
                              segments.open(from.id(), std::move(where.input), call.input_bytes));
    } else {
      // A new file for each operation: nothing to keep.
      SQUARE_ASSIGN_OR_RETURN(const SegmentFile file,
                              open_segment(std::move(where.input), call.input_bytes, SegmentUse::kSealed));
      SQUARE_ASSIGN_OR_RETURN(Mapping mapping, map_segment(file, call.input_bytes, SegmentUse::kSealed));
      staging.input_segment = std::make_shared<const Mapping>(std::move(mapping));
    }
    staging.input = staging.input_segment->data().first(call.input_bytes);
  }
  if (call.output_bytes > 0) {
    SQUARE_ASSIGN_OR_RETURN(staging.output_segment,
                            segments.open(from.id(), std::move(where.output), call.output_bytes));
    staging.output = staging.output_segment->data().first(call.output_bytes);
  }
  return {};
}

}  // namespace square::gateway
