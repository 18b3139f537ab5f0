#include "collective/compressed_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "coding/compression/top_k.h"

namespace square {
namespace {

using compression::kernels;
using compression::Loss;

}  // namespace

Status CompressedRun::run(CompositeRun& run) {
  report_.calls = 1;
  report_.bytes_before = sum_.input.size();
  called_ = {run.call(), sum_.reduction, sum_.input.size(), static_cast<std::uint32_t>(ranks_),
             sum_.compression};
  return exchange(run);
}

std::span<std::byte> CompressedRun::add_to_residual(std::size_t first, std::size_t elements) const {
  const std::span<std::byte> residual = std::as_writable_bytes(sum_.residual.subspan(first, elements));
  kernels().add(residual.data(), sum_.input.data() + first * sizeof(float), elements);
  return residual;
}

void CompressedRun::report_sent(std::size_t bytes, const Loss& loss) {
  report_.bytes_after += bytes;
  report_.squared_norm += loss.squared_norm;
  report_.squared_error += loss.squared_error;
}

std::span<std::byte> CompressedRun::begin_message(std::span<std::byte> message) const {
  std::ranges::copy(encode(called_), message.begin());
  return message.subspan(kCallDescriptionBytes);
}

Status CompressedRun::receive(CompositeRun& run, const std::shared_ptr<Work>& step,
                              std::span<const std::byte> message, std::size_t from) const {
  SQUARE_RETURN_IF_ERROR(run.wait(step));
  return compare_calls(
      {fmt::format("rank {}", from), decode_call_description(message.first<kCallDescriptionBytes>())},
      {fmt::format("rank {}", self_.value()), called_});
}

Status Bfloat16Run::exchange(CompositeRun& run) {
  halves_ = Scratch(count() * 2);
  const std::span<std::byte> halves = halves_.bytes();
  report_sent(halves.size(), kernels().to_bfloat16(halves.data(), sum_.input.data(), count()));
  Part part;
  part.collective.op = CollectiveOp::kAllReduce;
  part.collective.channel = kCompressedChannel;
  part.call.input = halves;
  part.call.output = halves;
  part.call.reduction = {ElementType::kBfloat16, sum_.reduction.op};
  SQUARE_ASSIGN_OR_RETURN(const auto step, run.begin({std::move(part)}));
  SQUARE_RETURN_IF_ERROR(run.wait(step));
  kernels().from_bfloat16(sum_.output.data(), halves.data(), count());
  return Status::ok();
}

Int8Run::Int8Run(Rank self, std::size_t ranks, const CompressedSum& sum)
    : CompressedRun(self, ranks, sum), peers_(ranks) {
  for (std::size_t rank = 0; rank < ranks; ++rank)
    peers_[rank].shard = compression::shard_of({count(), sum.compression.block}, ranks, rank);
}

compression::Int8Layout Int8Run::layout(const compression::Shard& shard) const {
  return {shard.count, sum_.compression.block};
}

std::size_t Int8Run::message_bytes(const compression::Shard& shard) const {
  return kCallDescriptionBytes + layout(shard).encoded_bytes();
}

Status Int8Run::exchange(CompositeRun& run) {
  SQUARE_RETURN_IF_ERROR(begin_receiving(run));
  SQUARE_RETURN_IF_ERROR(send_shards(run));
  SQUARE_RETURN_IF_ERROR(add_shard(run));
  SQUARE_RETURN_IF_ERROR(finish_shard(run));
  return decode_sums(run);
}

// Before anything is encoded: what others send early goes where it belongs.
Status Int8Run::begin_receiving(CompositeRun& run) {
  const std::size_t own_bytes = message_bytes(peers_[self_.index()].shard);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (is_self(rank)) continue;
    Peer& peer = peers_[rank];
    const Rank from(static_cast<std::uint32_t>(rank));
    peer.taken = Scratch(own_bytes);
    peer.sums = Scratch(message_bytes(peer.shard));
    SQUARE_ASSIGN_OR_RETURN(
        peer.taking, run.begin({unicast_destination(self_, from, peer.taken.bytes(), kCompressedChannel)}));
    Part part = multicast_destination(from, peer.sums.bytes());
    part.collective.channel = kCompressedChannel;
    SQUARE_ASSIGN_OR_RETURN(peer.getting, run.begin({std::move(part)}));
  }
  return Status::ok();
}

// One after the other, beginning with the next rank: the first is on its way while others are encoded,
// and not everybody sends to one rank first.
Status Int8Run::send_shards(CompositeRun& run) {
  for (std::size_t i = 1; i <= ranks_; ++i) {
    SQUARE_RETURN_IF_ERROR(run.check());
    const std::size_t rank = (self_.index() + i) % ranks_;
    Peer& peer = peers_[rank];
    encode(peer);
    if (is_self(rank)) continue;
    const Rank to(static_cast<std::uint32_t>(rank));
    SQUARE_ASSIGN_OR_RETURN(const auto sending,
                            run.begin({unicast_source(self_, to, peer.given.bytes(), kCompressedChannel)}));
  }
  return Status::ok();
}

void Int8Run::encode(Peer& peer) {
  const auto [first, elements] = peer.shard;
  peer.given = Scratch(message_bytes(peer.shard));
  const std::span<std::byte> encoded = begin_message(peer.given.bytes());
  if (has_residual()) {
    const std::span<std::byte> residual = add_to_residual(first, elements);
    report_sent(encoded.size(), compression::encode_int8(encoded, residual, layout(peer.shard)));
    compression::subtract_int8(residual, encoded, layout(peer.shard));
  } else {
    const auto input = sum_.input.subspan(first * sizeof(float), elements * sizeof(float));
    report_sent(encoded.size(), compression::encode_int8(encoded, input, layout(peer.shard)));
  }
}

// The input's shard is encoded already, so its place in the output may be written.
Status Int8Run::add_shard(CompositeRun& run) {
  const compression::Shard shard = peers_[self_.index()].shard;
  const std::span<std::byte> sums =
      sum_.output.subspan(shard.first * sizeof(float), shard.count * sizeof(float));
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const Peer& peer = peers_[rank];
    const std::span<const std::byte> message = is_self(rank) ? peer.given.bytes() : peer.taken.bytes();
    if (!is_self(rank)) SQUARE_RETURN_IF_ERROR(receive(run, peer.taking, message, rank));
    const std::span<const std::byte> encoded = message.subspan(kCallDescriptionBytes);
    if (rank == 0) {
      compression::decode_int8(sums, encoded, layout(shard));
    } else {
      compression::add_int8(sums, encoded, layout(shard));
    }
  }
  if (is_average()) kernels().divide(sums.data(), shard.count, static_cast<float>(ranks_));
  return Status::ok();
}

// What the second rounding leaves out goes into the residual of who rounded. There it stands for a
// summand, of which an average is only a part.
Status Int8Run::finish_shard(CompositeRun& run) {
  Peer& own = peers_[self_.index()];
  own.sums = Scratch(message_bytes(own.shard));
  const std::span<std::byte> encoded = begin_message(own.sums.bytes());
  const std::span<std::byte> sums =
      sum_.output.subspan(own.shard.first * sizeof(float), own.shard.count * sizeof(float));
  compression::encode_int8(encoded, sums, layout(own.shard));
  if (ranks_ > 1) {
    Part part = multicast_source(self_, own.sums.bytes());
    part.collective.channel = kCompressedChannel;
    SQUARE_ASSIGN_OR_RETURN(const auto sending, run.begin({std::move(part)}));
  }
  if (!has_residual()) return Status::ok();
  compression::subtract_int8(sums, encoded, layout(own.shard));
  const std::span<std::byte> residual =
      std::as_writable_bytes(sum_.residual.subspan(own.shard.first, own.shard.count));
  kernels().add_scaled(residual.data(), sums.data(), own.shard.count,
                       is_average() ? static_cast<float>(ranks_) : 1.0F);
  return Status::ok();
}

Status Int8Run::decode_sums(CompositeRun& run) {
  for (std::size_t i = 0; i < ranks_; ++i) {
    const std::size_t rank = (self_.index() + i) % ranks_;
    const Peer& peer = peers_[rank];
    if (!is_self(rank)) SQUARE_RETURN_IF_ERROR(receive(run, peer.getting, peer.sums.bytes(), rank));
    const auto sums = sum_.output.subspan(peer.shard.first * sizeof(float), peer.shard.count * sizeof(float));
    compression::decode_int8(sums, peer.sums.bytes().subspan(kCallDescriptionBytes), layout(peer.shard));
  }
  return Status::ok();
}

Status TopKRun::exchange(CompositeRun& run) {
  SQUARE_RETURN_IF_ERROR(begin_receiving(run, compression::top_k_count(count(), sum_.compression.fraction)));
  SQUARE_RETURN_IF_ERROR(send(run));
  return add_all(run);
}

Status TopKRun::begin_receiving(CompositeRun& run, std::size_t chosen) {
  getting_.resize(ranks_);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    messages_.emplace_back(kCallDescriptionBytes + chosen * compression::kTopKBytes);
    if (is_self(rank)) continue;
    Part part = multicast_destination(Rank(static_cast<std::uint32_t>(rank)), messages_[rank].bytes());
    part.collective.channel = kCompressedChannel;
    SQUARE_ASSIGN_OR_RETURN(getting_[rank], run.begin({std::move(part)}));
  }
  return Status::ok();
}

Status TopKRun::send(CompositeRun& run) {
  const std::span<std::byte> message = messages_[self_.index()].bytes();
  const std::span<std::byte> encoded = begin_message(message);
  if (has_residual()) {
    const std::span<std::byte> residual = add_to_residual(0, count());
    report_sent(encoded.size(), compression::encode_top_k(encoded, residual));
    compression::clear_top_k(residual, encoded);
  } else {
    report_sent(encoded.size(), compression::encode_top_k(encoded, sum_.input));
  }
  if (ranks_ == 1) return Status::ok();
  Part part = multicast_source(self_, message);
  part.collective.channel = kCompressedChannel;
  return run.begin({std::move(part)}).status();
}

Status TopKRun::add_all(CompositeRun& run) {
  std::ranges::fill(sum_.output, std::byte{0});
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const std::span<const std::byte> message = messages_[rank].bytes();
    if (!is_self(rank)) SQUARE_RETURN_IF_ERROR(receive(run, getting_[rank], message, rank));
    const Status added = compression::add_top_k(sum_.output, message.subspan(kCallDescriptionBytes));
    SQUARE_RETURN_IF_ERROR(added.with_context(fmt::format("from rank {}", rank)));
  }
  if (is_average()) kernels().divide(sum_.output.data(), count(), static_cast<float>(ranks_));
  return Status::ok();
}

}  // namespace square
