// Scenario files: docs/scenario.md lists the keys.
#include <fmt/format.h>

#include <unordered_set>

#include "base/check.h"
#include "planning/scenario/collective.h"
#include "planning/scenario/overlay.h"
#include "planning/scenario/policy.h"
#include "square/scenario.h"
#include "topology/text.h"
#include "topology/toml_reader.h"

namespace square {
namespace {

constexpr std::size_t kMaxTenants = 1'000'000;
constexpr std::size_t kMaxCollectives = 1'000'000;
// Over all collectives: "all" is a short word for many.
constexpr std::size_t kMaxMembers = std::size_t{1} << 26U;

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
  std::size_t members = 0;
  for (const TomlTable& table : tables) {
    SQUARE_ASSIGN_OR_RETURN(CollectiveSpec collective,
                            read_collective(table, scenario.topology, scenario.policy));
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
                                const std::filesystem::path& directory, const TopologyReadOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(const auto root, TomlTable::parse(text, source_name));
  if (!root.has("overlay") && (root.has("node") || root.has("link"))) {
    return root.error(
        root.has("link") ? "link" : "node",
        "this file is a topology, not a scenario: name it by topology = \"...\" in the [overlay] "
        "of a scenario");
  }
  SQUARE_RETURN_IF_ERROR(root.allow_only({"name", "overlay", "policy", "tenant", "collective"}));
  Scenario scenario;
  scenario.name = std::filesystem::path(source_name).stem().string();
  if (root.has("name")) {
    SQUARE_ASSIGN_OR_RETURN(scenario.name, root.required_text("name"));
  }
  SQUARE_ASSIGN_OR_RETURN(scenario.topology, read_overlay(root, directory, options));
  SQUARE_ASSIGN_OR_RETURN(scenario.policy, read_policy(root, scenario.topology));
  SQUARE_ASSIGN_OR_RETURN(scenario.tenants, read_tenants(root));
  SQUARE_RETURN_IF_ERROR(read_collectives(root, scenario));
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario).with_context(source_name));
  return scenario;
}

Result<Scenario> read_scenario(const std::filesystem::path& file, const TopologyReadOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(const std::string text, read_text_file(file, kMaxTomlBytes));
  return parse_scenario(text, file.string(), file.parent_path(), options);
}

}  // namespace square
