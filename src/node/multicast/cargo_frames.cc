#include "node/multicast/cargo_frames.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coding/codes/float_scale.h"
#include "node/codes/coded_payload.h"

namespace square {
namespace {

float largest_magnitude(const Buffer& floats) {
  float largest = 0;
  for (const Buffer::Slice& slice : floats.slices())
    largest = std::max(largest, square::largest_magnitude({slice.data, slice.size_bytes}));
  return largest;
}

}  // namespace

CargoFrames::CargoFrames(What what) : what_(std::move(what)) {
  if (!what_.sealing.key) return;
  const BlockShape shape{what_.data.size_bytes(), static_cast<std::uint32_t>(what_.block_bytes), what_.layout,
                         true};
  cipher_ = std::make_unique<const trust::BlockCipher>(
      *what_.sealing.key,
      sealed_cargo(what_.sealing, what_.incarnation, what_.session, what_.operation, shape),
      trust::BlockCipher::draw_salt());
}

std::size_t CargoFrames::block_count() const {
  return std::max<std::size_t>(1, (what_.data.size_bytes() + what_.block_bytes - 1) / what_.block_bytes);
}

FrameHeader CargoFrames::header(const LocalStream& local, FrameType type, std::uint64_t sequence) const {
  FrameHeader header;
  header.type = type;
  header.is_sealed = cipher_ != nullptr;
  set_stream(header, local.key);
  header.operation = what_.operation;
  header.incarnation = what_.incarnation;
  header.call = what_.call;
  header.total_bytes = what_.data.size_bytes();
  header.block_bytes = static_cast<std::uint32_t>(what_.block_bytes);
  header.layout = what_.layout;
  header.stream_sequence = sequence;
  return header;
}

Buffer CargoFrames::data_of(std::size_t block) const {
  const std::size_t offset = block * what_.block_bytes;
  return what_.data.range(offset, std::min(what_.block_bytes, what_.data.size_bytes() - offset));
}

Buffer CargoFrames::payload_of(std::size_t block) const {
  if (block >= block_count()) return {};
  return cipher_ ? cipher_->seal(block, data_of(block)) : data_of(block);
}

Buffer CargoFrames::sum_of(const LocalStream& local, std::size_t first, bool are_floats) const {
  const auto [part, code] = local.coded_as(are_floats);
  std::vector<double> factors;
  std::vector<CodedPayload> blocks;
  for (std::uint32_t b = 0; b < code->blocks; ++b) {
    if (part->row[b] == 0) continue;
    factors.push_back(part->row[b]);
    blocks.push_back(*payload_of_frame(payload_of(first + b), *code, b));
  }
  return to_bytes(*sum_of_payloads(*code, factors, blocks), *code);
}

bool CargoFrames::can_be_floats(const PlanCode& code, std::size_t first) const {
  if (cipher_) return false;  // sealed blocks are no floats
  if (code.field != FieldKind::kFloat32 || what_.elements != ElementType::kFloat32) return false;
  if (what_.data.size_bytes() % sizeof(float) != 0) return false;
  FloatScale scale;
  for (std::size_t block = first; block < std::min(first + code.blocks, block_count()); ++block)
    scale.include(largest_magnitude(data_of(block)));
  return scale.keeps_digits();
}

// One checksum for all children.
Frame CargoFrames::sent_often(const LocalStream& local, FrameHeader header, Buffer payload) const {
  if (local.children.size() > 1) payload.remember_checksum();
  Frame frame{header, std::move(payload)};
  if (what_.auditor != nullptr && what_.auditor->is_suspect(what_.session)) {
    frame.header.is_audited = true;
    what_.auditor->note(frame, "");
  }
  return frame;
}

Frame CargoFrames::block(const LocalStream& local, std::size_t block, std::uint64_t sequence) const {
  FrameHeader made = header(local, FrameType::kBlock, sequence);
  made.offset_bytes = block * what_.block_bytes;
  return sent_often(local, made, payload_of(block));
}

Frame CargoFrames::of_generation(const LocalStream& local, std::size_t first, std::uint64_t sequence,
                                 bool are_floats) const {
  FrameHeader made = header(local, FrameType::kBlock, sequence);
  if (are_floats) made.element_type = static_cast<std::uint8_t>(ElementType::kFloat32);
  made.offset_bytes = (first + local.block.value_or(0)) * what_.block_bytes;
  return sent_often(local, made,
                    local.block ? payload_of(first + *local.block) : sum_of(local, first, are_floats));
}

Frame CargoFrames::probe(const LocalStream& local, std::uint64_t sequence) const {
  return {header(local, FrameType::kProbe, sequence), {}};
}

}  // namespace square
