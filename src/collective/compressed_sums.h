// What the composite thread does in one call of a compressed all-reduce: one class for each kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coding/compression/int8_blocks.h"
#include "coding/compression/kernels.h"
#include "collective/composite_thread.h"
#include "collective/compressed_all_reduce.h"
#include "node/messages/call_description.h"

namespace square {

// Bytes that are written before they are read.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t size) : size_(size), bytes_(new std::byte[size]) {}
  [[nodiscard]] std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> bytes_;  // NOLINT(modernize-avoid-c-arrays): not initialised
};

class CompressedRun {
 public:
  CompressedRun(Rank self, std::size_t ranks, const CompressedSum& sum)
      : self_(self), ranks_(ranks), sum_(sum) {}
  virtual ~CompressedRun() = default;
  CompressedRun(const CompressedRun&) = delete;
  CompressedRun& operator=(const CompressedRun&) = delete;

  // The body of the composite operation.
  Status run(CompositeRun& run);
  // Once run() is over.
  [[nodiscard]] CompressionReport report() const { return report_; }

 protected:
  virtual Status exchange(CompositeRun& run) = 0;
  [[nodiscard]] std::size_t count() const { return sum_.input.size() / sizeof(float); }
  [[nodiscard]] bool has_residual() const { return !sum_.residual.empty(); }
  [[nodiscard]] bool is_average() const { return sum_.reduction.op == ReduceOp::kAverage; }
  [[nodiscard]] bool is_self(std::size_t rank) const { return rank == self_.index(); }
  // The residual of these elements with the input added: what is to be sent.
  std::span<std::byte> add_to_residual(std::size_t first, std::size_t elements) const;
  void report_sent(std::size_t bytes, const compression::Loss& loss);
  // Writes what this member called to the front of `message` and returns what comes after it.
  [[nodiscard]] std::span<std::byte> begin_message(std::span<std::byte> message) const;
  // Waits for the message of another rank. What it says is compared.
  Status receive(CompositeRun& run, const std::shared_ptr<Work>& step, std::span<const std::byte> message,
                 std::size_t from) const;

  const Rank self_;
  const std::size_t ranks_;
  const CompressedSum sum_;
  CallDescription called_;  // in front of all that a member sends: whoever gets it compares
  CompressionReport report_;
};

// Converted, added by the planned all-reduce as bfloat16, converted back.
class Bfloat16Run final : public CompressedRun {
 public:
  using CompressedRun::CompressedRun;

 private:
  Status exchange(CompositeRun& run) override;
  Scratch halves_;
};

// Every rank adds one shard: quantised shards go to their ranks, sums come back quantised again. Every
// rank decodes the same bytes, its own shard's too.
class Int8Run final : public CompressedRun {
 public:
  Int8Run(Rank self, std::size_t ranks, const CompressedSum& sum);

 private:
  Status exchange(CompositeRun& run) override;
  struct Peer {
    compression::Shard shard;      // what this rank adds
    Scratch given;                 // this member's elements of it, encoded
    Scratch taken;                 // its elements of this member's shard, encoded
    Scratch sums;                  // the sums of its shard, encoded
    std::shared_ptr<Work> taking;  // steps under way
    std::shared_ptr<Work> getting;
  };

  [[nodiscard]] compression::Int8Layout layout(const compression::Shard& shard) const;
  [[nodiscard]] std::size_t message_bytes(const compression::Shard& shard) const;
  Status begin_receiving(CompositeRun& run);
  Status send_shards(CompositeRun& run);
  void encode(Peer& peer);
  Status add_shard(CompositeRun& run);
  Status finish_shard(CompositeRun& run);
  Status decode_sums(CompositeRun& run);

  std::vector<Peer> peers_;  // by rank, this member among them
};

// Every rank gets what every rank chose, and adds it in the order of ranks.
class TopKRun final : public CompressedRun {
 public:
  using CompressedRun::CompressedRun;

 private:
  Status exchange(CompositeRun& run) override;
  Status begin_receiving(CompositeRun& run, std::size_t chosen);
  Status send(CompositeRun& run);
  Status add_all(CompositeRun& run);

  std::vector<Scratch> messages_;               // by rank
  std::vector<std::shared_ptr<Work>> getting_;  // none for this member's own
};

}  // namespace square
