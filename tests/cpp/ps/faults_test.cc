// Masters, servers and workers that die, stop, lose their lines and their disks, at drawn moments.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "ps/cluster/cluster.h"

namespace square::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ClusterShape usual_shape() {
  ClusterShape shape;
  shape.settings.servers = 2;
  shape.settings.chunks = shape.chunks;
  shape.settings.grace = milliseconds(100);
  return shape;
}

// A fault at a drawn moment, which ends after a drawn while.
class FaultDrawer {
 public:
  FaultDrawer(Cluster& cluster, std::uint64_t seed) : cluster_(cluster), dice_(seed) {}

  void plan(std::size_t count, Duration within) {
    for (std::size_t i = 0; i < count; ++i) {
      after(dice_.between(milliseconds(300), within), [this] { strike(); });
    }
  }
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

 private:
  void after(Duration wait, std::function<void()> task) {
    cluster_.executor().post_at(cluster_.now() + wait, std::move(task));
  }
  void note(const std::string& what) {
    log_.push_back(fmt::format("{:.3f} {}", to_seconds(cluster_.now().time_since_epoch()), what));
  }
  Duration while_drawn() {
    return dice_.between(milliseconds(50), milliseconds(dice_.one_in(4) ? 8000 : 3000));
  }
  std::string any_host() {
    const std::size_t host = dice_.below(1 + cluster_.servers() + cluster_.workers());
    if (host == 0) return ControlLines::kMaster;
    if (host <= cluster_.servers()) return Cluster::server_name(host - 1);
    return Cluster::worker_name(host - 1 - cluster_.servers());
  }

  void strike() {
    const std::size_t server = dice_.below(cluster_.servers());
    const std::size_t worker = dice_.below(cluster_.workers());
    const Duration time = while_drawn();
    switch (dice_.below(10)) {
      case 8:
      case 9: {
        const std::string host =
            dice_.one_in(2) ? Cluster::server_name(server) : Cluster::worker_name(worker);
        note("breaks the line of " + host);
        return cluster_.flap(host);
      }
      case 0:
        note("kills the master");
        cluster_.kill_master();
        return after(time, [this] {
          if (!cluster_.is_master_there()) cluster_.start_master();
        });
      case 1:
        note("kills " + Cluster::server_name(server));
        cluster_.kill_server(server);
        // Sometimes with what it was to report, and who was to hear of it.
        if (dice_.one_in(4)) cluster_.kill_master();
        after(milliseconds(200), [this] {
          if (!cluster_.is_master_there()) cluster_.start_master();
        });
        return after(time, [this, server] { cluster_.start_server(server); });
      case 2:
        note("kills " + Cluster::worker_name(worker));
        cluster_.kill_worker(worker);
        return after(time, [this, worker] { cluster_.start_worker(worker); });
      case 3: {
        const std::string host = any_host();
        note("pauses " + host);
        return cluster_.pause(host, time);
      }
      case 4: {
        const std::string host =
            dice_.one_in(2) ? Cluster::server_name(server) : Cluster::worker_name(worker);
        note("cuts off " + host);
        cluster_.set_cut(host, true);
        return after(time, [this, host] { cluster_.set_cut(host, false); });
      }
      case 5:
        note("fills the disk of " + Cluster::server_name(server));
        cluster_.set_disk_full(server, true);
        return after(time, [this, server] { cluster_.set_disk_full(server, false); });
      case 6:
        note("slows " + Cluster::worker_name(worker));
        cluster_.set_slow(Cluster::worker_name(worker), true);
        return after(time, [this, worker] { cluster_.set_slow(Cluster::worker_name(worker), false); });
      default: note("spoils a push of " + Cluster::worker_name(worker)); return cluster_.spoil(worker);
    }
  }

  Cluster& cluster_;
  Dice dice_;
  std::vector<std::string> log_;
};

std::uint64_t seeds_to_run() {
  const char* const given = std::getenv("SQUARE_SEEDS");
  return given == nullptr ? 200 : std::strtoull(given, nullptr, 10);
}

}  // namespace

TEST_CASE("without faults every chunk is counted once, and the model is a replay of the log") {
  Cluster cluster(1, usual_shape());
  CHECK_MESSAGE(cluster.run(seconds(60)), cluster.trouble());
  const auto complaints = cluster.complaints();
  CHECK_MESSAGE(complaints.empty(), fmt::format("{}", fmt::join(complaints, "\n")));
  CHECK(cluster.versions().size() > 5);
}

TEST_CASE("servers that come later get their part, and training goes on") {
  ClusterShape shape = usual_shape();
  shape.standing_by = 2;
  shape.settings.max_staleness = 4;  // for workers that are less behind than it seems: a move is no round
  Cluster cluster(2, shape);
  CHECK_MESSAGE(cluster.run(seconds(60)), cluster.trouble());
  const auto complaints = cluster.complaints();
  CHECK_MESSAGE(complaints.empty(), fmt::format("{}", fmt::join(complaints, "\n")));
  const v1::PsRecord& last = cluster.versions().rbegin()->second.record;
  CHECK(last.layout().shards_size() == 4);
  CHECK(last.moves_size() == 1);
  CHECK(cluster.versions().size() > 8);
}

TEST_CASE("faults lose no version, mix none, and count every chunk once") {
  // SQUARE_SEED runs one seed again.
  const char* const one = std::getenv("SQUARE_SEED");
  const std::uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const std::uint64_t last = one == nullptr ? seeds_to_run() : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    ClusterShape shape = usual_shape();
    shape.servers = 1 + seed % 3;
    shape.settings.servers = static_cast<std::uint32_t>(shape.servers);
    shape.standing_by = seed % 4 == 0 ? 1 + seed / 4 % 2 : 0;
    shape.settings.moves_shards = seed % 16 != 0;
    shape.settings.quorum = seed % 5 == 0 ? 2 : 1;
    if (seed % 7 == 0) shape.settings.max_staleness = 2;
    Cluster cluster(seed, shape);
    FaultDrawer faults(cluster, seed);
    faults.plan(1 + seed % 6, seconds(6));
    const bool is_done = cluster.run(seconds(120));
    std::vector<std::string> complaints;
    if (is_done) complaints = cluster.complaints();
    CHECK_MESSAGE(is_done,
                  fmt::format("seed {}: {}\n{}", seed, cluster.trouble(), fmt::join(faults.log(), "\n")));
    CHECK_MESSAGE(complaints.empty(), fmt::format("seed {}: {}\n{}", seed, fmt::join(complaints, "\n"),
                                                  fmt::join(faults.log(), "\n")));
  }
}

}  // namespace square::test
