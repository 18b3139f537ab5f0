// The overlay: a directed graph whose two directions are two links, each with its own
// capacity, latency and price, and nodes whose limits all their links share.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "square/ids.h"
#include "square/status.h"
#include "square/units.h"

namespace square {

// Bounds on what a reader accepts; more is RESOURCE_EXHAUSTED, before it is stored.
inline constexpr std::size_t kMaxNodes = 100'000;
inline constexpr std::size_t kMaxLinks = 4'000'000;
inline constexpr std::size_t kMaxTopologyFileBytes = std::size_t{1} << 30U;

struct TopologyNode {
  std::string name;
  // Limits over all links that leave and enter, bits per second; kUnlimited: none.
  double egress_bps = kUnlimited;
  double ingress_bps = kUnlimited;
};

struct LinkProperties {
  // Bits per second; kUnlimited: not measured yet, and so not paced.
  double capacity_bps = kUnlimited;
  Duration latency{0};
  double price_usd_per_gb = 0.0;
  // How far the capacity is known to stray from what `capacity_bps`, its mean, says.
  double capacity_stddev_bps = 0.0;
  // The capacity stands, whatever is measured.
  bool is_fixed = false;
  // What may be sent at most where the capacity was measured; 0: the capacity.
  double most_bps = 0.0;
};

struct TopologyLink {
  NodeId from;
  NodeId to;
  LinkProperties properties;
};

// A value: copies are independent. Const access is thread-safe.
class Topology {
 public:
  Topology();
  Topology(const Topology& other);
  Topology(Topology&& other) noexcept;
  Topology& operator=(const Topology& other);
  Topology& operator=(Topology&& other) noexcept;
  ~Topology();

  // Errors: INVALID_ARGUMENT for a name that is empty, not UTF-8 or holds a zero byte, for
  // a limit that is zero, negative or NaN; ALREADY_EXISTS for a name in use; RESOURCE_EXHAUSTED past
  // kMaxNodes.
  Result<NodeId> add_node(TopologyNode node);

  // Adds the directed link; a second link between the same two nodes adds up to one:
  // capacities add, and so do the squares of their standard deviations; the latency is the
  // larger, the price is the mean weighted by capacity. Errors: INVALID_ARGUMENT for a loop,
  // a capacity that is zero, negative or NaN, a negative latency or one above a day, a price
  // or standard deviation that is negative or not finite, capacities whose sum is too large;
  // RESOURCE_EXHAUSTED past kMaxLinks.
  Result<LinkId> add_link(NodeId from, NodeId to, const LinkProperties& properties);
  // The same by name. Errors: also NOT_FOUND for a name that is not a node.
  Result<LinkId> add_link(std::string_view from, std::string_view to, const LinkProperties& properties);

  // Replace what was set. Errors: INVALID_ARGUMENT as above.
  Status set_capacity(LinkId link, double capacity_bps);
  // What was measured of a link, in place of the operator's capacity and its deviation. Errors: as above.
  Status set_measured(LinkId link, double capacity_bps, double most_bps);
  Status set_limits(NodeId node, double egress_bps, double ingress_bps);

  [[nodiscard]] std::size_t node_count() const;
  [[nodiscard]] std::size_t link_count() const;
  // Precondition of all below: the ids are of this topology.
  [[nodiscard]] const TopologyNode& node(NodeId node) const;
  [[nodiscard]] const TopologyLink& link(LinkId link) const;
  [[nodiscard]] std::span<const LinkId> out_links(NodeId node) const;
  [[nodiscard]] std::span<const LinkId> in_links(NodeId node) const;
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;
  [[nodiscard]] std::optional<LinkId> find_link(NodeId from, NodeId to) const;

  // The nodes that can be reached from `source` (itself included), by id.
  [[nodiscard]] std::vector<bool> reachable_from(NodeId source) const;

  // The Boost.Graph view; its type is private to the library.
  struct Graph;
  [[nodiscard]] const Graph& graph() const { return *graph_; }

 private:
  std::unique_ptr<Graph> graph_;
};

// What the caller knows of a topology file.
struct TopologyReadOptions {
  // The bits per second of one, for numbers without a unit under a key that does not say it. Nothing: they
  // are bits per second, and a file whose fastest is below 1 Mbit/s then is refused. 0: they are no speeds.
  std::optional<double> unit_bps;
};
// By the name of the unit, such as "Mbit/s", "Gbps" or "MB/s"; "none": numbers without a unit are no speeds.
// Errors: INVALID_ARGUMENT for any other text.
Result<TopologyReadOptions> topology_read_options(std::string_view unit);

// Reads GML, GraphML, CSV or TOML, told apart by the file's extension.
//
// GML: an undirected graph (the default) gives two links an edge. A node's name is its
// label; a label that several nodes share, or that is empty, becomes "label (id)".
// The capacity is the edge's LinkSpeedRaw (bits per second), else LinkSpeed with LinkSpeedUnits, else
// `bandwidth`, `capacity`, `speed` or such a word, else what its label states.
// GraphML: the same, with the names of data keys, and the labels that yEd draws; a node without a label has
// its id for one. CSV: a header with `from`, `to`, and any of `capacity_mbps` (or another word and unit, such
// as `bandwidth_gbps`), `capacity_stddev_mbps`, `latency_ms` (or `rtt_ms`, halved), `price_usd_per_gb` (or
// `egress_usd_per_gb`); one directed link a row. TOML: [[node]] and [[link]] tables with the keys of a
// scenario's overlay (see scenario.h).
//
// Texts such as "155 Mbps" are read by their unit. Links without a capacity stay kUnlimited. Errors:
// NOT_FOUND for a file that is not there, INVALID_ARGUMENT with file, line and key for one that cannot be
// read, also where all numbers without a unit are implausible; RESOURCE_EXHAUSTED past the bounds above.
// Blocks on the file.
Result<Topology> read_topology(const std::filesystem::path& file, const TopologyReadOptions& options = {});

// The same readers on text; `source_name` stands for the file in messages.
Result<Topology> parse_gml(std::string_view text, std::string_view source_name);
// GraphML takes many times the text's size while it is read; text past 256 MiB is
// RESOURCE_EXHAUSTED. Entities that a document defines are not expanded, files that it names
// are not read.
Result<Topology> parse_graphml(std::string_view text, std::string_view source_name);
Result<Topology> parse_csv(std::string_view text, std::string_view source_name);
Result<Topology> parse_topology_toml(std::string_view text, std::string_view source_name);

// A full mesh of the named nodes, every link with the given properties.
Result<Topology> full_mesh(std::span<const std::string> names, const LinkProperties& properties);

// Gives links a capacity drawn from a normal distribution, in link order, from a
// seeded generator that is the same on every machine. A draw below 1% of the mean is
// drawn again. `only_unlimited` leaves measured links as they are. Errors:
// INVALID_ARGUMENT unless mean > 0, stddev >= 0 and stddev <= mean, all finite.
Status draw_capacities(Topology& topology, double mean_bps, double stddev_bps, std::uint64_t seed,
                       bool only_unlimited = true);

}  // namespace square
