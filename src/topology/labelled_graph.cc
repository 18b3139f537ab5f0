#include "topology/labelled_graph.h"

#include <fmt/format.h>

#include <unordered_map>
namespace square {
namespace {

// Who has a name, or had it before a number came behind it.
struct Claims {
  std::size_t count = 0;
  std::size_t first = 0;  // node
};

}  // namespace

std::vector<std::string> unique_names(const std::vector<LabelledNode>& nodes) {
  std::vector<std::string> names(nodes.size());
  std::unordered_map<std::string, Claims> claims;
  claims.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    names[i] = nodes[i].label;
    ++claims.try_emplace(names[i], Claims{0, i}).first->second.count;
  }
  std::vector<std::size_t> to_number;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (names[i].empty() || claims.at(names[i]).count > 1) to_number.push_back(i);
  }
  // A numbered name may be somebody's label, who then gets a number too, and so on: each node
  // once at most.
  while (!to_number.empty()) {
    const std::size_t i = to_number.back();
    to_number.pop_back();
    const auto& [id, label] = nodes[i];
    names[i] = label.empty() ? fmt::format("({})", id) : fmt::format("{} ({})", label, id);
    Claims& claim = claims.try_emplace(names[i], Claims{0, i}).first->second;
    if (++claim.count == 2 && names[claim.first] == nodes[claim.first].label)
      to_number.push_back(claim.first);
  }
  return names;
}

}  // namespace square
