// GraphML: <graphml><key id="d0" for="edge" attr.name="LinkSpeedRaw"/><graph edgedefault="undirected">
//   <node id="a"/><node id="b"/><edge source="a" target="b"><data key="d0">1000</data></edge>...
#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "square/topology.h"
#include "topology/edge_speeds.h"
#include "topology/labelled_graph.h"
#include "topology/readers.h"
#include "topology/text.h"

namespace square {
namespace {

// pugixml keeps the text, 64 bytes for each element and 40 for each attribute: with these
// bounds 5 GiB at most.
constexpr std::size_t kMaxGraphmlBytes = std::size_t{1} << 28U;
constexpr std::size_t kMaxTags = std::size_t{1} << 25U;

// Does the declaration in front of the document say that bytes are characters of ISO 8859-1?
bool declares_latin1(std::string_view text) {
  if (!text.starts_with("<?xml")) return false;
  const std::string declaration = lower_case(text.substr(0, text.find("?>")).substr(0, 256));
  return declaration.find("iso-8859-1") != std::string::npos ||
         declaration.find("latin1") != std::string::npos;
}

// What a <key> says about the <data> that name it.
struct Key {
  std::string name;    // attr.name
  std::string domain;  // "node", "edge", "all", ...
};

class GraphmlReader {
 public:
  GraphmlReader(std::string_view text, std::string_view source_name, const TopologyReadOptions& options)
      : text_(text), source_name_(source_name), speeds_(options) {}

  Result<Topology> read() {
    SQUARE_RETURN_IF_ERROR(parse());
    const pugi::xml_node root = document_.document_element();
    if (std::string_view(root.name()) != "graphml") {
      return error(root, fmt::format("{}, not <graphml>", quoted("the outermost element is", root.name())));
    }
    SQUARE_RETURN_IF_ERROR(read_keys(root));
    const pugi::xml_node graph = root.child("graph");
    if (!graph) return error(root, "graphml: has no <graph>");
    if (const pugi::xml_node second = graph.next_sibling("graph")) {
      return error(second, "graph: there are two in the file");
    }
    SQUARE_ASSIGN_OR_RETURN(directed_, read_direction(graph, "edgedefault", "directed", "undirected"));
    SQUARE_RETURN_IF_ERROR(read_nodes(graph));
    for (const pugi::xml_node edge : graph.children("edge")) SQUARE_RETURN_IF_ERROR(read_edge(edge));
    if (const auto complaint = speeds_.complaint()) {
      return error_at(static_cast<std::ptrdiff_t>(complaint->place), complaint->message);
    }
    return std::move(topology_);
  }

 private:
  Status parse() {
    if (std::ranges::count(text_, '<') > static_cast<std::ptrdiff_t>(kMaxTags)) {
      return resource_exhausted(
          fmt::format("{}: more than {} tags: write the links as .gml or .csv", source_name_, kMaxTags));
    }
    // pugixml skips the document type: entities that it defines stay as they are written.
    const auto result = document_.load_buffer(
        text_.data(), text_.size(), pugi::parse_default | pugi::parse_embed_pcdata, pugi::encoding_utf8);
    if (result.status == pugi::status_out_of_memory) {
      return resource_exhausted(fmt::format("{}: not enough memory to read it", source_name_));
    }
    if (!result) {
      return error_at(result.offset,
                      fmt::format("not well-formed XML, or cut off: {}", result.description()));
    }
    return {};
  }

  Status read_keys(const pugi::xml_node& root) {
    for (const pugi::xml_node element : root.children("key")) {
      const char* const id = element.attribute("id").value();
      if (*id == '\0') return error(element, "key.id: is missing");
      // Keys of a program's own, such as drawings, have no name; those of Cytoscape have it for their id.
      Key key{element.attribute("attr.name").as_string(id), element.attribute("for").as_string("all")};
      if (!keys_.emplace(id, key).second) return error(element, quoted("key.id: two keys have the id", id));
      const pugi::xml_node preset = element.child("default");
      if (!preset) continue;
      if (is_for(key, "edge")) SQUARE_RETURN_IF_ERROR(read_speed(preset, key.name, speed_));
      if (is_for(key, "node") && key.name == "label") label_ = trim(content(preset));
    }
    return {};
  }

  Status read_nodes(const pugi::xml_node& graph) {
    std::vector<LabelledNode> nodes;
    std::vector<pugi::xml_node> elements;
    for (const pugi::xml_node element : graph.children()) {
      SQUARE_RETURN_IF_ERROR(refuse(element));
      if (std::string_view(element.name()) != "node") continue;
      if (nodes.size() >= kMaxNodes) {
        return resource_exhausted(
            fmt::format("{}:{}: more than {} nodes", source_name_, line_of(element), kMaxNodes));
      }
      SQUARE_ASSIGN_OR_RETURN(LabelledNode node, read_node(element));
      const NodeId number(static_cast<NodeId::value_type>(nodes.size()));
      if (!node_by_id_.emplace(node.id, number).second) {
        return error(element, quoted("node.id: two nodes have the id", node.id));
      }
      nodes.push_back(std::move(node));
      elements.push_back(element);
    }
    const std::vector<std::string> names = unique_names(nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto added = topology_.add_node({.name = names[i]});
      if (!added.is_ok()) return at(elements[i], added.status());
    }
    return {};
  }

  // A port is a place of its node where edges end: the node's name is all that is needed.
  Result<LabelledNode> read_node(const pugi::xml_node& element) {
    LabelledNode node{element.attribute("id").value(), label_};
    if (node.id.empty()) return error(element, "node.id: is missing");
    std::vector<std::string> drawn;  // by yEd
    SQUARE_RETURN_IF_ERROR(for_each_data(element, "node", [&](const Key& key, const pugi::xml_node& data) {
      if (key.name == "label") node.label = trim(content(data));
      for (std::string& label : drawn_labels(data, "NodeLabel")) drawn.push_back(std::move(label));
      return Status();
    }));
    if (node.label.empty()) node.label = drawn.empty() ? node.id : drawn.front();
    return node;
  }

  Status read_edge(const pugi::xml_node& edge) {
    SQUARE_ASSIGN_OR_RETURN(const NodeId source, end_of(edge, "source"));
    SQUARE_ASSIGN_OR_RETURN(const NodeId target, end_of(edge, "target"));
    bool directed = directed_;
    if (edge.attribute("directed")) {
      SQUARE_ASSIGN_OR_RETURN(directed, read_direction(edge, "directed", "true", "false"));
    }
    EdgeSpeed speed = speed_;
    // What the edge says replaces the default, also where it says "unknown".
    speed.field_bps.reset();
    speed.field_key.clear();
    SQUARE_RETURN_IF_ERROR(for_each_data(edge, "edge", [&](const Key& key, const pugi::xml_node& data) {
      return read_speed(data, key.name, speed);
    }));
    if (speed.field_key.empty()) speed.field_bps = speed_.field_bps;
    auto capacity = speeds_.capacity_bps(speed, place_of(edge));
    if (!capacity.is_ok()) return at(edge, capacity.status());
    return at(edge, add_edge(topology_, source, target, directed, *capacity));
  }

  Result<NodeId> end_of(const pugi::xml_node& edge, const char* which) const {
    const char* const id = edge.attribute(which).value();
    if (*id == '\0') return error(edge, fmt::format("edge.{}: is missing", which));
    const auto node = node_by_id_.find(id);
    if (node != node_by_id_.end()) return node->second;
    return error(edge, fmt::format("edge.{}: {}", which, quoted("no node has the id", id)));
  }

  // True for `yes`, false for `no`.
  Result<bool> read_direction(const pugi::xml_node& element, const char* attribute, std::string_view yes,
                              std::string_view no) const {
    const std::string_view value = element.attribute(attribute).value();
    if (value == yes || value == no) return value == yes;
    return error(element, fmt::format("{}.{}: must be \"{}\" or \"{}\", not \"{}\"", element.name(),
                                      attribute, yes, no, excerpt(value)));
  }

  Status read_speed(const pugi::xml_node& data, std::string_view name, EdgeSpeed& speed) {
    Status read = speeds_.read(name, content(data), place_of(data), speed);
    if (!read.is_ok()) return error(data, fmt::format("edge.{}: {}", excerpt(name), read.message()));
    for (const std::string& label : drawn_labels(data, "EdgeLabel")) {
      read = speeds_.read_label(label, LabelKind::kDrawn, place_of(data), speed);
      if (!read.is_ok()) return error(data, fmt::format("edge label: {}", read.message()));
    }
    return {};
  }

  // The labels of that kind that yEd has drawn: <data><y:ShapeNode><y:NodeLabel>Berlin</y:NodeLabel>...
  static std::vector<std::string> drawn_labels(const pugi::xml_node& data, std::string_view kind) {
    std::vector<std::string> labels;
    for (const pugi::xml_node shape : data.children()) {
      for (const pugi::xml_node part : shape.children()) {
        std::string_view name = part.name();
        name.remove_prefix(std::min(name.size(), name.find(':') + 1));
        if (name != kind) continue;
        const std::string text = content(part);
        if (!trim(text).empty()) labels.emplace_back(trim(text));
      }
    }
    return labels;
  }

  // Calls `handle(key, data)` for the <data> of a node or edge whose key is for such.
  template <typename Handle>
  Status for_each_data(const pugi::xml_node& element, std::string_view domain, Handle handle) const {
    for (const pugi::xml_node child : element.children()) {
      SQUARE_RETURN_IF_ERROR(refuse(child));
      if (std::string_view(child.name()) != "data") continue;
      const char* const id = child.attribute("key").value();
      const auto key = keys_.find(id);
      if (key == keys_.end()) return error(child, quoted("data.key: no <key> has the id", id));
      if (is_for(key->second, domain)) SQUARE_RETURN_IF_ERROR(handle(key->second, child));
    }
    return {};
  }

  // What cannot be a topology's is an error rather than lost.
  [[nodiscard]] Status refuse(const pugi::xml_node& element) const {
    const std::string_view name = element.name();
    if (name == "graph") return error(element, "graph: a graph inside another is not read: take it out");
    if (name == "hyperedge") {
      return error(element, "hyperedge: a link joins two nodes: write one <edge> for each pair");
    }
    if (name == "locator") return error(element, "locator: other files are not read: put their text here");
    return {};
  }

  static bool is_for(const Key& key, std::string_view domain) {
    return key.domain == domain || key.domain == "all";
  }

  // The text of an element, comments left out.
  static std::string content(const pugi::xml_node& element) {
    std::string text = element.value();
    for (const pugi::xml_node part : element.children()) {
      if (part.type() == pugi::node_pcdata || part.type() == pugi::node_cdata) text += part.value();
    }
    return text;
  }

  static std::size_t place_of(const pugi::xml_node& element) {
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, element.offset_debug()));
  }
  [[nodiscard]] std::size_t line_at(std::ptrdiff_t offset) const {
    const auto end = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset));
    return 1 + static_cast<std::size_t>(std::ranges::count(text_.substr(0, end), '\n'));
  }
  [[nodiscard]] std::size_t line_of(const pugi::xml_node& element) const {
    return line_at(element.offset_debug());
  }
  [[nodiscard]] Status error_at(std::ptrdiff_t offset, std::string_view message) const {
    return invalid_argument(fmt::format("{}:{}: {}", source_name_, line_at(offset), message));
  }
  [[nodiscard]] Status error(const pugi::xml_node& element, std::string_view message) const {
    return error_at(element.offset_debug(), message);
  }
  // `status` with the place in front; OK stays OK.
  [[nodiscard]] Status at(const pugi::xml_node& element, const Status& status) const {
    if (status.is_ok()) return status;
    return status.with_context(fmt::format("{}:{}", source_name_, line_of(element)));
  }

  std::string_view text_;
  std::string_view source_name_;
  pugi::xml_document document_;
  std::unordered_map<std::string, Key> keys_;
  bool directed_ = false;  // by default
  EdgeSpeeds speeds_;
  EdgeSpeed speed_;    // by default
  std::string label_;  // by default
  std::unordered_map<std::string, NodeId> node_by_id_;
  Topology topology_;
};

}  // namespace

Result<Topology> read_graphml(std::string_view text, std::string_view source_name,
                              const TopologyReadOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(text, plain_text(text, source_name));
  if (text.size() > kMaxGraphmlBytes) {
    return resource_exhausted(fmt::format("{}: larger than {} bytes: write the links as .gml or .csv",
                                          source_name, kMaxGraphmlBytes));
  }
  if (!declares_latin1(text)) return GraphmlReader(text, source_name, options).read();
  const std::string converted = latin1_to_utf8(text);
  return GraphmlReader(converted, source_name, options).read();
}

Result<Topology> parse_graphml(std::string_view text, std::string_view source_name) {
  return read_graphml(text, source_name, {});
}

}  // namespace square
