// Files of a topology, in every format: whatever the text, an overlay or an error that names the file.
// libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/topology. The first byte says which reader.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "square/topology.h"

namespace {

using namespace square;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Result<Topology>& read) {
  if (!read.is_ok()) return require(read.status().message().find("input") != std::string::npos);
  for (std::uint32_t i = 0; i < read->link_count(); ++i) {
    const TopologyLink& link = read->link(LinkId(i));
    require(link.from != link.to && link.from.value() < read->node_count() &&
            link.to.value() < read->node_count());
    require(link.properties.capacity_bps > 0 && link.properties.latency >= Duration(0));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: check(parse_gml(text, "input")); break;
    case 1: check(parse_graphml(text, "input")); break;
    case 2: check(parse_csv(text, "input")); break;
    default: check(parse_topology_toml(text, "input")); break;
  }
  return 0;
}
