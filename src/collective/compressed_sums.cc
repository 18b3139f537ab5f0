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

void CompressedRun::begin(CompositeRun& run) {
  run_ = &run;
  report_.calls = 1;
  report_.bytes_before = sum_.input.size();
  called_ = {run.call(), sum_.reduction, sum_.input.size(), static_cast<std::uint32_t>(ranks_),
             sum_.compression};
  exchange();
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

Status CompressedRun::compare(std::span<const std::byte> message, std::size_t from) const {
  return compare_calls(
      {fmt::format("rank {}", from), decode_call_description(message.first<kCallDescriptionBytes>())},
      {fmt::format("rank {}", self_.value()), called_});
}

void Bfloat16Run::exchange() {
  const auto encode = [this] {
    halves_ = Scratch(count() * 2);
    const std::span<std::byte> halves = halves_.bytes();
    report_sent(halves.size(), kernels().to_bfloat16(halves.data(), sum_.input.data(), count()));
    return Status::ok();
  };
  run_->work(sum_.input.size(), encode, [this] { add_halves(); });
}

void Bfloat16Run::add_halves() {
  Part part;
  part.collective.op = CollectiveOp::kAllReduce;
  part.collective.channel = kCompressedChannel;
  part.call.input = halves_.bytes();
  part.call.output = halves_.bytes();
  part.call.reduction = {ElementType::kBfloat16, sum_.reduction.op};
  const auto decode = [this] {
    kernels().from_bfloat16(sum_.output.data(), halves_.bytes().data(), count());
    return Status::ok();
  };
  run_->begin(std::move(part), [this, decode] {
    run_->work(sum_.output.size(), decode, [this] { run_->finish(Status::ok()); });
  });
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

void Int8Run::exchange() {
  begin_receiving();
  go_on();
}

// Before anything is encoded: what others send early goes where it belongs.
void Int8Run::begin_receiving() {
  const std::size_t own_bytes = message_bytes(peers_[self_.index()].shard);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (is_self(rank)) continue;
    Peer& peer = peers_[rank];
    const Rank from(static_cast<std::uint32_t>(rank));
    peer.taken = Scratch(own_bytes);
    peer.sums = Scratch(message_bytes(peer.shard));
    run_->begin(unicast_destination(self_, from, peer.taken.bytes(), kCompressedChannel), [this, &peer] {
      peer.has_given = true;
      go_on();
    });
    Part part = multicast_destination(from, peer.sums.bytes());
    part.collective.channel = kCompressedChannel;
    run_->begin(std::move(part), [this, &peer] {
      peer.has_added = true;
      go_on();
    });
  }
}

void Int8Run::work_on(const Peer& peer, std::function<Status()> task, std::function<void()> then) {
  is_at_work_ = true;
  run_->work(peer.shard.count * sizeof(float), std::move(task), [this, then = std::move(then)] {
    is_at_work_ = false;
    then();
    go_on();
  });
}

void Int8Run::go_on() {
  if (is_at_work_) return;
  const Peer& own = peers_[self_.index()];
  if (encoded_ < ranks_) {
    // Beginning with the next rank: the first is on its way while others are encoded, and not everybody sends
    // to one rank first.
    const std::size_t rank = (self_.index() + ++encoded_) % ranks_;
    return work_on(
        peers_[rank], [this, rank] { return encode(peers_[rank]); }, [this, rank] { send_shard(rank); });
  }
  if (added_ < ranks_) {
    const std::size_t rank = added_;
    if (!is_self(rank) && !peers_[rank].has_given) return;
    return work_on(
        own, [this, rank] { return add_shard(rank); }, [this] { ++added_; });
  }
  if (!is_shard_finished_) {
    is_shard_finished_ = true;
    return work_on(
        own, [this] { return finish_shard(); }, [this] { send_sums(); });
  }
  if (decoded_ < ranks_) {
    const std::size_t rank = (self_.index() + decoded_) % ranks_;
    if (!is_self(rank) && !peers_[rank].has_added) return;
    return work_on(
        peers_[rank], [this, rank] { return decode_sums(rank); }, [this] { ++decoded_; });
  }
  run_->finish(Status::ok());
}

void Int8Run::send_shard(std::size_t rank) {
  if (is_self(rank)) return;
  const Rank to(static_cast<std::uint32_t>(rank));
  run_->begin(unicast_source(self_, to, peers_[rank].given.bytes(), kCompressedChannel));
}

Status Int8Run::encode(Peer& peer) {
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
  return Status::ok();
}

// The input's shard is encoded already, so its place in the output may be written.
Status Int8Run::add_shard(std::size_t rank) {
  const compression::Shard shard = peers_[self_.index()].shard;
  const std::span<std::byte> sums =
      sum_.output.subspan(shard.first * sizeof(float), shard.count * sizeof(float));
  const Peer& peer = peers_[rank];
  const std::span<const std::byte> message = is_self(rank) ? peer.given.bytes() : peer.taken.bytes();
  if (!is_self(rank)) SQUARE_RETURN_IF_ERROR(compare(message, rank));
  const std::span<const std::byte> encoded = message.subspan(kCallDescriptionBytes);
  if (rank == 0) {
    compression::decode_int8(sums, encoded, layout(shard));
  } else {
    compression::add_int8(sums, encoded, layout(shard));
  }
  return Status::ok();
}

Status Int8Run::finish_shard() {
  Peer& own = peers_[self_.index()];
  own.sums = Scratch(message_bytes(own.shard));
  const std::span<std::byte> encoded = begin_message(own.sums.bytes());
  const std::span<std::byte> sums =
      sum_.output.subspan(own.shard.first * sizeof(float), own.shard.count * sizeof(float));
  if (is_average()) kernels().divide(sums.data(), own.shard.count, static_cast<float>(ranks_));
  compression::encode_int8(encoded, sums, layout(own.shard));
  return Status::ok();
}

void Int8Run::send_sums() {
  if (ranks_ > 1) {
    Part part = multicast_source(self_, peers_[self_.index()].sums.bytes());
    part.collective.channel = kCompressedChannel;
    run_->begin(std::move(part));
  }
  if (has_residual())
    work_on(
        peers_[self_.index()], [this] { return keep_rest(); }, [] {});
}

// What the second rounding leaves out goes into the residual of the rank that rounded. There it stands for a
// summand, of which an average is only a part.
Status Int8Run::keep_rest() {
  const Peer& own = peers_[self_.index()];
  const std::span<const std::byte> encoded = own.sums.bytes().subspan(kCallDescriptionBytes);
  const std::span<std::byte> sums =
      sum_.output.subspan(own.shard.first * sizeof(float), own.shard.count * sizeof(float));
  compression::subtract_int8(sums, encoded, layout(own.shard));
  const std::span<std::byte> residual =
      std::as_writable_bytes(sum_.residual.subspan(own.shard.first, own.shard.count));
  kernels().add_scaled(residual.data(), sums.data(), own.shard.count,
                       is_average() ? static_cast<float>(ranks_) : 1.0F);
  return Status::ok();
}

Status Int8Run::decode_sums(std::size_t rank) {
  const Peer& peer = peers_[rank];
  if (!is_self(rank)) SQUARE_RETURN_IF_ERROR(compare(peer.sums.bytes(), rank));
  const auto sums = sum_.output.subspan(peer.shard.first * sizeof(float), peer.shard.count * sizeof(float));
  compression::decode_int8(sums, peer.sums.bytes().subspan(kCallDescriptionBytes), layout(peer.shard));
  return Status::ok();
}

void TopKRun::exchange() {
  begin_receiving(compression::top_k_count(count(), sum_.compression.fraction));
  run_->work(
      sum_.input.size(), [this] { return encode(); }, [this] { send(); });
}

void TopKRun::begin_receiving(std::size_t chosen) {
  has_come_.resize(ranks_);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    messages_.emplace_back(kCallDescriptionBytes + chosen * compression::kTopKBytes);
    if (is_self(rank)) continue;
    Part part = multicast_destination(Rank(static_cast<std::uint32_t>(rank)), messages_[rank].bytes());
    part.collective.channel = kCompressedChannel;
    run_->begin(std::move(part), [this, rank] {
      has_come_[rank] = true;
      go_on();
    });
  }
}

Status TopKRun::encode() {
  const std::span<std::byte> encoded = begin_message(messages_[self_.index()].bytes());
  if (has_residual()) {
    const std::span<std::byte> residual = add_to_residual(0, count());
    report_sent(encoded.size(), compression::encode_top_k(encoded, residual));
    compression::clear_top_k(residual, encoded);
  } else {
    report_sent(encoded.size(), compression::encode_top_k(encoded, sum_.input));
  }
  return Status::ok();
}

void TopKRun::send() {
  if (ranks_ > 1) {
    Part part = multicast_source(self_, messages_[self_.index()].bytes());
    part.collective.channel = kCompressedChannel;
    run_->begin(std::move(part));
  }
  has_come_[self_.index()] = true;
  go_on();
}

// Nothing before this member's own is encoded: the output may be the input.
void TopKRun::go_on() {
  if (is_adding_ || !has_come_[self_.index()]) return;
  if (added_ == ranks_) return run_->finish(Status::ok());
  if (!has_come_[added_]) return;
  is_adding_ = true;
  const std::size_t bytes = added_ == 0 ? sum_.output.size() : messages_[added_].bytes().size();
  run_->work(
      bytes, [this] { return add_message(added_); },
      [this] {
        is_adding_ = false;
        ++added_;
        go_on();
      });
}

Status TopKRun::add_message(std::size_t rank) {
  const std::span<const std::byte> message = messages_[rank].bytes();
  if (!is_self(rank)) SQUARE_RETURN_IF_ERROR(compare(message, rank));
  if (rank == 0) std::ranges::fill(sum_.output, std::byte{0});
  const Status added = compression::add_top_k(sum_.output, message.subspan(kCallDescriptionBytes));
  SQUARE_RETURN_IF_ERROR(added.with_context(fmt::format("from rank {}", rank)));
  if (rank + 1 == ranks_ && is_average())
    kernels().divide(sum_.output.data(), count(), static_cast<float>(ranks_));
  return Status::ok();
}

}  // namespace square
