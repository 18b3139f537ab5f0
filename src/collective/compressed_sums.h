// A member's steps in one call of a compressed all-reduce: one class for each kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coding/compression/int8_blocks.h"
#include "coding/compression/kernels.h"
#include "collective/composite_call.h"
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

class CompressedRun : public CompositeSteps {
 public:
  CompressedRun(Rank self, std::size_t ranks, const CompressedSum& sum)
      : self_(self), ranks_(ranks), sum_(sum) {}
  CompressedRun(const CompressedRun&) = delete;
  CompressedRun& operator=(const CompressedRun&) = delete;

  void begin(CompositeRun& run) final;
  // Once the operation is over.
  [[nodiscard]] CompressionReport report() const { return report_; }

 protected:
  virtual void exchange() = 0;
  [[nodiscard]] std::size_t count() const { return sum_.input.size() / sizeof(float); }
  [[nodiscard]] bool has_residual() const { return !sum_.residual.empty(); }
  [[nodiscard]] bool is_average() const { return sum_.reduction.op == ReduceOp::kAverage; }
  [[nodiscard]] bool is_self(std::size_t rank) const { return rank == self_.index(); }
  // The residual of these elements with the input added: what is to be sent.
  std::span<std::byte> add_to_residual(std::size_t first, std::size_t elements) const;
  void report_sent(std::size_t bytes, const compression::Loss& loss);
  // Writes what this member called to the front of `message` and returns what comes after it.
  [[nodiscard]] std::span<std::byte> begin_message(std::span<std::byte> message) const;
  // Has what another rank says that it called compared, once its message is there.
  [[nodiscard]] Status compare(std::span<const std::byte> message, std::size_t from) const;

  const Rank self_;
  const std::size_t ranks_;
  const CompressedSum sum_;
  CompositeRun* run_ = nullptr;
  CallDescription called_;  // in front of all that a member sends: the member that gets it compares
  CompressionReport report_;
};

// Converted, added by the planned all-reduce as bfloat16, converted back.
class Bfloat16Run final : public CompressedRun {
 public:
  using CompressedRun::CompressedRun;

 private:
  void exchange() override;
  void add_halves();
  Scratch halves_;
};

// Every rank adds one shard: quantised shards go to their ranks, sums come back quantised again. Every
// rank decodes the same bytes, its own shard's too.
class Int8Run final : public CompressedRun {
 public:
  Int8Run(Rank self, std::size_t ranks, const CompressedSum& sum);

 private:
  void exchange() override;
  struct Peer {
    compression::Shard shard;  // what this rank adds
    Scratch given;             // this member's elements of it, encoded
    Scratch taken;             // its elements of this member's shard, encoded
    Scratch sums;              // the sums of its shard, encoded
    bool has_given = false;    // `taken` is there
    bool has_added = false;    // `sums` are there
  };

  [[nodiscard]] compression::Int8Layout layout(const compression::Shard& shard) const;
  [[nodiscard]] std::size_t message_bytes(const compression::Shard& shard) const;
  void begin_receiving();
  // The next piece of arithmetic, if there is what it needs.
  void go_on();
  void work_on(const Peer& peer, std::function<Status()> task, std::function<void()> then);
  void send_shard(std::size_t rank);
  Status encode(Peer& peer);
  Status add_shard(std::size_t rank);
  Status finish_shard();
  void send_sums();
  Status keep_rest();
  Status decode_sums(std::size_t rank);

  std::vector<Peer> peers_;  // by rank, this member among them
  bool is_at_work_ = false;
  // How many are done, of the ranks:
  std::size_t encoded_ = 0;
  std::size_t added_ = 0;
  std::size_t decoded_ = 0;
  bool is_shard_finished_ = false;
};

// Every rank gets what every rank chose, and adds it in the order of ranks.
class TopKRun final : public CompressedRun {
 public:
  using CompressedRun::CompressedRun;

 private:
  void exchange() override;
  void begin_receiving(std::size_t chosen);
  Status encode();
  void send();
  void go_on();
  Status add_message(std::size_t rank);

  std::vector<Scratch> messages_;  // by rank
  std::vector<bool> has_come_;     // this member's own with its encoding
  bool is_adding_ = false;
  std::size_t added_ = 0;
};

}  // namespace square
