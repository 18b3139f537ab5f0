#include "node/sums/sum_shape.h"

#include <fmt/format.h>

#include "base/check.h"
#include "node/multicast/receiver.h"
#include "node/sums/sum_messages.h"

namespace square {

SumShape shape_of(const FrameHeader& header) {
  return {header.total_bytes,
          header.block_bytes,
          {static_cast<ElementType>(header.element_type), static_cast<ReduceOp>(header.reduce_op)},
          header.layout};
}

Status check(const SumShape& shape) {
  SQUARE_RETURN_IF_ERROR(Receiver::check({shape.total_bytes, shape.block_bytes}));
  SQUARE_RETURN_IF_ERROR(check_reduction(shape.reduction));
  const std::size_t element = element_bytes(shape.reduction.type);
  if (shape.total_bytes % element != 0 || shape.block_bytes % kBlockGranuleBytes != 0) {
    return data_loss(fmt::format("sums of {} bytes in blocks of {} do not end where elements of {} bytes do",
                                 shape.total_bytes, shape.block_bytes, element));
  }
  return Status::ok();
}

std::size_t SumShape::bytes_of(std::size_t block) const {
  const std::uint64_t offset = std::uint64_t{block} * block_bytes;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(block_bytes, total_bytes - std::min(total_bytes, offset)));
}

Status SumShape::check_same(const SumShape& other) const {
  if (other.reduction == reduction && other.total_bytes == total_bytes) return Status::ok();
  return invalid_argument(
      fmt::format("{} are added there, {} here", to_string(other.description()), to_string(description())));
}

Status SumShape::check_block(const FrameHeader& header, std::size_t payload_bytes) const {
  SQUARE_RETURN_IF_ERROR(check_same(shape_of(header)));
  const std::uint64_t block = header.offset_bytes / block_bytes;
  if (header.block_bytes != block_bytes || header.offset_bytes % block_bytes != 0 || block >= block_count() ||
      payload_bytes != bytes_of(block)) {
    return data_loss(fmt::format("a block of {} bytes at {} does not fit a sum of {} bytes", payload_bytes,
                                 header.offset_bytes, total_bytes));
  }
  return Status::ok();
}

SumAge age_of(const FrameHeader& header) {
  return {header.layout, attempt_from_wire(header.attempt).generation, header.epoch};
}

FrameHeader SumLabel::header(FrameType type, const StreamKey& stream) const {
  FrameHeader header;
  header.type = type;
  set_stream(header, stream);
  header.operation = operation;
  header.incarnation = incarnation;
  header.attempt = to_wire({generation, 0});
  header.layout = shape.layout;
  header.call = call;
  header.element_type = static_cast<std::uint8_t>(shape.reduction.type);
  header.reduce_op = static_cast<std::uint8_t>(shape.reduction.op);
  header.total_bytes = shape.total_bytes;
  header.block_bytes = shape.block_bytes;
  return header;
}

FrameHeader SumLabel::block_header(const StreamKey& stream, std::size_t block, std::uint16_t retry) const {
  FrameHeader header = this->header(FrameType::kBlock, stream);
  header.attempt = to_wire({generation, retry});
  header.offset_bytes = shape.offset_of(block);
  return header;
}

}  // namespace square
