// A server's shard in a simulation: the real arithmetic, and a disk that outlives its process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/cluster/data_network.h"
#include "ps/server/shard_host.h"
#include "square/outer_optimizer.h"
#include "world/draw.h"

namespace square::test {

struct Snapshot {
  v1::PsRecord record;
  ps::OuterShard::State state;
};

struct ShardDisk {
  std::map<std::uint64_t, Snapshot> versions;
  v1::PsModel model;
  bool is_full = false;
};

// Work takes a drawn time, and ends on the executor. Destroyed with its process: what runs then is lost.
class SimulatedShard final : public ps::ShardHost {
 public:
  static constexpr std::size_t kKept = 2;  // snapshots: the fewest that a server may keep

  SimulatedShard(std::string name, ShardDisk& disk, DataNetwork& data, Executor& executor, const Clock& clock,
                 std::uint64_t seed)
      : name_(std::move(name)), disk_(disk), data_(data), executor_(executor), clock_(clock), dice_(seed) {}
  ~SimulatedShard() override { *alive_ = false; }

  std::vector<v1::PsHeld> held() override;
  v1::PsModel model() override { return disk_.model; }
  void open(const v1::PsWelcome& welcome, const v1::PsShard& shard, Done<Status> done) override;
  void take_push(const v1::PsTransfer& transfer, Done<Result<double>> done) override;
  void drop_push(std::uint64_t ticket) override;
  void average(const v1::PsAverage& average, Done<Result<double>> done) override;
  void make(const v1::PsMake& make, Done<Result<ps::MadeVersion>> done) override;
  void move(const v1::PsMove& move, Done<Result<ps::MadeVersion>> done) override;
  void commit(std::uint64_t version) override;
  void drop_made(Done<Status> done) override;
  void send_version(const v1::PsTransfer& transfer, Done<Status> done) override;
  void cancel(std::uint64_t ticket) override;

 private:
  // After a while, unless the process is gone by then.
  Duration slow(Duration usual);
  void later(Duration least, Duration most, std::function<void()> task);
  void write(const v1::PsRecord& record, ps::OuterShard::State state, Done<Result<ps::MadeVersion>> done);
  void seed(const v1::PsMake& make, Done<Result<ps::MadeVersion>> done);
  [[nodiscard]] ps::OuterShard::State state() const;
  // A new shard, part by part.
  struct Gathering {
    v1::PsMove order;
    v1::PsShard shard;
    ps::OuterShard::State state;
    int missing = 0;
    Done<Result<ps::MadeVersion>> done;
  };
  [[nodiscard]] std::vector<float> part(const v1::PsShard& range) const;
  void give(const v1::PsTransfer& transfer);
  void take(const v1::PsTransfer& transfer);
  void on_taken(const v1::PsTransfer& transfer, const Result<std::vector<float>>& values);

  const std::string name_;
  ShardDisk& disk_;
  DataNetwork& data_;
  Executor& executor_;
  const Clock& clock_;
  Dice dice_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::size_t begin_ = 0;  // element of the model
  std::size_t size_ = 0;
  ps::Nesterov outer_;
  std::optional<ps::OuterShard> shard_;
  std::uint64_t version_ = 0;
  std::map<std::uint64_t, std::vector<float>> pushes_;
  std::map<std::uint64_t, std::string> keys_;  // of transfers that run
  std::vector<float> average_;
  std::uint64_t made_ = 0;  // on the disk, and not committed
  v1::PsShard made_shard_;
  std::vector<float> made_parameters_;
  std::optional<Gathering> gathering_;
  bool is_making_ = false;
  std::uint64_t making_maker_ = 0;
};

}  // namespace square::test
