#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "square/topology.h"
#include "topology/reader_checks.h"
#include "topology/test_data.h"

using namespace square;
using namespace std::chrono_literals;

TEST_CASE("GML: names, directions and capacities") {
  const auto topology = parse_gml(R"(# a comment
Creator "x [ not a list"
graph [
  label "demo"   # another
  nested [ deep [ node 5 ] list [ ] ]
  node [ id 0 label "S&atilde;o &quot;Paulo&quot; &amp; &#x3b1;&#946; &nope;" ]
  node [ id 1 label "two" graphics [ x 1.5 y -2e+3 ] ]
  node [ id 2 label "two" ]
  node [ id 3 label "" ]
  node [ id 4 ]
  node [ id 5 label 77 ]
  edge [ source 0 target 1 LinkSpeedRaw 2500000.0 bandwidth 7 ]
  edge [ source 1 target 2 bandwidth 3000 ]
  edge [ source 2 target 3 LinkLabel "Fiber" ]
  edge [ source 3 target 4 LinkSpeedRaw "unknown" ]
  edge [ source 4 target 5 LinkSpeedRaw "+1000" ]
  edge [ source 4 target 5 LinkSpeedRaw 500 ]
  edge [ source 5 target 5 ]
]
)",
                                  "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  const char* const names[] = {"São \"Paulo\" & αβ &nope;", "two (1)", "two (2)", "(3)", "(4)", "77"};
  REQUIRE(topology->node_count() == 6);
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(topology->node(NodeId(i)).name == names[i]);
  CHECK(topology->link_count() == 10);  // both directions; the loop and the parallel edge add none
  CHECK(between(*topology, names[0], names[1]).capacity_bps == 2.5e6);
  CHECK(between(*topology, names[1], names[0]).capacity_bps == 2.5e6);
  CHECK(between(*topology, "two (2)", "two (1)").capacity_bps == 3000);
  CHECK(between(*topology, "two (2)", "(3)").capacity_bps == kUnlimited);
  CHECK(between(*topology, "(4)", "(3)").capacity_bps == kUnlimited);
  CHECK(between(*topology, "77", "(4)").capacity_bps == 1500);

  const auto directed =
      parse_gml("graph [ directed 1 edge [ source 1 target 0 ] node [ id 0 ] node [ id 1 ] ]", "in");
  REQUIRE(directed.is_ok());
  CHECK(directed->link_count() == 1);
  CHECK(directed->find_link(NodeId(1), NodeId(0)).has_value());
}

TEST_CASE("GML: a numbered name that is somebody's label stays unique") {
  const auto topology = parse_gml(
      R"gml(graph [ node [ id 1 label "a" ] node [ id 2 label "a" ] node [ id 3 label "a (1)" ]
         node [ id 4 label "(5)" ]
         node [ id 5 ] ])gml",
      "in");
  REQUIRE(topology.is_ok());
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < 5; ++i) names.insert(topology->node(NodeId(i)).name);
  CHECK(names == std::set<std::string>{"a (1)", "a (2)", "a (1) (3)", "(5) (4)", "(5)"});
}

TEST_CASE("GML: bytes of ISO 8859-1 become UTF-8") {
  const auto topology =
      parse_gml("graph [ node [ id 1 label \"Z\xfcrich\" ] node [ id 2 label \"Zürich\" ] ]", "in");
  REQUIRE(topology.is_ok());
  CHECK(topology->node(NodeId(0)).name == "Zürich (1)");
}

TEST_CASE("GML: mistakes are named with file and line") {
  check_refused(
      parse_gml,
      {
          {"", "in:1: no \"graph"},
          {"graph 5", "in:1: graph: must be a list"},
          {"graph [\n node [ id 1 ]", "the file ends inside a list"},
          {"graph [ ] graph [ ]", "there are two"},
          {"graph [ ] ]", "a key must stand here"},
          {"graph [\n\n 12 13 ]", "in:3: found \"12\""},
          {"graph [ node [ id ] ]", "id: has no value"},
          {"graph [ node [ label \"a\" ] ]", "node.id: is missing"},
          {"graph [ node [ id \"1\" ] ]", "node.id: must be a whole number"},
          {"graph [ node [ id 1.5 ] ]", "node.id: must be a whole number, not \"1.5\""},
          {"graph [ node [ id 99999999999999999999 ] ]", "node.id: must be a whole number"},
          {"graph [\nnode [ id 1 label \"a\" ]\nnode [ id 1 label \"b\" ]\n]",
           "in:3: node.id: two nodes have the id 1"},
          {"graph [ node [ id 1 ]\nedge [ source 1 target 2 ] ]", "in:2: edge.target: no node has the id 2"},
          {"graph [ node [ id 1 ]\nedge [ source 3 target 1 ] ]", "in:2: edge.source: no node has the id 3"},
          {"graph [ edge [ target 1 ] ]", "edge.source: is missing"},
          {"graph [ edge [ source 1 ] ]", "edge.target: is missing"},
          {"graph [ edge [ source 1 target 2 LinkSpeedRaw -5 ] ]", "edge.LinkSpeedRaw: must be above 0"},
          {"graph [ edge [ source 1 target 2 bandwidth 0 ] ]", "edge.bandwidth: must be above 0"},
          {"graph [ edge [ source 1 target 2 bandwidth nan ] ]", "edge.bandwidth: must be above 0"},
          {"graph [ edge [ source 1 target 2 LinkSpeedRaw [ ] ] ]", "edge.LinkSpeedRaw: must be a number"},
          {"graph [ directed 2 ]", "directed: must be 0 or 1"},
          {"graph [ label \"no end ]", "a text in quotes does not end"},
          {"graph [ ; ]", "a character that GML does not know"},
          {"graph [ node [ id 1 label \"a\" x [ ]", "the file ends inside a list"},
          {"graph [ x [ [", "a list does not end"},
      });
  std::string deep = "graph [ x ";
  for (int i = 0; i < 100'000; ++i) deep += "[ x ";
  CHECK(parse_gml(deep, "in").status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("CSV: quotes, line ends, byte order mark and missing values") {
  const auto topology = parse_csv(
      "\xEF\xBB\xBF"
      "to,from,throughput_mbps,rtt_ms,egress_usd_per_gb,note\r\n"
      "\"b, \"\"the\"\" second\" , a ,12.5,10,0.02,\"two\r\nlines\"\r\n"
      "\r\n"
      "a,\"b, \"\"the\"\" second\",,?,,\r\n"
      "a,a,1,1,1,loop\r\n"
      "c,a,+3,0,0,last line without end",
      "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->node_count() == 3);
  CHECK(topology->link_count() == 3);
  const LinkProperties& there = between(*topology, "a", "b, \"the\" second");
  CHECK(there.capacity_bps == 12.5e6);
  CHECK(there.latency == 5ms);
  CHECK(there.price_usd_per_gb == 0.02);
  const LinkProperties& back = between(*topology, "b, \"the\" second", "a");
  CHECK(back.capacity_bps == kUnlimited);
  CHECK(back.latency == 0ms);
  CHECK(between(*topology, "a", "c").capacity_bps == 3e6);
  const auto own = parse_csv(
      "from,to,capacity_mbps,latency_ms,price_usd_per_gb,capacity_stddev_mbps\na,b,1,2,3,0.3\na,b,1,9,3,0.4\n"
      "b,a,1,2,3,?\n",
      "in");
  CHECK(between(*own, "a", "b").capacity_stddev_bps == doctest::Approx(0.5e6));
  CHECK(between(*own, "b", "a").capacity_stddev_bps == 0);
  CHECK(between(*own, "a", "b").latency == 9ms);
  CHECK(between(*own, "a", "b").capacity_bps == 2e6);
  CHECK(parse_csv("from,to\n", "in")->node_count() == 0);
}

TEST_CASE("CSV: mistakes are named with file, line and column") {
  check_refused(
      parse_csv,
      {
          {"", "in: the file is empty"},
          {"\n\n", "in: the file is empty"},
          {"from,two\n", "in:1: the header needs the columns"},
          {"from,to,to\n", "columns \"to\" and \"to\" say the same"},
          {"from,to,rtt_ms,latency_ms\n", "\"rtt_ms\" and \"latency_ms\" say the same"},
          {"from,to,capcity_mbps\n", "unknown column \"capcity_mbps\": write \"capacity_mbps\""},
          {"from,to\na\n", "in:2: 1 fields, but the header has 2"},
          {"from,to\na,b,c\n", "in:2: 3 fields"},
          {"from,to\na,b\n,b\n", "in:3: from: a node needs a name"},
          {"from,to\na,\xff\n", "in:2: to: a node's name is not UTF-8"},
          {"from,to,capacity_mbps\na,b,0\n", "in:2: capacity_mbps: must be above 0 and finite, not 0"},
          {"from,to,capacity_mbps\na,b,-1\n", "capacity_mbps"},
          {"from,to,capacity_mbps\na,b,nan\n", "capacity_mbps"},
          {"from,to,capacity_mbps\na,b,inf\n", "capacity_mbps"},
          {"from,to,capacity_mbps\na,b,1x\n", "not \"1x\""},
          {"from,to,capacity_mbps\na,b,1e400\n", "not \"1e400\""},
          {"from,to,capacity_mbps\na,b,1e303\n", "in:2: capacity_mbps: 1e+303 is too large"},
          {"from,to,capacity_mbps\na,b,1e302\na,b,1e302\n", "in:3: link \"a\" -> \"b\": the capacities"},
          {"from,to,capacity_stddev_mbps\na,b,-1\n",
           "in:2: capacity_stddev_mbps: must be a finite number of"},
          {"from,to,capacity_stddev_mbps\na,b,inf\n", "capacity_stddev_mbps: must be a finite number of 0"},
          {"from,to,capacity_stdev_mbps\n", "write \"capacity_stddev_mbps\""},
          {"from,to,latency_ms\na,b,1e9\n", "in:2: link \"a\" -> \"b\": the latency must be at most a day"},
          {"from,to,rtt_ms\n\"a\nb\",c,1\nd,e,-1\n", "in:4: rtt_ms: must be a finite number of 0 or above"},
          {"from,to,price_usd_per_gb\na,b,free\n", "price_usd_per_gb"},
          {"from,to\n\"a,b\n", "in:2: a quoted field does not end"},
          {"from,to\n\"a\"x,b\n", "in:2: text after the end of a quoted field"},
          {"from,to\na\"x\",b\n", "in:2: a quote inside a field"},
      });
}

TEST_CASE("TOML: tables of nodes and links") {
  const auto topology = parse_topology_toml(R"(
[[node]]
name = "fra"
egress_mbps = 5000
[[node]]
name = "sfo"
ingress_mbps = 7.5
[[link]]
from = "fra"
to = "sfo"
capacity_mbps = 10
latency_ms = 75
price_usd_per_gb = 0.02
capacity_stddev_mbps = 1.5
)",
                                            "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->node(NodeId(0)).egress_bps == 5e9);
  CHECK(topology->node(NodeId(0)).ingress_bps == kUnlimited);
  CHECK(topology->node(NodeId(1)).ingress_bps == 7.5e6);
  CHECK(between(*topology, "fra", "sfo").latency == 75ms);
  CHECK(between(*topology, "fra", "sfo").capacity_stddev_bps == 1.5e6);
  CHECK(parse_topology_toml("[[link]]\nfrom='a'\nto='b'\n", "in")->node_count() == 2);
  check_refused(
      parse_topology_toml,
      {
          {"x = ", "in:1:"},
          {"[[nodes]]\nname='a'", "in:1: nodes: unknown key; the nearest known one is \"node\""},
          {"[overlay]\nmesh=['a','b']", "in:1: overlay: this file is a scenario, not a topology"},
          {"[node]\nname='a'", "in:1: node: must be a list of tables: write [[node]], not a table"},
          {"node = [1]", "node: must be a list of tables, but holds a whole number"},
          {"[[node]]\nname='a'\negres_mbps=1",
           "in:3: node.egres_mbps: unknown key; the nearest known one is \"egress_mbps\""},
          {"[[node]]\nname='a'\negress=1",
           "in:3: node.egress: unknown key; the nearest known one is \"egress_mbps\""},
          {"\n[[node]]\negress_mbps=1", "in:2: node.name: is missing"},
          {"[[node]]\nname=''", "in:2: node.name: must not be empty"},
          {"[[node]]\nname=3", "in:2: node.name: must be a text, not a whole number"},
          {"[[node]]\nname='a'\n[[node]]\nname='a'", "in:4: node.name: two tables for the node \"a\""},
          {"[[node]]\nname='a'\n[[link]]\nfrom='a'\nto='b'", "in:5: link.to: unknown node \"b\""},
          {"[[link]]\nfrom='a'\nto='a'", "in:3: link.to: a link must join two different nodes"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_mbps=inf",
           "in:4: link.capacity_mbps: must be above 0 and finite, not inf"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_mbps='10'",
           "in:4: link.capacity_mbps: must be a number, not a text"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_mbps=1e305", "link.capacity_mbps: is too large"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_stddev_mbps=-1",
           "in:4: link.capacity_stddev_mbps: must be 0 or above and finite, not -1"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_stddev_mbps=1e305",
           "link.capacity_stddev_mbps: is too large"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_mbps=1e400", "in:4:"},
          {"[[link]]\nfrom='a'\nto='b'\ncapacity_mbps=99999999999999999999", "in:4:"},
          {"[[link]]\nfrom='a'\nto='b'\nlatency_ms=1e18", "in:1: link: link \"a\" -> \"b\": the latency"},
          {"[[node]]\nname='a'\negress_mbps=nan", "in:3: node.egress_mbps: must be above 0 and finite"},
          {"[[node]]\nname=\"a\\u0000\"", "in:2: node.name: a node's name has a zero byte"},
          {"[[link]]\nfrom='a'\nto='b'\nlatency_ms=-1", "link.latency_ms: must be 0 or above"},
          {"[[link]]\nfrom='a'\nto='b'\nprice_usd_per_gb=nan",
           "link.price_usd_per_gb: must be 0 or above and finite, not nan"},
      });
}

TEST_CASE("what would take too much memory is refused") {
  CHECK(parse_csv(std::string(5000, ','), "in").status().code() == StatusCode::kResourceExhausted);
  const std::string long_comment = "#" + std::string(std::size_t{1} << 27U, 'x');
  CHECK(parse_topology_toml(long_comment, "in").status().code() == StatusCode::kResourceExhausted);
  const std::string deep = "node = " + std::string(100'000, '[');
  CHECK(parse_topology_toml(deep, "in").status().code() == StatusCode::kInvalidArgument);
  std::string many = "graph [";
  for (std::size_t i = 0; i <= kMaxNodes; ++i) many += " node [ id " + std::to_string(i) + " ]";
  CHECK(parse_gml(many + " ]", "in").status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("files are told apart by extension") {
  const auto folder = std::filesystem::temp_directory_path() / "square_readers_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.CSV") << "from,to\nx,y\n";
  std::ofstream(folder / "a.xml") << "<graphml/>";
  std::ofstream(folder / "d.GraphML") << "<graphml><graph edgedefault='directed'/></graphml>";
  CHECK(read_topology(folder / "a.CSV")->link_count() == 1);
  CHECK(read_topology(folder / "d.GraphML")->node_count() == 0);
  CHECK(read_topology(folder / "b.gml").status().code() == StatusCode::kNotFound);
  const auto other = read_topology(folder / "a.xml");
  CHECK(other.status().code() == StatusCode::kInvalidArgument);
  CHECK(other.status().message().find(".gml, .graphml, .csv or .toml") != std::string::npos);
  std::filesystem::create_directories(folder / "c.gml");
  CHECK(read_topology(folder / "c.gml").status().message().find("is a folder") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("no cut or changed file stops the readers") {
  const std::uint64_t seed = test_seed(5);
  std::uint64_t state = seed * 2 + 1;
  const auto random = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 33U;
  };
  const std::string gml =
      "graph [ directed 1 node [ id 0 label \"a&amp;\" ] node [ id 1 ] edge [ source 0 target 1 LinkSpeedRaw "
      "5.0 ] ]";
  const std::string csv = "from,to,capacity_mbps\n\"a\",b,5\nb,\"c \"\"d\",7.5\n";
  const std::string toml =
      "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[link]]\nfrom = 'a'\nto = 'b'\ncapacity_mbps = 5\n";
  for (int round = 0; round < 3000; ++round) {
    for (const auto& [text, parse] :
         {std::pair(&gml, &parse_gml), std::pair(&csv, &parse_csv), std::pair(&toml, &parse_topology_toml)}) {
      std::string changed = text->substr(0, random() % 4 == 0 ? random() % text->size() : text->size());
      for (std::size_t i = random() % 4; i > 0 && !changed.empty(); --i)
        changed[random() % changed.size()] = static_cast<char>(random());
      CAPTURE(changed);
      const auto result = parse(changed, "in");
      if (!result.is_ok()) CHECK(result.status().message().starts_with("in"));
    }
  }
}

TEST_CASE("every network of the Topology Zoo loads") {
  const auto folder = test_data("topology-zoo");
  if (!folder) return;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() != ".gml") continue;
    const auto topology = read_topology(entry.path());
    REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
    CHECK_MESSAGE(topology->node_count() > 1, entry.path().string());
    CHECK_MESSAGE(topology->link_count() > 0, entry.path().string());
    ++files;
  }
  CHECK(files == 154);
  const auto abilene = read_topology(*folder / "Abilene.gml");
  CHECK(abilene->node_count() == 11);
  CHECK(abilene->link_count() == 28);
  CHECK(between(*abilene, "New York", "Chicago").capacity_bps == 192 * 51.84e6);
  CHECK(between(*read_topology(*folder / "Cesnet1993.gml"), "Praha", "Ebone").capacity_bps == 20e3);
  const auto kdl = read_topology(*folder / "Kdl.gml");
  CHECK(kdl->node_count() == 754);
}

TEST_CASE("the measured mesh of regions loads") {
  const auto file = test_data("inter-region/links.csv");
  if (!file) return;
  const auto topology = read_topology(*file);
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->node_count() == 63);
  CHECK(topology->link_count() == 63 * 62);
  const LinkProperties& link = between(*topology, "aws:af-south-1", "aws:ap-east-1");
  CHECK(link.capacity_bps == doctest::Approx(2565.7e6));
  CHECK(link.latency == 124390us);
  CHECK(link.price_usd_per_gb == 0.147);
}
