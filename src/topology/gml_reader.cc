// GML: `graph [ node [ id 0 label "A" ] edge [ source 0 target 1 LinkSpeedRaw 1000.0 ] ]`.
#include <fmt/format.h>

#include <charconv>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "square/topology.h"
#include "topology/edge_speeds.h"
#include "topology/gml_tokens.h"
#include "topology/labelled_graph.h"
#include "topology/readers.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr std::size_t kMaxGmlDepth = 64;

struct RawNode {
  std::size_t line = 0;
  std::optional<std::int64_t> id;
  std::string label;
};

struct RawEdge {
  std::size_t line = 0;
  std::optional<std::int64_t> source;
  std::optional<std::int64_t> target;
  std::optional<double> capacity_bps;
};

class GmlReader {
 public:
  GmlReader(std::string_view text, std::string_view source_name, const TopologyReadOptions& options)
      : tokens_(text, source_name), source_name_(source_name), speeds_(options) {}

  Result<Topology> read() {
    SQUARE_RETURN_IF_ERROR(
        for_each_entry(GmlTokenKind::kEnd, [&](const GmlToken& key, const GmlToken& value) {
          return key.text == "graph" ? read_graph(value) : skip(value);
        }));
    if (!seen_graph_) return tokens_.error(1, "no \"graph [ ... ]\" in the file");
    if (const auto complaint = speeds_.complaint())
      return tokens_.error(complaint->place, complaint->message);
    return build();
  }

 private:
  // Calls `handle(key, value)` for each entry of a list; a value that opens a list is read by `handle`.
  template <typename Handle>
  Status for_each_entry(GmlTokenKind end, Handle handle) {
    for (;;) {
      SQUARE_ASSIGN_OR_RETURN(const GmlToken key, tokens_.next());
      if (key.kind == end) return {};
      if (key.kind == GmlTokenKind::kEnd)
        return tokens_.error(key.line, "the file ends inside a list: \"]\" is missing");
      if (key.kind != GmlTokenKind::kWord) {
        return tokens_.error(key.line, fmt::format("{}: a key must stand here", quoted("found", key.text)));
      }
      SQUARE_ASSIGN_OR_RETURN(const GmlToken value, tokens_.next());
      if (value.kind == GmlTokenKind::kEnd || value.kind == GmlTokenKind::kClose) {
        return tokens_.error(key.line, fmt::format("{}: has no value", excerpt(key.text)));
      }
      SQUARE_RETURN_IF_ERROR(handle(key, value));
    }
  }

  // Reads over a value, lists and all.
  Status skip(const GmlToken& value) {
    std::size_t depth = value.kind == GmlTokenKind::kOpen ? 1 : 0;
    while (depth > 0) {
      SQUARE_ASSIGN_OR_RETURN(const GmlToken token, tokens_.next());
      if (token.kind == GmlTokenKind::kEnd)
        return tokens_.error(value.line, "a list does not end: \"]\" is missing");
      if (token.kind == GmlTokenKind::kOpen && ++depth > kMaxGmlDepth) {
        return resource_exhausted(
            fmt::format("{}:{}: lists nested deeper than {}", source_name_, token.line, kMaxGmlDepth));
      }
      if (token.kind == GmlTokenKind::kClose) --depth;
    }
    return {};
  }

  Status expect_list(std::string_view key, const GmlToken& value) const {
    if (value.kind == GmlTokenKind::kOpen) return {};
    return tokens_.error(value.line, fmt::format("{}: must be a list in brackets", key));
  }

  Status read_graph(const GmlToken& value) {
    SQUARE_RETURN_IF_ERROR(expect_list("graph", value));
    if (seen_graph_) return tokens_.error(value.line, "graph: there are two in the file");
    seen_graph_ = true;
    return for_each_entry(GmlTokenKind::kClose, [&](const GmlToken& key, const GmlToken& entry) -> Status {
      if (key.text == "node") return read_node(entry);
      if (key.text == "edge") return read_edge(entry);
      if (key.text != "directed") return skip(entry);
      SQUARE_ASSIGN_OR_RETURN(const auto flag, integer("directed", entry));
      if (flag != 0 && flag != 1) return tokens_.error(entry.line, "directed: must be 0 or 1");
      directed_ = flag == 1;
      return {};
    });
  }

  Status read_node(const GmlToken& value) {
    SQUARE_RETURN_IF_ERROR(expect_list("node", value));
    if (nodes_.size() >= kMaxNodes) {
      return resource_exhausted(
          fmt::format("{}:{}: more than {} nodes", source_name_, value.line, kMaxNodes));
    }
    RawNode node;
    node.line = value.line;
    SQUARE_RETURN_IF_ERROR(
        for_each_entry(GmlTokenKind::kClose, [&](const GmlToken& key, const GmlToken& entry) -> Status {
          if (key.text == "id") {
            SQUARE_ASSIGN_OR_RETURN(node.id, integer("node.id", entry));
            return {};
          }
          if (key.text == "label" && entry.kind != GmlTokenKind::kOpen) {
            node.label = decode_gml_string(entry.text);
            return {};
          }
          return skip(entry);
        }));
    if (!node.id) return tokens_.error(node.line, "node.id: is missing");
    nodes_.push_back(std::move(node));
    return {};
  }

  Status read_edge(const GmlToken& value) {
    SQUARE_RETURN_IF_ERROR(expect_list("edge", value));
    if (edges_.size() >= kMaxLinks) {
      return resource_exhausted(
          fmt::format("{}:{}: more than {} links", source_name_, value.line, kMaxLinks));
    }
    RawEdge edge;
    edge.line = value.line;
    EdgeSpeed speed;
    SQUARE_RETURN_IF_ERROR(
        for_each_entry(GmlTokenKind::kClose, [&](const GmlToken& key, const GmlToken& entry) -> Status {
          if (key.text == "source") {
            SQUARE_ASSIGN_OR_RETURN(edge.source, integer("edge.source", entry));
          } else if (key.text == "target") {
            SQUARE_ASSIGN_OR_RETURN(edge.target, integer("edge.target", entry));
          } else {
            return read_speed(key.text, entry, speed);
          }
          return {};
        }));
    auto capacity = speeds_.capacity_bps(speed, edge.line);
    if (!capacity.is_ok()) return at_line(edge.line, capacity.status());
    edge.capacity_bps = *capacity;
    if (!edge.source) return tokens_.error(edge.line, "edge.source: is missing");
    if (!edge.target) return tokens_.error(edge.line, "edge.target: is missing");
    edges_.push_back(edge);
    return {};
  }

  Result<std::int64_t> integer(std::string_view key, const GmlToken& value) const {
    std::int64_t number = 0;
    const char* const end = value.text.data() + value.text.size();
    const auto [stop, error] = std::from_chars(value.text.data(), end, number);
    if (value.kind != GmlTokenKind::kNumber || error != std::errc{} || stop != end) {
      return tokens_.error(value.line,
                           fmt::format("{}: must be a whole number, not \"{}\"", key, excerpt(value.text)));
    }
    return number;
  }

  Status read_speed(std::string_view key, const GmlToken& value, EdgeSpeed& speed) {
    if (value.kind == GmlTokenKind::kOpen) {
      if (key != "LinkSpeedRaw" && !speed_key(key)) return skip(value);
      return tokens_.error(value.line, fmt::format("edge.{}: must be a number, not a list", excerpt(key)));
    }
    const Status read = speeds_.read(key, decode_gml_string(value.text), value.line, speed);
    if (read.is_ok()) return read;
    return tokens_.error(value.line, fmt::format("edge.{}: {}", excerpt(key), read.message()));
  }

  Result<Topology> build() const {
    std::unordered_map<std::int64_t, NodeId> by_id;
    for (const RawNode& node : nodes_) {
      const NodeId number(static_cast<NodeId::value_type>(by_id.size()));
      if (!by_id.emplace(*node.id, number).second) {
        return tokens_.error(node.line, fmt::format("node.id: two nodes have the id {}", *node.id));
      }
    }
    Topology topology;
    std::vector<LabelledNode> labelled;
    labelled.reserve(nodes_.size());
    for (const RawNode& node : nodes_) labelled.push_back({std::to_string(*node.id), node.label});
    const std::vector<std::string> names = unique_names(labelled);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto node = topology.add_node({.name = names[i]});
      if (!node.is_ok()) return at_line(nodes_[i].line, node.status());
    }
    for (const RawEdge& edge : edges_) {
      const auto source = by_id.find(*edge.source);
      if (source == by_id.end()) return unknown_end("source", edge, *edge.source);
      const auto target = by_id.find(*edge.target);
      if (target == by_id.end()) return unknown_end("target", edge, *edge.target);
      const Status added = add_edge(topology, source->second, target->second, directed_, edge.capacity_bps);
      if (!added.is_ok()) return at_line(edge.line, added);
    }
    return topology;
  }

  [[nodiscard]] Status unknown_end(std::string_view which, const RawEdge& edge, std::int64_t id) const {
    return tokens_.error(edge.line, fmt::format("edge.{}: no node has the id {}", which, id));
  }
  [[nodiscard]] Status at_line(std::size_t line, const Status& status) const {
    return status.with_context(fmt::format("{}:{}", source_name_, line));
  }

  GmlTokens tokens_;
  std::string_view source_name_;
  EdgeSpeeds speeds_;
  bool seen_graph_ = false;
  bool directed_ = false;
  std::vector<RawNode> nodes_;
  std::vector<RawEdge> edges_;
};

}  // namespace

Result<Topology> read_gml(std::string_view text, std::string_view source_name,
                          const TopologyReadOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(text, plain_text(text, source_name));
  return GmlReader(text, source_name, options).read();
}

Result<Topology> parse_gml(std::string_view text, std::string_view source_name) {
  return read_gml(text, source_name, {});
}

}  // namespace square
