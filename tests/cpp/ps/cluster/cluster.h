// A whole cluster under virtual time, drawn from a seed: a master, servers and workers as they are, faults,
// and an oracle that says what nobody may see.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ps/cluster/shard.h"
#include "ps/cluster/trainer.h"
#include "ps/server/server.h"

namespace square::test {

struct ClusterShape {
  std::size_t servers = 2;
  std::size_t standing_by = 0;  // servers without a shard
  // These come once there is a version, each at a drawn moment of this time. 0: together.
  Duration come_within{0};
  std::size_t workers = 4;
  std::size_t chunks = 160;  // and elements of the model
  TrainerPace pace{};
  // Floats per second of every host's link, in and out, that its transfers share; 0: see DataNetwork.
  double shared_link = 0;
  ps::TrainingOptions settings;
};

class Cluster {
 public:
  Cluster(std::uint64_t seed, ClusterShape shape);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Until all chunks are done, or the time is over: false.
  bool run(Duration limit);
  // Complaints of the oracle about all that has happened.
  std::vector<std::string> complaints();

  // Faults. What is killed is started again by start_*().
  void kill_master();
  void start_master();
  void kill_server(std::size_t index);
  void start_server(std::size_t index);
  void kill_worker(std::size_t index);
  void start_worker(std::size_t index);
  void pause(const std::string& host, Duration time);
  // Neither control nor data passes.
  void set_cut(const std::string& host, bool is_cut);
  void flap(const std::string& host) { lines_.flap(host); }
  void set_disk_full(std::size_t server, bool is_full) { disks_[server].is_full = is_full; }
  static constexpr double kSlowRate = 400;  // floats per second
  void set_slow(const std::string& host, bool is_slow);
  void spoil(std::size_t worker);

  [[nodiscard]] Simulation& simulation() { return simulation_; }
  [[nodiscard]] Executor& executor() { return *executor_; }
  [[nodiscard]] TimePoint now() const { return simulation_.clock().now(); }
  [[nodiscard]] std::size_t servers() const { return servers_.size(); }
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }
  static std::string server_name(std::size_t index) { return "server" + std::to_string(index); }
  static std::string worker_name(std::size_t index) { return "worker" + std::to_string(index); }
  [[nodiscard]] bool is_master_there() const { return master_ != nullptr; }
  [[nodiscard]] bool is_server_there(std::size_t index) const { return servers_[index] != nullptr; }
  [[nodiscard]] bool is_worker_there(std::size_t index) const { return workers_[index] != nullptr; }
  // Every version that was committed, as it is on the servers' disks; by version.
  struct Version {
    v1::PsRecord record;
    std::vector<float> parameters;
  };
  [[nodiscard]] const std::map<std::uint64_t, Version>& versions() const { return versions_; }
  [[nodiscard]] const TrainerLog& log(std::size_t worker) const { return logs_[worker]; }
  [[nodiscard]] const Trainer* worker(std::size_t index) const { return workers_[index].get(); }
  // Precondition: it is there.
  [[nodiscard]] v1::PsAnswer status() const { return master_->answer(); }
  [[nodiscard]] std::string trouble() const;

 private:
  class ServerProcess;
  void tick_master(std::uint64_t life);
  void watch();
  void look_at_commits();
  void check_lost();
  void check_adopted();
  void check_chunks();
  void check_void_pushes();
  void check_replay();
  void check_stops();
  void complain(std::string what) { complaints_.push_back(std::move(what)); }

  Dice dice_;
  const ClusterShape shape_;
  Simulation simulation_;
  std::unique_ptr<Executor> executor_;
  ControlNetwork network_;
  ControlLines lines_;
  DataNetwork data_;
  v1::PsModel model_;
  std::unique_ptr<Executor> master_executor_;
  std::unique_ptr<ps::MasterState> master_;
  std::uint64_t master_life_ = 0;
  std::vector<ShardDisk> disks_;
  std::vector<std::unique_ptr<Executor>> server_executors_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::unique_ptr<Executor>> worker_executors_;
  std::vector<std::unique_ptr<Trainer>> workers_;
  std::vector<TrainerLog> logs_;
  std::map<std::uint64_t, Version> versions_;
  std::vector<std::string> complaints_;
};

}  // namespace square::test
