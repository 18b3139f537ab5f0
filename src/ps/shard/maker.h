// Makes versions: the average of pushes, the update, and beside it the snapshot.
#pragma once

#include <atomic>
#include <functional>
#include <latch>
#include <optional>
#include <vector>

#include "ps/outer/block_threads.h"
#include "ps/outer/kernels.h"
#include "ps/server/shard_host.h"
#include "ps/shard/snapshots.h"
#include "ps/shard/versions.h"
#include "transport/worker_threads.h"

namespace square::ps {

// A push, and its part of an average.
struct WeightedPush {
  std::vector<float> values;
  float weight = 0;
};

// What a version is made of beside the average.
struct MakeOrder {
  v1::PsSnapshotHeader header;
  // The shard as it will be, in place of a step; it may take a while. Null: a step.
  std::function<Result<OuterShard>()> shard;
  double factor = 0;  // of the average
  Nesterov outer;
};

// Calls come one at a time; each returns at once, and what it begins runs after what was begun before. `done`
// runs once, on a thread of the maker.
class Maker {
 public:
  static constexpr unsigned kMostThreads = 256;

  // `threads` compute: see BlockThreads. Both must outlive it.
  Maker(Versions& versions, Snapshots& snapshots, unsigned threads);
  ~Maker() { stop(); }

  // The average is in the first push's buffer, the others are freed. Its squared norm, or a NaN where it is
  // not finite. Preconditions: pushes of one size, and one at least.
  void average(std::vector<WeightedPush> pushes, std::function<void(double)> done);
  // Of a shard that is given; or of the average; or like the version before, where there is no average or
  // where it is not finite: its factor is 0 then.
  void make(MakeOrder order, std::function<void(Result<MadeVersion>)> done);
  // The average is gone; then `next` runs, when all that was begun is over.
  void drop_average(std::function<void()> next);
  // Runs when the disk has time.
  void later(std::function<void()> task) { writer_.work(std::move(task)); }
  // What is being made is given up: CANCELLED. Blocks until all that was begun is over. Idempotent.
  void stop();

 private:
  struct Average {
    std::vector<float> values;
    bool is_finite = true;
  };
  struct Job {
    MakeOrder order;
    std::shared_ptr<Progress> progress;
    std::latch is_updated{1};
    double update_seconds = 0;
  };

  double average_all(std::vector<WeightedPush> pushes);
  void update(Job& job);
  Status prepare(Job& job);
  Status update_parts(Job& job);
  Result<MadeVersion> write(Job& job);
  Result<std::uint64_t> write_parts(Job& job);

  Versions& versions_;
  Snapshots& snapshots_;
  BlockThreads threads_;
  std::optional<Average> average_;  // of tasks of compute_
  // The order of tasks is the order of what they do: compute_ before writer_.
  WorkerThreads compute_{"ps-update", 1};
  WorkerThreads writer_{"ps-snapshot", 1};
};

}  // namespace square::ps
