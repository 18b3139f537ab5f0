// A server's shard in a process: threads, a disk, and lines of the data flow.
//
// A round takes push + max(update, pull, snapshot), not their sum: a version is made part by part, and each
// part that is ready is written to the disk and sent to workers while the next ones are calculated.
//
// In memory there are two versions of the parameters, the momentum (with a delay also the gradients that it
// has not seen yet), one buffer of float32 for each push, and a few parts. Older versions come from the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ps/data/data_lines.h"
#include "ps/server/shard_host.h"
#include "ps/shard/crossing.h"
#include "ps/shard/maker.h"
#include "ps/shard/snapshots.h"
#include "ps/shard/transfers.h"
#include "ps/shard/versions.h"
#include "square/executor.h"

namespace square::ps {

// All calls come on the strand, and every `done` is posted to it. An empty shard is as any other: lines are
// opened for it, and carry nothing.
class Shard final : public ShardHost {
 public:
  // `kept`: snapshots, 2 at least (SQUARE_CHECK); more while transfers read them. `threads` compute: see
  // BlockThreads. Lines and strand must outlive it. Errors: those of Snapshots::open().
  static Result<std::unique_ptr<Shard>> open(std::string name, std::filesystem::path folder, std::size_t kept,
                                             DataLines& lines, Executor& strand, unsigned threads);
  ~Shard() override { stop(); }

  std::vector<v1::PsHeld> held() override { return snapshots_->held(); }
  v1::PsModel model() override { return snapshots_->model(); }
  // Errors: INVALID_ARGUMENT for a shard that cannot be; NOT_FOUND or DATA_LOSS for a version that is not on
  // the disk as it was; FAILED_PRECONDITION for one of another shard or model.
  void open(const v1::PsWelcome& welcome, const v1::PsShard& shard, Done<Status> done) override;
  // Of a push of parameters, what is measured and averaged is how far they are from the version that was
  // committed when it began. Errors: those of the line, DATA_LOSS, RESOURCE_EXHAUSTED, CANCELLED.
  void take_push(const v1::PsTransfer& transfer, Done<Result<double>> done) override;
  void drop_push(std::uint64_t ticket) override;
  // Errors: INTERNAL for a push that is not here.
  void average(const v1::PsAverage& average, Done<Result<double>> done) override;
  // Errors: INTERNAL for a seed that is not here, INVALID_ARGUMENT for one that is not finite,
  // RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE for one that does not work.
  void make(const v1::PsMake& make, Done<Result<MadeVersion>> done) override;
  // Errors: INVALID_ARGUMENT for an order that has no shard for this server; those of the lines, DATA_LOSS,
  // RESOURCE_EXHAUSTED, CANCELLED; those of make().
  void move(const v1::PsMove& move, Done<Result<MadeVersion>> done) override;
  // Nothing where that version is not made.
  void commit(std::uint64_t version) override;
  void drop_made(Done<Status> done) override;
  // Errors: NOT_FOUND; why the version is not made; those of the line, which ends with all of them.
  void send_version(const v1::PsTransfer& transfer, Done<Status> done) override;
  void cancel(std::uint64_t ticket) override { transfers_.cancel(ticket); }

  // Ends lines, transfers and what is being made. Blocks for as long as the disk takes for what it was given.
  // Later calls end with CANCELLED. Idempotent.
  void stop();

 private:
  // What a server was told of its model, by the last welcome.
  struct Model {
    v1::PsModel tensors;
    v1::PsShard shard;
    Nesterov outer;
    bool pushes_parameters = false;
    bool is_bfloat16 = false;
    [[nodiscard]] std::uint64_t size() const { return shard.end() - shard.begin(); }
  };

  Shard(std::string name, std::unique_ptr<Snapshots> snapshots, DataLines& lines, Executor& strand,
        unsigned threads);
  template <typename T>
  void post(const Done<T>& done, T outcome) {
    strand_.post([done, outcome = std::move(outcome)] { done(outcome); });
  }

  // The same shard of the same model, with steps of the same kind.
  [[nodiscard]] static bool are_same(const Model& one, const Model& other);
  Status reopen(const VersionId& id, const Model& model, bool is_as_before);
  Status load(const VersionId& id, const Model& model);
  // Of a version wherever it is: in memory, being made, or on the disk. One transfer's.
  using VersionParts = std::function<Status(std::size_t index, std::span<float> out, const std::stop_token&)>;
  [[nodiscard]] VersionParts parts_of_version(const VersionId& id, const v1::PsShard& range);
  // With a `current` the push has parameters.
  Result<double> receive(Transfer& transfer, ElementType type, const VersionParts& current);
  Status send(Transfer& transfer, const VersionParts& parts);
  // A move, under way.
  struct Moving {
    VersionId from;  // whose elements move
    v1::PsShard shard;
    MakeOrder order;
    std::shared_ptr<Gathering> gathering;
    Done<Result<MadeVersion>> done;
  };
  [[nodiscard]] MakeOrder make_order(const v1::PsRecord& record, const v1::PsShard& shard) const;
  Status begin_takes(const v1::PsMove& move, const std::shared_ptr<Moving>& moving);
  Status give(Transfer& transfer, std::uint64_t shard_begin);
  void on_gathered(const std::shared_ptr<Moving>& moving);
  // What this server keeps of its shard, and what was gathered.
  Result<OuterShard> put_together(Moving& moving, const v1::PsShard& before, const Nesterov& outer);
  [[nodiscard]] Status check_range(const v1::PsTransfer& transfer) const;
  Result<std::vector<float>> buffer(std::uint64_t count);
  void keep_spare(std::vector<float> buffer);

  const std::string name_;
  DataLines& lines_;
  Executor& strand_;
  const std::unique_ptr<Snapshots> snapshots_;
  Versions versions_;
  Staging staging_;
  Model model_;
  v1::PsShard next_shard_;  // of the version that is made
  std::atomic<bool> is_stopped_ = false;

  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<float>> pushes_;
  std::vector<float> spare_;  // free memory for the next push

  // What follows has threads that use all above.
  Maker maker_;
  Transfers transfers_;
};

}  // namespace square::ps
