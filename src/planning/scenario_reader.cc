// Scenario files: docs/scenario.md lists the keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/check.h"
#include "planning/scenario_overlay.h"
#include "planning/scenario_words.h"
#include "square/scenario.h"
#include "topology/text.h"
#include "topology/toml_reader.h"

namespace square {
namespace {

constexpr std::size_t kMaxTenants = 1'000'000;
constexpr std::size_t kMaxCollectives = 1'000'000;
// Over all collectives: "all" is a short word for many.
constexpr std::size_t kMaxMembers = std::size_t{1} << 26U;

constexpr std::array<std::pair<std::string_view, Fairness>, 2> kFairness = {
    {{"collective", Fairness::kCollective}, {"tenant", Fairness::kTenant}}};
constexpr std::array<std::pair<std::string_view, AllReduceAlgorithm>, 2> kAlgorithms = {
    {{"planned", AllReduceAlgorithm::kPlanned}, {"ring", AllReduceAlgorithm::kRing}}};

Result<PolicySpec> read_policy(const TomlTable& root) {
  PolicySpec policy;
  SQUARE_ASSIGN_OR_RETURN(const auto table, root.table("policy"));
  if (!table) return policy;
  SQUARE_RETURN_IF_ERROR(table->allow_only({"name", "shots", "paths", "fairness"}));
  if (table->has("name")) {
    SQUARE_ASSIGN_OR_RETURN(policy.name, table->required_text("name"));
  }
  SQUARE_ASSIGN_OR_RETURN(const auto shots, table->integer("shots"));
  if (shots) {
    if (*shots < 1 || *shots > kMaxShots) {
      return table->error("shots", fmt::format("must be from 1 to {}, not {}", kMaxShots, *shots));
    }
    policy.shots = static_cast<int>(*shots);
  }
  SQUARE_ASSIGN_OR_RETURN(const auto paths, table->text("paths"));
  if (paths) {
    const auto choice = parse_path_choice(*paths);
    if (!choice.is_ok()) return table->at("paths", choice.status());
    policy.paths = *choice;
  }
  SQUARE_ASSIGN_OR_RETURN(const auto fairness, table->text("fairness"));
  if (fairness) {
    const auto kind = find_word(kFairness, "fairness", *fairness);
    if (!kind.is_ok()) return table->at("fairness", kind.status());
    policy.fairness = *kind;
  }
  return policy;
}

// Reads one [[collective]] after another.
class CollectiveReader {
 public:
  explicit CollectiveReader(const Topology& topology) : topology_(topology) {}

  Result<CollectiveSpec> read(const TomlTable& table) const {
    SQUARE_RETURN_IF_ERROR(
        table.allow_only({"tenant", "weight", "op", "algorithm", "root", "members", "bytes"}));
    CollectiveSpec spec;
    SQUARE_ASSIGN_OR_RETURN(spec.tenant, table.required_text("tenant"));
    SQUARE_ASSIGN_OR_RETURN(const auto weight, table.positive("weight"));
    spec.weight = weight.value_or(1.0);
    SQUARE_ASSIGN_OR_RETURN(const std::string op, table.required_text("op"));
    const auto known_op = parse_collective_op(op);
    if (!known_op.is_ok()) return table.at("op", known_op.status());
    spec.op = *known_op;
    SQUARE_ASSIGN_OR_RETURN(spec.algorithm, read_algorithm(table, spec.op));
    SQUARE_ASSIGN_OR_RETURN(spec.members, read_members(table));
    if (has_root(spec.op)) {
      SQUARE_ASSIGN_OR_RETURN(spec.root, read_root(table, spec));
    } else if (table.has("root")) {
      return table.error("root", fmt::format("{} has no root: leave it out", to_string(spec.op)));
    }
    SQUARE_ASSIGN_OR_RETURN(const auto bytes, table.integer("bytes"));
    if (!bytes) return table.error("bytes", "is missing");
    if (*bytes < 0) return table.error("bytes", fmt::format("must be 0 or above, not {}", *bytes));
    spec.size_bytes = static_cast<std::uint64_t>(*bytes);
    return spec;
  }

 private:
  static Result<AllReduceAlgorithm> read_algorithm(const TomlTable& table, CollectiveOp op) {
    SQUARE_ASSIGN_OR_RETURN(const auto word, table.text("algorithm"));
    if (!word) return AllReduceAlgorithm::kPlanned;
    auto algorithm = find_word(kAlgorithms, "algorithm", *word);
    if (!algorithm.is_ok()) return table.at("algorithm", algorithm.status());
    if (op != CollectiveOp::kAllReduce && *algorithm != AllReduceAlgorithm::kPlanned) {
      return table.error("algorithm", fmt::format("\"{}\" is for all_reduce, not for {}: leave it out", *word,
                                                  to_string(op)));
    }
    return algorithm;
  }

  Result<NodeId> find_node(const TomlTable& table, std::string_view key, std::string_view name) const {
    if (const auto node = topology_.find_node(name)) return *node;
    return table.error(key, quoted("unknown node", name));
  }

  Result<std::vector<NodeId>> read_members(const TomlTable& table) const {
    std::vector<NodeId> members;
    if (!table.has("members") || table.is_text("members")) {
      SQUARE_ASSIGN_OR_RETURN(const auto word, table.text("members"));
      if (word.value_or("all") != "all") {
        return table.error("members",
                           "must be \"all\" or a list of node names, not " + quoted("the text", *word));
      }
      for (std::uint32_t id = 0; id < topology_.node_count(); ++id) members.emplace_back(id);
      if (members.empty()) return table.error("members", "the overlay has no nodes");
      return members;
    }
    SQUARE_ASSIGN_OR_RETURN(const auto names, table.texts("members"));
    if (!names || names->empty()) return table.error("members", "must not be empty");
    std::unordered_set<NodeId> seen;
    for (const std::string& name : *names) {
      SQUARE_ASSIGN_OR_RETURN(const NodeId node, find_node(table, "members", name));
      if (!seen.insert(node).second) return table.error("members", quoted("two members are the node", name));
      members.push_back(node);
    }
    return members;
  }

  Result<NodeId> read_root(const TomlTable& table, const CollectiveSpec& spec) const {
    if (!table.has("root")) {
      return table.error("root", fmt::format("is missing: {} needs one", to_string(spec.op)));
    }
    SQUARE_ASSIGN_OR_RETURN(const std::string name, table.required_text("root"));
    SQUARE_ASSIGN_OR_RETURN(const NodeId root, find_node(table, "root", name));
    if (std::ranges::find(spec.members, root) != spec.members.end()) return root;
    return table.error("root", quoted("the root", name) + " is not among the members: add it to the list");
  }

  const Topology& topology_;
};

Result<std::vector<TenantSpec>> read_tenants(const TomlTable& root) {
  SQUARE_ASSIGN_OR_RETURN(const auto tables, root.tables("tenant"));
  if (tables.size() > kMaxTenants) {
    return resource_exhausted(fmt::format("more than {} tenants in a scenario", kMaxTenants));
  }
  std::vector<TenantSpec> tenants;
  std::unordered_set<std::string> names;
  for (const TomlTable& table : tables) {
    SQUARE_RETURN_IF_ERROR(table.allow_only({"name", "weight"}));
    SQUARE_ASSIGN_OR_RETURN(std::string name, table.required_text("name"));
    SQUARE_ASSIGN_OR_RETURN(const auto weight, table.positive("weight"));
    if (!names.insert(name).second) return table.error("name", quoted("two tables for the tenant", name));
    tenants.push_back({std::move(name), weight.value_or(1.0)});
  }
  return tenants;
}

Status read_collectives(const TomlTable& root, Scenario& scenario) {
  SQUARE_ASSIGN_OR_RETURN(const auto tables, root.tables("collective"));
  if (tables.size() > kMaxCollectives) {
    return resource_exhausted(fmt::format("more than {} collectives in a scenario", kMaxCollectives));
  }
  std::unordered_set<std::string> known;
  for (const TenantSpec& tenant : scenario.tenants) known.insert(tenant.name);
  const CollectiveReader reader(scenario.topology);
  std::size_t members = 0;
  for (const TomlTable& table : tables) {
    SQUARE_ASSIGN_OR_RETURN(CollectiveSpec collective, reader.read(table));
    members += collective.members.size();
    if (members > kMaxMembers) {
      return resource_exhausted(fmt::format("more than {} members over all collectives", kMaxMembers));
    }
    collective.id = CollectiveId(static_cast<CollectiveId::value_type>(scenario.collectives.size()));
    if (known.insert(collective.tenant).second) scenario.tenants.push_back({collective.tenant, 1.0});
    scenario.collectives.push_back(std::move(collective));
  }
  return {};
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, std::string_view source_name,
                                const std::filesystem::path& directory) {
  SQUARE_ASSIGN_OR_RETURN(const auto root, TomlTable::parse(text, source_name));
  SQUARE_RETURN_IF_ERROR(root.allow_only({"name", "overlay", "policy", "tenant", "collective"}));
  Scenario scenario;
  scenario.name = std::filesystem::path(source_name).stem().string();
  if (root.has("name")) {
    SQUARE_ASSIGN_OR_RETURN(scenario.name, root.required_text("name"));
  }
  SQUARE_ASSIGN_OR_RETURN(scenario.topology, read_overlay(root, directory));
  SQUARE_ASSIGN_OR_RETURN(scenario.policy, read_policy(root));
  SQUARE_ASSIGN_OR_RETURN(scenario.tenants, read_tenants(root));
  SQUARE_RETURN_IF_ERROR(read_collectives(root, scenario));
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario).with_context(source_name));
  return scenario;
}

Result<Scenario> read_scenario(const std::filesystem::path& file) {
  SQUARE_ASSIGN_OR_RETURN(const std::string text, read_text_file(file, kMaxTomlBytes));
  return parse_scenario(text, file.string(), file.parent_path());
}

}  // namespace square
