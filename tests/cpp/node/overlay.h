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

#include "seed_step.h"
#include "square/data_plane.h"
#include "square/simulation.h"

namespace square::test {

inline constexpr double kMbps = 1e6;

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

  // Lists of links in the order of data, with one rate each.
  using Trees = std::vector<std::pair<std::vector<std::pair<int, int>>, double>>;

  void add_broadcast(std::uint32_t root, const std::vector<std::uint32_t>& members, const Trees& trees) {
    add_collective(CollectiveOp::kBroadcast, 0);
    add_session(own_session(), SessionKind::kMulticast, root, members, trees, 0, 0);
  }

  void add_reduce(std::uint32_t root, const std::vector<std::uint32_t>& members, const Trees& trees) {
    add_collective(CollectiveOp::kReduce, 0);
    add_session(own_session(), SessionKind::kReduce, root, members, trees, 0, 0);
  }

  // Part of the buffer that one root adds and sends to all.
  struct Share {
    std::uint32_t root = 0;
    std::uint64_t size_bytes = 0;
    Trees up;
    Trees down;
  };
  void add_all_reduce(const std::vector<std::uint32_t>& members, const std::vector<Share>& shares) {
    std::uint64_t offset = 0;
    for (const Share& share : shares) offset += share.size_bytes;
    add_collective(CollectiveOp::kAllReduce, offset);
    offset = 0;
    for (const Share& share : shares) {
      const SessionId up = share_session(share.root);
      const SessionId down(up.value() + 1);
      add_session(up, SessionKind::kReduce, share.root, members, share.up, offset, share.size_bytes);
      plan_.sessions.back().pair = down;
      add_session(down, SessionKind::kMulticast, share.root, members, share.down, offset, share.size_bytes);
      plan_.sessions.back().pair = up;
      offset += share.size_bytes;
    }
  }

  // The butterfly: node 0 to 5 and 6, by way of 1, 2, 3 and 4, where 3 adds what comes from 1 and 2. Every
  // link is there, as fast as `link_bps`.
  void add_butterfly(double link_bps, FieldKind field = FieldKind::kGf256, Duration latency = {}) {
    for (const auto& [from, to] : std::vector<std::pair<int, int>>{
             {0, 1}, {0, 2}, {1, 5}, {2, 6}, {1, 3}, {2, 3}, {3, 4}, {4, 5}, {4, 6}})
      add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), link_bps, latency);
    add_broadcast(0, {0, 5, 6},
                  {{{{0, 1}, {1, 5}, {1, 3}}, link_bps},
                   {{{0, 2}, {2, 6}, {2, 3}}, link_bps},
                   {{{3, 4}, {4, 5}, {4, 6}}, link_bps}});
    PlanSession& session = plan_.sessions.back();
    session.rate_bps = 2 * link_bps;
    plan_.collectives.back().rate_bps = session.rate_bps;
    session.streams[0].coded = PlanCodePart{0, NodeId(0), {}, {1, 0}};
    session.streams[1].coded = PlanCodePart{0, NodeId(0), {}, {0, 1}};
    session.streams[2].coded = PlanCodePart{0, NodeId(3), {{StreamIndex(0), 1}, {StreamIndex(1), 1}}, {1, 1}};
    PlanCode& code = session.codes.emplace_back(PlanCode{field, 2, 2 * link_bps, {}});
    const double minus = field == FieldKind::kFloat32 ? -1 : 1;
    code.sinks.push_back({NodeId(5), {StreamIndex(0), StreamIndex(2)}, {{1, 0}, {minus, 1}}});
    code.sinks.push_back({NodeId(6), {StreamIndex(1), StreamIndex(2)}, {{minus, 1}, {1, 0}}});
    if (field != FieldKind::kFloat32) return;
    for (PlanStream& stream : session.streams) {
      stream.coded->byte_row = stream.coded->row;
      stream.coded->byte_factors.assign(stream.coded->terms.size(), 1);
    }
    code.sinks[0].byte_inverse = {{1, 0}, {1, 1}};
    code.sinks[1].byte_inverse = {{1, 1}, {1, 0}};
  }

  // Six nodes that all reach one another; 0 sends to 1 and 2. Each of the five others takes a part on: four
  // blocks and their sum, whichever of which may be lost. `without`: relays that nothing goes through; so
  // many blocks are fewer.
  void add_redundant_mesh(double link_bps, Duration latency = {}, const std::vector<int>& without = {}) {
    constexpr std::uint32_t kMeshed = 6;
    for (std::uint32_t from = 0; from < kMeshed; ++from) {
      for (std::uint32_t to = 0; to < kMeshed; ++to) {
        if (from != to) add_link(from, to, link_bps, latency);
      }
    }
    Trees trees = {{{{0, 1}, {1, 2}}, link_bps}, {{{0, 2}, {2, 1}}, link_bps}};
    for (const int relay : {3, 4, 5}) {
      if (std::ranges::find(without, relay) == without.end())
        trees.push_back({{{0, relay}, {relay, 1}, {relay, 2}}, link_bps});
    }
    add_broadcast(0, {0, 1, 2}, trees);
    const auto blocks = static_cast<std::uint32_t>(trees.size() - 1);
    PlanSession& session = plan_.sessions.back();
    session.rate_bps = blocks * link_bps;
    plan_.collectives.back().rate_bps = session.rate_bps;
    PlanCode code{FieldKind::kGf256, blocks, session.rate_bps, {}, 1};
    PlanCode::Sink sink;
    for (std::uint16_t part = 0; part <= blocks; ++part) {
      std::vector<double> row(blocks, part == blocks ? 1 : 0);
      if (part < blocks) row[part] = 1;
      if (part < blocks) sink.inverse.push_back(row);
      session.streams[part].coded = PlanCodePart{0, NodeId(0), {}, row};
      sink.streams.emplace_back(part);
    }
    for (const std::uint32_t member : {1U, 2U}) {
      sink.member = NodeId(member);
      code.sinks.push_back(sink);
    }
    session.codes.push_back(std::move(code));
  }

  [[nodiscard]] std::shared_ptr<const Plan> build() const { return std::make_shared<const Plan>(plan_); }

 private:
  void add_collective(CollectiveOp op, std::uint64_t size_bytes) {
    PlanCollective collective;
    collective.id = CollectiveId(static_cast<std::uint32_t>(plan_.collectives.size()));
    collective.op = op;
    collective.size_bytes = size_bytes;
    plan_.collectives.push_back(collective);
  }

  // The same session has the same number in every plan, as the controller sees to it.
  [[nodiscard]] SessionId own_session() const { return SessionId(plan_.collectives.back().id.value()); }
  [[nodiscard]] SessionId share_session(std::uint32_t root) const {
    return SessionId(1'000 + 100 * plan_.collectives.back().id.value() + 2 * root);
  }

  void add_session(SessionId id, SessionKind kind, std::uint32_t root,
                   const std::vector<std::uint32_t>& members, const Trees& trees, std::uint64_t offset_bytes,
                   std::uint64_t size_bytes) {
    PlanCollective& collective = plan_.collectives.back();
    PlanSession session;
    session.id = id;
    session.collective = collective.id;
    session.kind = kind;
    session.root = NodeId(root);
    session.offset_bytes = offset_bytes;
    session.size_bytes = size_bytes;
    for (const auto member : members) session.members.emplace_back(member);
    for (const auto& [links, rate] : trees) {
      PlanStream stream;
      for (const auto& [from, to] : links) stream.links.emplace_back(NodeId(from), NodeId(to));
      stream.rate_bps = rate;
      session.rate_bps += rate;
      session.streams.push_back(std::move(stream));
    }
    collective.rate_bps += session.rate_bps;
    collective.sessions.push_back(session.id);
    plan_.sessions.push_back(std::move(session));
  }

  Plan plan_;
};

// All nodes of one simulation. Destroyed nodes first, the simulation last.
class Overlay {
 public:
  // What stands between a node and its transport.
  using Wrap =
      std::function<std::unique_ptr<Transport>(std::size_t node, std::unique_ptr<Transport> transport)>;

  Overlay(std::uint64_t seed, std::size_t node_count, DataPlaneOptions options = {}, Wrap wrap = {})
      : simulation(seed), options_(std::move(options)), wrap_(std::move(wrap)), hosts_(node_count) {
    for (std::size_t i = 0; i < node_count; ++i) start(i);
    for (std::size_t i = 0; i < node_count; ++i) introduce(i);
  }
  ~Overlay() {
    for (auto& host : hosts_) host.transport->stop();
  }

  // Another process takes the node's name.
  void restart(std::size_t index, std::uint32_t incarnation) {
    hosts_[index].transport->stop();
    hosts_[index].node.reset();
    hosts_[index] = {};
    options_.incarnation = incarnation;
    start(index);
    introduce(index);
  }

  // The same with options of its own.
  void restart(std::size_t index, std::uint32_t incarnation, DataPlaneOptions options) {
    std::swap(options_, options);
    restart(index, incarnation);
    std::swap(options_, options);
  }

  DataPlane& node(std::size_t index) { return *hosts_[index].node; }
  Transport& transport(std::size_t index) { return *hosts_[index].transport; }

  // Both phases of a change of plan, on all nodes.
  bool publish(const std::shared_ptr<const Plan>& plan, bool moves = false) {
    std::size_t installed = 0;
    for (auto& host : hosts_) host.node->install_plan(plan, [&](Epoch) { ++installed; });
    if (!run([&] { return installed == hosts_.size(); })) return false;
    for (auto& host : hosts_) host.node->activate_plan(plan->epoch, moves);
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

  // Has the line from one node to another break, or come back.
  void set_cut(std::size_t from, std::size_t to, bool is_cut) {
    LinkConditions line = simulation.conditions(node_name(from), node_name(to));
    line.is_cut = is_cut;
    simulation.set_conditions(node_name(from), node_name(to), line);
  }

  // Has nothing pass on the line from one node to another, and nothing break.
  void set_stalled(std::size_t from, std::size_t to, bool is_stalled) {
    LinkConditions line = simulation.conditions(node_name(from), node_name(to));
    line.is_stalled = is_stalled;
    simulation.set_conditions(node_name(from), node_name(to), line);
  }

  Simulation simulation;

 private:
  struct Host {
    std::unique_ptr<Executor> executor;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<DataPlane> node;
  };

  void start(std::size_t index) {
    options_.name = node_name(index);
    Host& host = hosts_[index];
    host.executor = simulation.make_executor(options_.name);
    host.transport = simulation.make_transport(options_.name);
    if (wrap_) host.transport = wrap_(index, std::move(host.transport));
    host.node = std::make_unique<DataPlane>(options_, simulation.clock(), *host.transport, *host.executor);
    if (!host.node->start().is_ok()) std::abort();
  }
  void introduce(std::size_t index) {
    for (std::size_t other = 0; other < hosts_.size(); ++other) {
      if (other != index)
        hosts_[index].node->set_address(node_name(other), hosts_[other].transport->address());
    }
  }

  DataPlaneOptions options_;
  Wrap wrap_;
  std::vector<Host> hosts_;
};

inline NodeStatistics statistics_of(Overlay& overlay, std::size_t node) {
  std::optional<NodeStatistics> now;
  overlay.node(node).statistics([&](NodeStatistics statistics) { now = statistics; });
  overlay.run([&] { return now.has_value(); });
  return now.value_or(NodeStatistics{});
}

// Lines of an overlay that break and come back, whatever runs over them.
class Cuts {
 public:
  Cuts(Overlay& overlay, std::size_t nodes, std::uint64_t seed)
      : overlay_(overlay), nodes_(nodes), random_(seed) {}

  // Cuts a line, or has one back.
  void change() {
    if (!cut_.empty() && random_() % 2 == 0) return restore(random_() % cut_.size());
    const auto from = static_cast<std::size_t>(random_() % nodes_);
    const auto to = static_cast<std::size_t>(random_() % nodes_);
    if (from == to) return;
    const Line line{node_name(from), node_name(to),
                    overlay_.simulation.conditions(node_name(from), node_name(to))};
    if (line.conditions.is_cut) return;
    LinkConditions cut = line.conditions;
    cut.is_cut = true;
    cut_.push_back(line);
    overlay_.simulation.set_conditions(line.from, line.to, cut);
  }
  void restore_all() {
    while (!cut_.empty()) restore(0);
  }
  // For a while, at random times, then no more.
  void rage(const std::function<bool()>& finished, int changes = 40) {
    for (; changes > 0 && !finished(); --changes) {
      overlay_.run(finished, std::chrono::milliseconds(random_() % 1'000));
      change();
    }
    restore_all();
  }

 private:
  struct Line {
    std::string from;
    std::string to;
    LinkConditions conditions;
  };
  void restore(std::size_t index) {
    const Line line = cut_[index];
    cut_.erase(cut_.begin() + static_cast<std::ptrdiff_t>(index));
    overlay_.simulation.set_conditions(line.from, line.to, line.conditions);
  }

  Overlay& overlay_;
  const std::size_t nodes_;
  std::mt19937_64 random_;
  std::vector<Line> cut_;
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
  Duration timeout = std::chrono::seconds(400);
  GroupCall group_call{};
  ElementType elements = ElementType::kBytes;

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
    call.call = group_call;
    call.elements = elements;
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

inline std::vector<std::byte> payload(std::size_t size, std::uint64_t seed = 11) {
  std::mt19937_64 random(seed);
  return random_bytes(random, size);
}

inline void pass(Overlay& overlay, Duration time) {
  overlay.run([] { return false; }, time);
}

inline std::uint64_t seed_from_environment(std::uint64_t otherwise) {
  const char* text = std::getenv("SQUARE_SEED");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace square::test
