#include "node/multicast/cargo_frames.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "node/codes/coded_payload.h"

namespace square {

std::size_t CargoFrames::block_count() const {
  return std::max<std::size_t>(1, (what_.data.size_bytes() + what_.block_bytes - 1) / what_.block_bytes);
}

FrameHeader CargoFrames::header(const LocalStream& local, FrameType type, std::uint64_t sequence) const {
  FrameHeader header;
  header.type = type;
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
  if (block >= block_count()) return {};
  const std::size_t offset = block * what_.block_bytes;
  return what_.data.range(offset, std::min(what_.block_bytes, what_.data.size_bytes() - offset));
}

Buffer CargoFrames::sum_of(const LocalStream& local, std::size_t first) const {
  std::vector<double> factors;
  std::vector<CodedPayload> blocks;
  for (std::uint32_t b = 0; b < local.code->blocks; ++b) {
    if (local.coded->row[b] == 0) continue;
    factors.push_back(local.coded->row[b]);
    blocks.push_back(*payload_of_frame(data_of(first + b), *local.code, b));
  }
  return to_bytes(*sum_of_payloads(*local.code, factors, blocks), *local.code);
}

// One checksum for all children.
Frame CargoFrames::sent_often(const LocalStream& local, FrameHeader header, Buffer payload) {
  if (local.children.size() > 1) payload.remember_checksum();
  return {header, std::move(payload)};
}

Frame CargoFrames::block(const LocalStream& local, std::size_t block, std::uint64_t sequence) const {
  FrameHeader made = header(local, FrameType::kBlock, sequence);
  made.offset_bytes = block * what_.block_bytes;
  return sent_often(local, made, data_of(block));
}

Frame CargoFrames::of_generation(const LocalStream& local, std::size_t first, std::uint64_t sequence) const {
  if (local.block) return block(local, first + *local.block, sequence);
  FrameHeader made = header(local, FrameType::kBlock, sequence);
  made.offset_bytes = first * what_.block_bytes;
  return sent_often(local, made, sum_of(local, first));
}

Frame CargoFrames::probe(const LocalStream& local, std::uint64_t sequence) const {
  return {header(local, FrameType::kProbe, sequence), {}};
}

}  // namespace square
