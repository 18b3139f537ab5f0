// Files that are damaged, of another kind, or made to hurt: every reader says so and goes on living.
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "square/topology.h"
#include "topology/reader_checks.h"
#include "topology/test_data.h"
#include "topology/text.h"

using namespace square;

namespace {

using Parse = Result<Topology> (*)(std::string_view, std::string_view);

struct Format {
  const char* name;
  Parse parse;
  // Links a -> b and b -> c of these capacities in Mbit/s.
  std::function<std::string(const std::string&, const std::string&)> two_links;
};

std::string gml_edge(const char* source, const char* target, const std::string& mbps) {
  return std::string("edge [ source ") + source + " target " + target + " LinkSpeedRaw " + mbps + "e6 ]\n";
}

std::string graphml_edge(const char* source, const char* target, const std::string& mbps) {
  return std::string("<edge source='") + source + "' target='" + target + "'><data key='s'>" + mbps +
         "e6</data></edge>\n";
}

std::string toml_link(const char* from, const char* to, const std::string& mbps) {
  return std::string("[[link]]\nfrom = '") + from + "'\nto = '" + to + "'\ncapacity_mbps = " + mbps + "\n";
}

std::vector<Format> formats() {
  return {
      {"gml", &parse_gml,
       [](const std::string& first, const std::string& second) {
         return "graph [\ndirected 1\nnode [ id 0 label \"a\" ]\nnode [ id 1 label \"b\" ]\nnode [ id 2 "
                "label "
                "\"c\" ]\n" +
                gml_edge("0", "1", first) + gml_edge("1", "2", second) + "]\n";
       }},
      {"graphml", &parse_graphml,
       [](const std::string& first, const std::string& second) {
         return "<?xml version='1.0'?>\n<graphml>\n<key id='s' for='edge' attr.name='LinkSpeedRaw'/>\n"
                "<graph edgedefault='directed'>\n<node id='a'/>\n<node id='b'/>\n<node id='c'/>\n" +
                graphml_edge("a", "b", first) + graphml_edge("b", "c", second) + "</graph>\n</graphml>\n";
       }},
      {"csv", &parse_csv,
       [](const std::string& first, const std::string& second) {
         return "from,to,capacity_mbps\na,b," + first + "\nb,c," + second + "\n";
       }},
      {"toml", &parse_topology_toml,
       [](const std::string& first, const std::string& second) {
         return toml_link("a", "b", first) + toml_link("b", "c", second);
       }},
  };
}

std::string with_crlf(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? std::string("\r\n") : std::string(1, c);
  return result;
}

// Errors name the file, are UTF-8 and short: they go to screens and into Python.
void check_message(const Result<Topology>& result) {
  if (result.is_ok()) return;
  const std::string& message = result.status().message();
  CHECK_MESSAGE(message.starts_with("in"), message);
  CHECK_MESSAGE(is_utf8(message), message);
  CHECK(message.find('\0') == std::string::npos);
  CHECK_MESSAGE(message.size() < 1000, message.substr(0, 1000));
}

}  // namespace

TEST_CASE("capacities over fifteen orders of magnitude keep every digit") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const auto topology = format.parse(format.two_links("0.000001234567", "1234567890.5"), "in");
    REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
    CHECK(between(*topology, "a", "b").capacity_bps == doctest::Approx(1.234567).epsilon(1e-12));
    CHECK(between(*topology, "b", "c").capacity_bps == doctest::Approx(1234567890.5e6).epsilon(1e-12));
  }
}

TEST_CASE("a byte order mark and line ends of another system change nothing") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const std::string text = format.two_links("5", "7.5");
    for (const std::string& changed :
         {"\xEF\xBB\xBF" + text, with_crlf(text), "\xEF\xBB\xBF" + with_crlf(text)}) {
      const auto topology = format.parse(changed, "in");
      REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
      CHECK(topology->node_count() == 3);
      CHECK(topology->link_count() == 2);
      CHECK(between(*topology, "b", "c").capacity_bps == 7.5e6);
    }
  }
}

TEST_CASE("a zero byte and text in UTF-16 are named") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    std::string text = format.two_links("5", "7.5");
    std::string wide = "\xFF\xFE";
    for (const char c : text) wide += {c, '\0'};
    check_refused(format.parse, {{wide, "in:1: the text is UTF-16: save it as UTF-8"}});
    const std::size_t second_line = text.find('\n') + 1;
    text[second_line] = '\0';
    check_refused(format.parse, {{text, "in:2: a zero byte: this is not a text file"}});
  }
}

TEST_CASE("every cut of a file gives a topology or a clear error") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const std::string text = format.two_links("5", "7.5");
    std::size_t refused = 0;
    for (std::size_t size = 0; size < text.size(); ++size) {
      CAPTURE(size);
      const auto result = format.parse(text.substr(0, size), "in");
      check_message(result);
      refused += result.is_ok() ? 0 : 1;
    }
    CHECK(refused > 10);
    CHECK(format.parse(text, "in").is_ok());
  }
}

TEST_CASE("random bytes and changed files are refused or read, and messages stay readable") {
  const std::uint64_t seed = test_seed(11);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4000; ++round) {
    for (const Format& format : formats()) {
      std::string text = format.two_links("5", "7.5");
      if (round % 4 == 0) {
        text.resize(random() % 400);
        for (char& c : text) c = static_cast<char>(random());
      } else {
        for (std::uint64_t i = random() % 5; i > 0; --i)
          text[random() % text.size()] = static_cast<char>(random());
      }
      CAPTURE(seed);
      CAPTURE(format.name);
      CAPTURE(text);
      check_message(format.parse(text, "in"));
    }
  }
}

TEST_CASE("very long words are cut in messages and kept in names") {
  const std::string word(1'000'000, 'x');
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const auto result = format.parse(word, "in");
    REQUIRE_FALSE(result.is_ok());
    check_message(result);
    check_message(format.parse(format.two_links("-1" + word, "1"), "in"));
    check_message(format.parse(format.two_links("1\n" + word, "1"), "in"));
  }
  const auto csv = parse_csv("from,to,capacity_mbps\n" + word + ",b,1\n" + word + ",b,1e400\n", "in");
  check_message(csv);
  check_message(parse_csv("from,to,latency_ms\n" + word + ",b,1e18\n", "in"));
  check_message(parse_gml("graph [ node [ id 1" + word + " ] ]", "in"));
  check_message(parse_gml("graph [ node [ id ] " + word + " ]", "in"));
  check_message(parse_gml("graph [ \"\xff" + word + "\" ]", "in"));
  check_message(parse_topology_toml(word + " = 1", "in"));
  check_message(parse_graphml("<" + word + "/>", "in"));
  const auto named = parse_csv("from,to\n" + word + ",b\n", "in");
  REQUIRE(named.is_ok());
  CHECK(named->node(NodeId(0)).name == word);
}

TEST_CASE("a TOML key of very many parts is refused before it is a tower of tables") {
  std::string key = "a";
  for (int i = 0; i < 2'000'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1", "\n[" + key + "]", "x = { " + key + " = 1 }",
                                  key + " = 1\n!!", "x = \"\"\"\n\"\n\"\"\"\n" + key}) {
    const auto result = parse_topology_toml(text, "in");
    REQUIRE(result.status().code() == StatusCode::kInvalidArgument);
    CHECK(result.status().message().find(": a key of more than 64 parts") != std::string::npos);
  }
  // Dots elsewhere are no parts of keys.
  const std::string dots(1000, '.');
  const std::string text = "# " + dots + "\n[[node]]\nname = \"\\\"" + dots + "\"\n[[node]]\nname = '" +
                           dots + "'\n[[node]]\nname = \"\"\"\nc\"" + dots +
                           "\"\"\"\n[[node]]\nname = '''\nb'" + dots + "'''\n";
  const auto topology = parse_topology_toml(text, "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->node_count() == 4);
}

TEST_CASE("GML: a chain of labels that take one another's numbered names ends, each with its own") {
  // Node 0 and 1 share a label; the name that each node gets is the label of the next.
  std::string text = "graph [ node [ id 0 label \"a\" ]\n";
  std::string label = "a";
  const int count = 2000;
  for (int i = 1; i < count; ++i) {
    text += "node [ id " + std::to_string(i) + " label \"" + label + "\" ]\n";
    label += " (" + std::to_string(i) + ")";
  }
  const auto topology = parse_gml(text + "]", "in");
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().message());
  CHECK(topology->node_count() == count);
  CHECK(topology->node(NodeId(0)).name == "a (0)");
  CHECK(topology->node(NodeId(count - 1)).name == label);
}

TEST_CASE("a TOML key that begins with what no key may is named with its line") {
  for (const char* text : {"\n[=]", "\n[[=]]\n", "\n[[\x03", "\n[\xc3\xa9]\n", "\na.=1\n"}) {
    CAPTURE(text);
    const auto read = parse_topology_toml(text, "net.toml");
    REQUIRE_FALSE(read.is_ok());
    CHECK(read.status().message().find("net.toml:2") != std::string::npos);
  }
}
