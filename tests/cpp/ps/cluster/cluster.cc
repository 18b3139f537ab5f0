#include "ps/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace square::test {

using std::chrono::milliseconds;

namespace {

constexpr Duration kTick = milliseconds(25);

v1::PsModel model_of(std::size_t elements) {
  v1::PsModel model;
  v1::PsTensor& first = *model.add_tensors();
  first.set_name("first");
  first.set_dtype("float32");
  first.add_shape(elements / 4);
  v1::PsTensor& second = *model.add_tensors();
  second.set_name("second");
  second.set_dtype("float32");
  second.add_shape(elements - elements / 4);
  return model;
}

}  // namespace

class Cluster::ServerProcess final : public LineOwner {
 public:
  ServerProcess(const std::string& name, ShardDisk& disk, DataNetwork& data, ControlLines& lines,
                Executor& executor, Simulation& simulation, std::uint64_t seed,
                std::function<void(std::string)> complain)
      : name_(name),
        lines_(lines),
        executor_(executor),
        simulation_(simulation),
        shard_(name, disk, data, executor, simulation.clock(), seed),
        state_(
            {name, name, seed | 1U, 0}, shard_,
            [this](v1::PsReport report) { lines_.report(name_, std::move(report)); },
            [name, complain = std::move(complain)](const Status& status) {
              complain(name + " serves no more: " + status.to_string());
            }) {
    beat();
  }
  ~ServerProcess() override { *alive_ = false; }

  void on_attached() override { state_.on_attached(); }
  void on_order(const v1::PsOrder& order) override { state_.on_order(order); }
  void on_detached() override { state_.on_detached(); }

 private:
  void beat() {
    v1::PsReport report;
    report.set_beat(true);
    lines_.report(name_, std::move(report));
    executor_.post_at(simulation_.clock().now() + milliseconds(200), [this, alive = alive_] {
      if (*alive) beat();
    });
  }

  const std::string name_;
  ControlLines& lines_;
  Executor& executor_;
  Simulation& simulation_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  SimulatedShard shard_;
  ps::ServerState state_;
};

Cluster::Cluster(std::uint64_t seed, ClusterShape shape)
    : dice_(seed),
      shape_(std::move(shape)),
      simulation_(dice_.number()),
      executor_(simulation_.make_executor()),
      network_(simulation_),
      lines_(simulation_, network_),
      data_(simulation_),
      model_(model_of(shape_.chunks)),
      disks_(shape_.servers + shape_.standing_by),
      server_executors_(disks_.size()),
      servers_(disks_.size()),
      worker_executors_(shape_.workers),
      workers_(shape_.workers),
      logs_(shape_.workers) {
  if (shape_.shared_link > 0) data_.share_links(shape_.shared_link);
  start_master();
  for (std::size_t i = 0; i < shape_.servers; ++i) start_server(i);
  for (std::size_t i = 0; i < shape_.workers; ++i) start_worker(i);
  watch();
  for (std::size_t i = shape_.servers; i < servers_.size(); ++i) {
    const Duration wait = std::chrono::seconds(1) + dice_.between(Duration(0), shape_.come_within);
    executor_->post_at(now() + wait, [this, i] { start_server(i); });
  }
}

Cluster::~Cluster() = default;

void Cluster::start_master() {
  ++master_life_;
  master_executor_ = simulation_.make_executor(ControlLines::kMaster);
  master_ = std::make_unique<ps::MasterState>(
      shape_.settings, dice_.number() | 1U,
      [this](ps::PeerId peer, v1::PsOrder order) { lines_.order(peer, std::move(order)); },
      [this](ps::PeerId peer) { lines_.close(peer); });
  lines_.set_master(master_.get(), master_executor_.get());
  tick_master(master_life_);
}

void Cluster::tick_master(std::uint64_t life) {
  if (life != master_life_ || !master_) return;
  master_->on_time(now());
  look_at_commits();
  master_executor_->post_at(now() + kTick, [this, life] { tick_master(life); });
}

void Cluster::kill_master() {
  if (!master_) return;
  look_at_commits();
  ++master_life_;
  lines_.set_master(nullptr, nullptr);
  master_.reset();
}

void Cluster::start_server(std::size_t index) {
  if (servers_[index]) return;
  const std::string name = server_name(index);
  server_executors_[index] = simulation_.make_executor(name);
  data_.set_process(name, server_executors_[index].get());
  servers_[index] = std::make_unique<ServerProcess>(name, disks_[index], data_, lines_,
                                                    *server_executors_[index], simulation_, dice_.number(),
                                                    [this](std::string what) { complain(std::move(what)); });
  lines_.set_member(name, servers_[index].get(), server_executors_[index].get());
}

void Cluster::kill_server(std::size_t index) {
  lines_.set_member(server_name(index), nullptr, nullptr);
  data_.set_process(server_name(index), nullptr);
  servers_[index].reset();
}

void Cluster::start_worker(std::size_t index) {
  if (workers_[index]) return;
  const std::string name = worker_name(index);
  worker_executors_[index] = simulation_.make_executor(name);
  data_.set_process(name, worker_executors_[index].get());
  workers_[index] = std::make_unique<Trainer>(name, model_, data_, lines_, *worker_executors_[index],
                                              simulation_.clock(), logs_[index], shape_.pace, dice_.number());
  lines_.set_member(name, workers_[index].get(), worker_executors_[index].get());
}

void Cluster::kill_worker(std::size_t index) {
  lines_.set_member(worker_name(index), nullptr, nullptr);
  data_.set_process(worker_name(index), nullptr);
  workers_[index].reset();
}

void Cluster::pause(const std::string& host, Duration time) {
  simulation_.pause(host, time);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (worker_name(i) == host && workers_[i]) workers_[i]->forgive(time);
  }
}

void Cluster::set_cut(const std::string& host, bool is_cut) {
  lines_.set_blocked(host, is_cut);
  for (std::size_t i = 0; i < servers_.size(); ++i) data_.set_blocked(host, server_name(i), is_cut);
  for (std::size_t i = 0; i < workers_.size(); ++i) data_.set_blocked(host, worker_name(i), is_cut);
}

void Cluster::set_slow(const std::string& host, bool is_slow) {
  data_.set_rate(host, is_slow ? kSlowRate : 2000);
}

void Cluster::spoil(std::size_t worker) {
  if (workers_[worker]) workers_[worker]->spoil();
}

void Cluster::watch() {
  lines_.tend();
  look_at_commits();
  executor_->post_at(now() + milliseconds(20), [this] { watch(); });
}

bool Cluster::run(Duration limit) {
  return simulation_.run_until(
      [this] {
        if (master_ == nullptr || versions_.empty()) return false;
        std::uint64_t done = 0;
        for (const v1::PsRange& range : master_->committed().record.chunks_done()) {
          done += range.end() - range.begin();
        }
        return done == shape_.chunks;
      },
      now() + limit);
}

std::string Cluster::trouble() const {
  if (!master_) return "there is no master";
  const v1::PsAnswer answer = master_->answer();
  std::string workers;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i]) continue;
    const ps::WorkerState& state = workers_[i]->state();
    workers += fmt::format("; {} is in push state {} at version {} with {} chunks, {}", worker_name(i),
                           static_cast<int>(state.push_state()), state.base_version(), state.chunks().size(),
                           state.push_reason());
  }
  return fmt::format("version {}, {} of {} chunks done, {} held; waits for {}{}", answer.version(),
                     answer.chunks_done(), answer.chunks(), answer.chunks_leased(), answer.waits_for(),
                     workers);
}

// A version counts from when the master says so: what it says later must not contradict.
void Cluster::look_at_commits() {
  if (!master_ || master_->committed().version() == 0) return;
  const v1::PsRecord& record = master_->committed().record;
  if (!versions_.empty() && record.version() < versions_.rbegin()->first) {
    complain(fmt::format("version {} was committed, and now it is {}", versions_.rbegin()->first,
                         record.version()));
    return;
  }
  const auto known = versions_.find(record.version());
  if (known != versions_.end()) {
    if (known->second.record.maker() != record.maker()) {
      complain(fmt::format("version {} was committed twice", record.version()));
    }
    return;
  }
  Version version{record, {}};
  for (const v1::PsShard& shard : record.layout().shards()) {
    for (std::size_t i = 0; i < disks_.size(); ++i) {
      if (server_name(i) != shard.server()) continue;
      const auto snapshot = disks_[i].versions.find(record.version());
      if (snapshot == disks_[i].versions.end() || snapshot->second.record.maker() != record.maker()) {
        complain(fmt::format("version {} is committed, and not on the disk of {}", record.version(),
                             shard.server()));
        return;
      }
      const std::vector<float>& part = snapshot->second.state.parameters;
      version.parameters.insert(version.parameters.end(), part.begin(), part.end());
    }
  }
  versions_[record.version()] = std::move(version);
}

}  // namespace square::test
