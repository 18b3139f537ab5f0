#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "square/topology.h"
#include "topology/reader_checks.h"
#include "topology/test_data.h"

using namespace square;

namespace {

constexpr std::string_view kKeys = R"(<key id="l" for="node" attr.name="label"/>
<key id="s" for="edge" attr.name="LinkSpeedRaw"/><key id="b" for="edge" attr.name="bandwidth"/>
)";

// A document whose line 1 is `begin` and whose keys and graph are the usual ones; `content` begins line 4.
std::string document(std::string_view content, std::string_view direction = "undirected") {
  return "<graphml>" + std::string(kKeys) + "<graph edgedefault=\"" + std::string(direction) + "\">\n" +
         std::string(content) + "</graph></graphml>";
}

}  // namespace

TEST_CASE("GraphML: names, directions and capacities as in GML") {
  const auto topology = parse_graphml(R"(<?xml version="1.0" encoding="utf-8"?>
<!-- from the Topology Zoo -->
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="Network" attr.type="string" for="graph" id="d0" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />
  <key attr.name="label" attr.type="string" for="edge" id="d34" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d35" />
  <key attr.name="bandwidth" id="d36" />
  <key id="drawing" for="node" yfiles.type="nodegraphics" />
  <graph edgedefault="undirected">
    <desc>nobody reads this</desc>
    <data key="d0">Demo</data>
    <edge source="0" target="1"><data key="d35">2500000.0</data><data key="d36">7</data></edge>
    <node id="0"><data key="d33">S&#227;o &quot;Paulo&quot; &amp; <![CDATA[<B>]]></data></node>
    <node id="1"><data key="d33"> two </data><data key="d36">9</data></node>
    <node id="2"><data key="d33">two</data><port name="north"/></node>
    <node id="3"><data key="d33"/></node>
    <node id="n4"><data key="drawing"><y:ShapeNode xmlns:y="y"><y:graph/></y:ShapeNode></data></node>
    <edge source="1" target="2" sourceport="north"><data key="d36">3000</data><data key="d34">x</data></edge>
    <edge source="2" target="3"><data key="d35">unknown</data></edge>
    <edge source="3" target="n4" directed="true"><data key="d35"> +1000
      </data></edge>
    <edge source="3" target="n4" directed="true"><data key="d35">500</data></edge>
    <edge source="n4" target="n4"><data key="d35">5</data></edge>
  </graph>
</graphml>)",
                                      "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  const char* const names[] = {"São \"Paulo\" & <B>", "two (1)", "two (2)", "3", "n4"};
  REQUIRE(topology->node_count() == 5);
  for (std::uint32_t i = 0; i < 5; ++i) CHECK(topology->node(NodeId(i)).name == names[i]);
  CHECK(topology->link_count() == 7);
  CHECK(between(*topology, names[0], "two (1)").capacity_bps == 2.5e6);
  CHECK(between(*topology, "two (1)", names[0]).capacity_bps == 2.5e6);
  CHECK(between(*topology, "two (2)", "two (1)").capacity_bps == 3000);
  CHECK(between(*topology, "two (2)", "3").capacity_bps == kUnlimited);
  CHECK(between(*topology, "3", "n4").capacity_bps == 1500);
  CHECK_FALSE(topology->find_link(NodeId(4), NodeId(3)).has_value());
}

TEST_CASE("GraphML: edges may be undirected in a directed graph, and keys may have defaults") {
  const auto topology = parse_graphml(R"(<graphml>
<key id="l" for="node" attr.name="label"><default>site</default></key>
<key id="b" for="edge" attr.name="bandwidth"><default>1e9</default></key>
<graph edgedefault="directed">
<node id="a"/><node id="b"/><node id="c"><data key="l">c</data></node>
<edge source="a" target="b"/>
<edge source="b" target="c" directed="false"><data key="b">5</data></edge>
<edge source="c" target="a"><data key="b">?</data></edge>
</graph></graphml>)",
                                      "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->link_count() == 4);
  CHECK(between(*topology, "site (a)", "site (b)").capacity_bps == 1e9);
  CHECK(between(*topology, "site (b)", "c").capacity_bps == 5);
  CHECK(between(*topology, "c", "site (b)").capacity_bps == 5);
  CHECK(between(*topology, "c", "site (a)").capacity_bps == kUnlimited);
}

TEST_CASE("GraphML: an id that is somebody's label gets a number as any other name") {
  const auto topology = parse_graphml(document("<node id='x'/><node id='y'><data key='l'>x</data></node>"
                                               "<node id='z'><data key='l'>x (x)</data></node>"),
                                      "in");
  REQUIRE(topology.is_ok());
  CHECK(topology->node(NodeId(0)).name == "x (x)");
  CHECK(topology->node(NodeId(1)).name == "x (y)");
  CHECK(topology->node(NodeId(2)).name == "x (x) (z)");
}

TEST_CASE("GraphML: mistakes are named with file and line") {
  const std::string a_and_b = "<node id='a'/><node id='b'/>\n";
  check_refused(
      parse_graphml,
      {
          {"", "in:1: not well-formed XML, or cut off"},
          {"from,to\na,b\n", "not well-formed XML, or cut off: No document element"},
          {"<graphml>\n<graph edgedefault='directed'>\n<node id='a'>",
           "in:3: not well-formed XML, or cut off"},
          {"<graphml>\n<graph>\n</graphml>", "in:3: not well-formed XML, or cut off"},
          {"<graphml><graph edgedefault=", "in:1: not well-formed XML, or cut off"},
          {"<gml/>", "in:1: the outermost element is \"gml\", not <graphml>"},
          {"<graphml>\n</graphml>", "in:1: graphml: has no <graph>"},
          {"<graphml><graph edgedefault='directed'/>\n<graph edgedefault='directed'/></graphml>",
           "in:2: graph: there are two"},
          {"<graphml>\n<graph/></graphml>",
           "in:2: graph.edgedefault: must be \"directed\" or \"undirected\", not \"\""},
          {document("", "sideways"), "in:3: graph.edgedefault: must be \"directed\" or \"undirected\""},
          {"<graphml>\n<key for='node'/></graphml>", "in:2: key.id: is missing"},
          {"<graphml>\n<key id='d'/>\n<key id='d'/></graphml>", "in:3: key.id: two keys have the id \"d\""},
          {"<graphml><key id='d' attr.name='bandwidth'>\n<default>0</default></key></graphml>",
           "in:2: edge.bandwidth: must be above 0"},
          {document("\n<node/>"), "in:5: node.id: is missing"},
          {document("<node id='a'/>\n<node id='a'/>"), "in:5: node.id: two nodes have the id \"a\""},
          {document("<node id='a'>\n<data key='x'/></node>"), "in:5: data.key: no <key> has the id \"x\""},
          {document("<node id='a'>\n<data>b</data></node>"), "in:5: data.key: no <key> has the id \"\""},
          {document("<node id='a'>\n<graph/></node>"), "in:5: graph: a graph inside another is not read"},
          {document("\n<hyperedge/>"), "in:5: hyperedge: a link joins two nodes: write one <edge>"},
          {document("\n<locator/>"), "in:5: locator: other files are not read"},
          {document(a_and_b + "<edge target='b'/>"), "in:5: edge.source: is missing"},
          {document(a_and_b + "<edge source='a'/>"), "in:5: edge.target: is missing"},
          {document(a_and_b + "<edge source='a' target='c'/>"),
           "in:5: edge.target: no node has the id \"c\""},
          {document(a_and_b + "<edge source='a' target='b' directed='maybe'/>"),
           "in:5: edge.directed: must be \"true\" or \"false\", not \"maybe\""},
          {document(a_and_b + "<edge source='a' target='b'>\n<graph/></edge>"),
           "in:6: graph: a graph inside"},
          {document(a_and_b + "<edge source='a' target='b'>\n<data key='s'>-5</data></edge>"),
           "in:6: edge.LinkSpeedRaw: must be above 0 and finite, not -5"},
          {document(a_and_b + "<edge source='a' target='b'><data key='b'>0</data></edge>"),
           "in:5: edge.bandwidth: must be above 0"},
          {document(a_and_b + "<edge source='a' target='b'><data key='b'>NaN</data></edge>"),
           "edge.bandwidth: must be above 0 and finite, not NaN"},
          {document(a_and_b + "<edge source='a' target='b'><data key='b'>Infinity</data></edge>"),
           "edge.bandwidth: must be above 0 and finite, not Infinity"},
          {document("\n<node id='\xff'/>"), "in:5: a node's name is not UTF-8"},
      });
}

TEST_CASE("GraphML: entities of the document are not expanded and files are not read") {
  const auto folder = std::filesystem::temp_directory_path() / "square_graphml_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "secret") << "secret";
  std::string text =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE graphml [\n<!ENTITY l0 \"lol\">\n<!ENTITY x SYSTEM \"file://" +
      (folder / "secret").string() + "\">\n";
  for (int i = 1; i < 10; ++i) {
    text += "<!ENTITY l" + std::to_string(i) + " \"";
    for (int j = 0; j < 10; ++j) text += "&l" + std::to_string(i - 1) + ";";
    text += "\">\n";
  }
  text +=
      "]>\n" +
      document("<node id='1'><data key='l'>&l9;</data></node><node id='2'><data key='l'>&x;</data></node>");
  const auto topology = parse_graphml(text, "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->node(NodeId(0)).name == "&l9;");
  CHECK(topology->node(NodeId(1)).name == "&x;");
  std::filesystem::remove_all(folder);
}

TEST_CASE("GraphML: bytes of ISO 8859-1 become UTF-8 where the document says so") {
  const auto topology = parse_graphml("<?xml version='1.0' encoding='ISO-8859-1'?>" +
                                          document("<node id='1'><data key='l'>Z\xfcrich</data></node>"),
                                      "in");
  REQUIRE(topology.is_ok());
  CHECK(topology->node(NodeId(0)).name == "Zürich");
}

TEST_CASE("GraphML: what would take too much memory is refused") {
  std::string many;
  for (std::size_t i = 0; i <= kMaxNodes; ++i) many += "<node id='" + std::to_string(i) + "'/>";
  const auto nodes = parse_graphml(document(many), "in");
  CHECK(nodes.status().code() == StatusCode::kResourceExhausted);
  CHECK(nodes.status().message().find("in:4: more than 100000 nodes") != std::string::npos);
  const auto tags = parse_graphml(std::string((std::size_t{1} << 25U) + 1, '<'), "in");
  CHECK(tags.status().code() == StatusCode::kResourceExhausted);
  const auto large = parse_graphml(std::string((std::size_t{1} << 28U) + 1, ' '), "in");
  CHECK(large.status().code() == StatusCode::kResourceExhausted);
  // Deeply nested elements are no recursion.
  std::string deep = "<graphml><graph edgedefault='directed'>";
  for (int i = 0; i < 1'000'000; ++i) deep += "<x>";
  for (int i = 0; i < 1'000'000; ++i) deep += "</x>";
  CHECK(parse_graphml(deep + "</graph></graphml>", "in").is_ok());
  CHECK(parse_graphml(deep, "in").status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("GraphML: a network of the Topology Zoo reads as its GML does") {
  const auto folder = test_data("topology-zoo");
  if (!folder) return;
  for (const char* const name : {"Abilene.gml", "Cesnet1993.gml", "Kdl.gml"}) {
    const auto gml = read_topology(*folder / name);
    REQUIRE(gml.is_ok());
    std::string content;
    for (std::uint32_t i = 0; i < gml->node_count(); ++i) {
      std::string label;
      for (const char c : gml->node(NodeId(i)).name) {
        label += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
      }
      content += "<node id='" + std::to_string(i) + "'><data key='l'>" + label + "</data></node>\n";
    }
    for (std::uint32_t i = 0; i < gml->link_count(); ++i) {
      const TopologyLink& link = gml->link(LinkId(i));
      content += "<edge source='" + std::to_string(link.from.value()) + "' target='" +
                 std::to_string(link.to.value()) + "'><data key='s'>" +
                 std::to_string(link.properties.capacity_bps) + "</data></edge>\n";
      if (link.properties.capacity_bps == kUnlimited) content.replace(content.rfind("inf<"), 3, "?");
    }
    const auto graphml = parse_graphml(document(content, "directed"), "in");
    REQUIRE_MESSAGE(graphml.is_ok(), graphml.status().message());
    REQUIRE(graphml->node_count() == gml->node_count());
    REQUIRE(graphml->link_count() == gml->link_count());
    for (std::uint32_t i = 0; i < gml->node_count(); ++i)
      REQUIRE(graphml->node(NodeId(i)).name == gml->node(NodeId(i)).name);
    for (std::uint32_t i = 0; i < gml->link_count(); ++i) {
      const TopologyLink& link = gml->link(LinkId(i));
      REQUIRE(graphml->find_link(link.from, link.to) == LinkId(i));
      REQUIRE(graphml->link(LinkId(i)).properties.capacity_bps == link.properties.capacity_bps);
    }
  }
}
