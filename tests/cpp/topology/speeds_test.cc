// What files say of speeds; the forms that are read and refused are in the table of docs/scenario.md, which
// tests/python/test_speeds.py tries one by one.
#include <doctest/doctest.h>

#include "square/topology.h"
#include "topology/edge_speeds.h"
#include "topology/reader_checks.h"
#include "topology/readers.h"
#include "topology/speed_text.h"

using namespace square;

namespace {

double labelled(std::string_view label, LabelKind kind) {
  const auto speed = speed_in_label(label, kind);
  REQUIRE_MESSAGE(speed.is_ok(), speed.status().message());
  return speed->value_or(0.0);
}

std::string gml(std::string_view edge) {
  return "graph [ node [ id 0 label \"a\" ] node [ id 1 label \"b\" ]\nedge [ source 0 target 1 " +
         std::string(edge) + " ] ]";
}

double capacity(const Result<Topology>& topology) {
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  return between(*topology, "a", "b").capacity_bps;
}

std::string yed(std::string_view label) {
  return R"(<graphml xmlns:y="http://www.yworks.com/xml/graphml">
<key id="d0" for="node" yfiles.type="nodegraphics"/><key id="d1" for="edge" yfiles.type="edgegraphics"/>
<key id="d2" for="edge" attr.name="description"/>
<graph edgedefault="directed">
<node id="n0"><data key="d0"><y:ShapeNode><y:NodeLabel x="1">a<y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node>
<node id="n1"><data key="d0"><y:ShapeNode><y:NodeLabel>b</y:NodeLabel></y:ShapeNode></data></node>
<edge source="n0" target="n1"><data key="d2">x</data><data key="d1"><y:PolyLineEdge><y:EdgeLabel>)" +
         std::string(label) +
         "<y:LabelModel/></y:EdgeLabel><y:EdgeLabel>eth0</y:EdgeLabel></y:PolyLineEdge></data></edge>\n"
         "</graph></graphml>";
}

}  // namespace

TEST_CASE("labels of the Topology Zoo: the lowest speed, sums, counts and names of standards") {
  const std::pair<const char*, double> labels[] = {{"155 Mbps OC-3", 155e6},
                                                   {"OC192/STM64", 192 * 51.84e6},
                                                   {"1-20Gbps", 1e9},
                                                   {"< 2.5 Gbps", 2.5e9},
                                                   {"OC3 and below/STM1", 155.52e6},
                                                   {"2x10Gb/s", 20e9},
                                                   {"10GEx12", 120e9},
                                                   {"8*GbE", 8e9},
                                                   {"STM-64x2", 2 * 64 * 155.52e6},
                                                   {"4x1 Gbps + 2x STM-1", 4e9 + 2 * 155.52e6},
                                                   {"CANARIE N*10Gbit/s", 10e9},
                                                   {"10 GB/s - redundantno", 10e9},
                                                   {"ANS CO+RE T1", 1.544e6},
                                                   {"9600 bit/s", 9600},
                                                   {"0.02M", 20e3},
                                                   {"Peering, 13 Gbps", 13e9},
                                                   {"ZAMREN FIBRE (100 MB)", 100e6},
                                                   {"1GE Primary Link", 1e9},
                                                   {"1Q 2003", 0},
                                                   {"Completion 2007-2008", 0},
                                                   {"72 Lambda ROADM Network", 0},
                                                   {"Fibre ottica spenta (Dark Fibre)", 0},
                                                   {"", 0}};
  for (const auto& [label, bps] : labels) {
    CAPTURE(label);
    CHECK(labelled(label, LabelKind::kZoo) == doctest::Approx(bps));
  }
}

TEST_CASE("labels of drawings: only what is plainly a speed") {
  const std::pair<const char*, double> labels[] = {{"10 Gbps", 10e9},
                                                   {"100 MB/s, 20 ms", 800e6},
                                                   {"to b: 1 Gbit/s / 5 ms", 1e9},
                                                   {"10G", 10e9},
                                                   {"OC-48", 48 * 51.84e6},
                                                   {"E1", 0},
                                                   {"T3", 0},
                                                   {"e10", 0},
                                                   {"GE 0/0/1", 0},
                                                   {"10G core (pp) x", 0},
                                                   {"5 km", 0},
                                                   {"20 ms", 0},
                                                   {"10b", 0},
                                                   {"1 Gb/min", 0},
                                                   {"VLAN 12", 0},
                                                   {"100 MBPS", 0},
                                                   {"\xE2\x89\xA4 10 Gbps", 10e9}};
  for (const auto& [label, bps] : labels) {
    CAPTURE(label);
    CHECK(labelled(label, LabelKind::kDrawn) == doctest::Approx(bps));
  }
  CHECK(speed_in_label("2,5 Gbit/s", LabelKind::kDrawn).status().message().find("a comma") !=
        std::string::npos);
  const std::string long_label(std::size_t{1} << 20U, '1');
  CHECK(labelled(long_label + " Gbps", LabelKind::kDrawn) == 0);
}

TEST_CASE("keys that state a speed, with their unit or without") {
  for (const char* const key :
       {"bandwidth", "Bandwidth", "capacity", "linkSpeed", "max_bandwidth", "BW", "edge capacity"}) {
    CAPTURE(key);
    REQUIRE(speed_key(key).has_value());
    CHECK_FALSE(speed_key(key)->unit_bps.has_value());
  }
  const std::pair<const char*, double> with_unit[] = {
      {"capacity_mbps", 1e6},    {"Capacity (Gbps)", 1e9},     {"bandwidthKbps", 1e3},
      {"bandwidth_MBps", 8e6},   {"speed [Mbit/s]", 1e6},      {"throughput_mbit_s", 1e6},
      {"bw_bits_per_second", 1}, {"link-speed in Gbit/s", 1e9}};
  for (const auto& [key, bps] : with_unit) {
    CAPTURE(key);
    REQUIRE(speed_key(key).has_value());
    CHECK(speed_key(key)->unit_bps == bps);
  }
  for (const char* const key :
       {"capacity_stddev_mbps", "bandwidth_used", "label", "speedy", "link", "weight", ""}) {
    CAPTURE(key);
    CHECK_FALSE(speed_key(key).has_value());
  }
}

TEST_CASE("the most trusted statement of an edge counts") {
  CHECK(capacity(parse_gml(gml("LinkSpeed \"155\" LinkSpeedUnits \"M\" LinkLabel \"1 Gbps\""), "in")) ==
        155e6);
  CHECK(capacity(parse_gml(gml("LinkSpeedRaw 2e6 LinkSpeed 3 LinkSpeedUnits \"G\" bandwidth 7"), "in")) ==
        2e6);
  CHECK(capacity(parse_gml(gml("LinkSpeedRaw \"unknown\" bandwidth \"155 Mbps\""), "in")) == 155e6);
  CHECK(capacity(parse_gml(gml("LinkLabel \"10 GB/s\""), "in")) == 10e9);
  CHECK(capacity(parse_gml(gml("label \"100 MB/s\""), "in")) == 800e6);
  CHECK(capacity(parse_gml(gml("bandwidth_gbps 2.5"), "in")) == 2.5e9);
  CHECK(capacity(parse_gml(gml("bandwidth 1e9 capacity \"1 Gbps\""), "in")) == 1e9);
  CHECK(capacity(parse_csv("from,to,bandwidth\na,b,155 Mbps\n", "in")) == 155e6);
  CHECK(capacity(parse_csv("from,to,capacity_mbps\na,b,10 Gbps\n", "in")) == 10e9);
  CHECK(capacity(parse_csv("from,to,Capacity (Gbit/s)\na,b,10\n", "in")) == 10e9);
  const std::string parallel = "label \"1 Gbps\" ] edge [ source 1 target 0 ] edge [ source 0 target 1 ";
  CHECK(capacity(parse_gml(gml(parallel), "in")) == 1e9);
  CHECK(capacity(parse_gml(gml(parallel + "label \"155 Mbps\""), "in")) == 1.155e9);
  check_refused(parse_gml,
                {{gml("LinkSpeed 155 LinkSpeedUnits \"parsec\""), "in:2: edge.LinkSpeedUnits: \"parsec\""},
                 {gml("bandwidth \"fast\""), "in:2: edge.bandwidth: must be a speed with its unit"},
                 {gml("bandwidth \"1-20 Gbps\""), "not \"1-20 Gbps\""},
                 {gml("bandwidth \"0 Mbps\""), "must be above 0 and finite"},
                 {gml("bandwidth 1e9 capacity 1e7"), "10 Mbit/s, but \"bandwidth\" says 1000 Mbit/s"},
                 {gml("label \"1,5 Gbps\""), "edge.label: \"1,5 Gbps\": a comma"}});
  check_refused(parse_csv, {{"from,to,bandwidth\na,b,fast\n", "in:2: bandwidth: must be a speed"},
                            {"from,to,bandwidth,speed\n", "\"bandwidth\" and \"speed\" say the same"}});
}

TEST_CASE("numbers without a unit are refused where all are too small for bit/s") {
  check_refused(parse_gml,
                {{gml("bandwidth 100"), "in:2: no speed of the file says its unit, and the fastest"},
                 {gml("LinkSpeedRaw 100"), "as in \"100 Mbit/s\""},
                 {gml("LinkSpeed 100"), "say the unit, by --units Mbit/s"},
                 {gml("label 10"), "in:2: the label is the number 10"}});
  check_refused(parse_csv, {{"from,to,capacity\na,b,10\nb,a,40\n", "in:3: capacity: no speed of the file"}});
  CHECK(capacity(parse_gml(gml("bandwidth 1e9"), "in")) == 1e9);
  CHECK(capacity(parse_gml(gml("LinkSpeedRaw 64000"), "in")) == 64e3);

  const TopologyReadOptions mbps = topology_read_options("Mbit/s").value();
  for (const char* const edge : {"bandwidth 100", "LinkSpeedRaw 100", "LinkSpeed 100", "label \"100\""}) {
    CAPTURE(edge);
    CHECK(capacity(read_gml(gml(edge), "in", mbps)) == 100e6);
  }
  CHECK(capacity(read_csv("from,to,capacity\na,b,10\n", "in", mbps)) == 10e6);
  CHECK(capacity(read_csv("from,to,capacity_gbps\na,b,10\n", "in", mbps)) == 10e9);
  CHECK(capacity(read_gml(gml("bandwidth \"1 Gbps\""), "in", mbps)) == 1e9);
  const TopologyReadOptions none = topology_read_options("none").value();
  CHECK(capacity(read_gml(gml("label \"100\""), "in", none)) == kUnlimited);
  CHECK(capacity(read_gml(gml("LinkSpeedRaw 1e9"), "in", none)) == 1e9);
  CHECK(topology_read_options("MB/s")->unit_bps == 8e6);
  CHECK(topology_read_options("bit/s")->unit_bps == 1.0);
  for (const char* const unit : {"", "furlong", "5 Mbps", "m", "MBPS"}) {
    CAPTURE(unit);
    CHECK(topology_read_options(unit).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("yEd's labels and Cytoscape's columns are read") {
  CHECK(capacity(parse_graphml(yed("10 Gbps"), "in")) == 10e9);
  CHECK(capacity(parse_graphml(yed("backbone"), "in")) == kUnlimited);
  check_refused(parse_graphml, {{yed("100"), "in:7: the label is the number 100"}});
  CHECK(capacity(read_graphml(yed("100"), "in", topology_read_options("Mbit/s").value())) == 100e6);

  const std::string cytoscape = R"(<graphml>
<key id="name" for="node"/><key id="Bandwidth" for="all"/>
<graph edgedefault="directed"><node id="a"/><node id="b"/>
<edge source="a" target="b"><data key="Bandwidth">)";
  const std::string end = "</data></edge></graph></graphml>";
  CHECK(capacity(parse_graphml(cytoscape + "155 Mbps" + end, "in")) == 155e6);
  CHECK(capacity(parse_graphml(cytoscape + "1e9" + end, "in")) == 1e9);
  check_refused(parse_graphml, {{cytoscape + "100" + end, "in:4: no speed of the file says its unit"}});
}
