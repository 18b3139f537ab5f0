// Nodes of a simulated overlay that run a plan made by hand.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "square/node.h"
#include "square/simulation.h"

namespace square::test {

inline std::string node_name(std::size_t index) { return "n" + std::to_string(index); }

// A plan over `node_count` nodes with one broadcast per added collective.
class PlanBuilder {
 public:
  explicit PlanBuilder(std::size_t node_count, Epoch epoch = Epoch(1)) {
    plan_.epoch = epoch;
    plan_.policy = "by-hand";
    for (std::size_t i = 0; i < node_count; ++i)
      plan_.nodes.push_back({node_name(i), kUnlimited, kUnlimited});
  }

  void add_link(std::uint32_t from, std::uint32_t to, double capacity_bps, Duration latency = {}) {
    plan_.links.push_back({NodeId(from), NodeId(to), capacity_bps, 0, latency});
  }

  // `trees` as lists of links in feeding order, with one rate each.
  void add_broadcast(std::uint32_t root, const std::vector<std::uint32_t>& members,
                     const std::vector<std::pair<std::vector<std::pair<int, int>>, double>>& trees) {
    const auto number = static_cast<std::uint32_t>(plan_.sessions.size());
    PlanSession session;
    session.id = SessionId(number);
    session.collective = CollectiveId(number);
    session.root = NodeId(root);
    for (const auto member : members) session.members.emplace_back(member);
    for (const auto& [links, rate] : trees) {
      PlanStream stream;
      for (const auto& [from, to] : links) stream.links.emplace_back(NodeId(from), NodeId(to));
      stream.rate_bps = rate;
      session.rate_bps += rate;
      session.streams.push_back(std::move(stream));
    }
    PlanCollective collective;
    collective.id = session.collective;
    collective.rate_bps = session.rate_bps;
    collective.sessions = {session.id};
    plan_.collectives.push_back(collective);
    plan_.sessions.push_back(session);
  }

  [[nodiscard]] std::shared_ptr<const Plan> build() const { return std::make_shared<const Plan>(plan_); }

 private:
  Plan plan_;
};

// All nodes of one simulation. Destroyed nodes first, the simulation last.
class Overlay {
 public:
  Overlay(std::uint64_t seed, std::size_t node_count, NodeOptions options = {})
      : simulation(seed), options_(std::move(options)), hosts_(node_count) {
    for (std::size_t i = 0; i < node_count; ++i) start(i);
    for (std::size_t i = 0; i < node_count; ++i) introduce(i);
  }
  ~Overlay() {
    for (auto& host : hosts_) host.transport->stop();
  }

  // Another process takes the node's name.
  void restart(std::size_t index, std::uint16_t incarnation) {
    hosts_[index].transport->stop();
    hosts_[index].node.reset();
    hosts_[index] = {};
    options_.incarnation = incarnation;
    start(index);
    introduce(index);
  }

  Node& node(std::size_t index) { return *hosts_[index].node; }
  Transport& transport(std::size_t index) { return *hosts_[index].transport; }

  // Both phases of a change of plan, on all nodes.
  bool publish(const std::shared_ptr<const Plan>& plan) {
    std::size_t installed = 0;
    for (auto& host : hosts_) host.node->install_plan(plan, [&](Epoch) { ++installed; });
    if (!run([&] { return installed == hosts_.size(); })) return false;
    for (auto& host : hosts_) host.node->activate_plan(plan->epoch);
    return true;
  }

  // Rank r of the collective lives on node nodes[r].
  void set_members(CollectiveId collective, const std::vector<std::uint32_t>& nodes) {
    for (std::uint32_t node = 0; node < hosts_.size(); ++node) {
      std::vector<Rank> ranks;
      for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) {
        if (nodes[rank] == node) ranks.emplace_back(rank);
      }
      if (!ranks.empty())
        hosts_[node].node->set_members(collective, "group/" + std::to_string(collective.value()), ranks);
    }
  }

  bool run(const std::function<bool()>& finished, Duration limit = std::chrono::seconds(600)) {
    return simulation.run_until(finished, simulation.clock().now() + limit);
  }

  Simulation simulation;

 private:
  struct Host {
    std::unique_ptr<Executor> executor;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<Node> node;
  };

  void start(std::size_t index) {
    options_.name = node_name(index);
    Host& host = hosts_[index];
    host.executor = simulation.make_executor();
    host.transport = simulation.make_transport(options_.name);
    host.node = std::make_unique<Node>(options_, simulation.clock(), *host.transport, *host.executor);
    if (!host.node->start().is_ok()) std::abort();
  }
  void introduce(std::size_t index) {
    for (std::size_t other = 0; other < hosts_.size(); ++other) {
      if (other != index)
        hosts_[index].node->set_address(node_name(other), hosts_[other].transport->address());
    }
  }

  NodeOptions options_;
  std::vector<Host> hosts_;
};

inline std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xffU);
  return bytes;
}

// One broadcast as its members call it.
struct Broadcast {
  CollectiveId collective;
  OperationId operation{0};
  std::vector<std::uint32_t> nodes;  // by rank
  std::uint32_t root_rank = 0;
  std::vector<std::vector<std::byte>> buffers;  // by rank
  std::vector<std::optional<Status>> outcomes;
  std::vector<TimePoint> finished_at;
  Duration timeout = std::chrono::seconds(300);

  Broadcast(CollectiveId id, std::vector<std::uint32_t> ranks, std::vector<std::byte> payload,
            std::uint32_t root = 0)
      : collective(id), nodes(std::move(ranks)), root_rank(root) {
    buffers.assign(nodes.size(), std::vector<std::byte>(payload.size()));
    buffers[root] = std::move(payload);
    outcomes.resize(nodes.size());
    finished_at.resize(nodes.size());
  }

  void post(Overlay& overlay, std::uint32_t rank) {
    MemberOperation call;
    call.collective = collective;
    call.operation = operation;
    call.rank = Rank(rank);
    call.input = buffers[rank];
    call.output = buffers[rank];
    call.is_root = rank == root_rank;
    call.timeout = timeout;
    call.done = [this, rank, &overlay](Status status) {
      outcomes[rank] = std::move(status);
      finished_at[rank] = overlay.simulation.clock().now();
    };
    overlay.node(nodes[rank]).post(std::move(call));
  }
  void post_all(Overlay& overlay) {
    for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) post(overlay, rank);
  }
  [[nodiscard]] bool is_over() const {
    return std::ranges::all_of(outcomes, [](const auto& outcome) { return outcome.has_value(); });
  }
  [[nodiscard]] bool is_right() const {
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      if (!outcomes[rank] || !outcomes[rank]->is_ok() || buffers[rank] != buffers[root_rank]) return false;
    }
    return true;
  }
};

inline std::uint64_t seed_from_environment(std::uint64_t otherwise) {
  const char* text = std::getenv("SQUARE_SEED");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace square::test
