#include "planning/scenario/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "planning/policy.h"
#include "planning/scenario/policy_fields.h"
#include "planning/scenario/words.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr std::array<std::pair<std::string_view, Fairness>, 2> kFairness = {
    {{"collective", Fairness::kCollective}, {"tenant", Fairness::kTenant}}};
constexpr std::array<std::pair<std::string_view, Objective>, 2> kObjectives = {
    {{"fair", Objective::kFair}, {"cost", Objective::kCost}}};
constexpr std::array<std::pair<std::string_view, Coding>, 3> kCodings = {
    {{"exact", Coding::kExact}, {"float32", Coding::kFloat32}, {"off", Coding::kOff}}};

Status check_name(std::string_view name) {
  if (name.empty()) return invalid_argument("must not be empty");
  if (planning::find_policy(name) != nullptr) return {};
  return invalid_argument(quoted("unknown policy", name) +
                          fmt::format(": choose one of {}", fmt::join(policy_names(), ", ")));
}

template <typename Value>
Status check_value(const PolicyField<Value>& field, const PolicySpec& policy) {
  const Value& value = policy.*field.member;
  if constexpr (std::is_arithmetic_v<Value>) {
    return field.range.check(static_cast<double>(value));
  } else if constexpr (std::is_same_v<Value, std::optional<double>>) {
    return value ? field.range.check(*value) : Status();
  } else {
    return {};
  }
}

template <typename Value>
bool is_known(const PolicyField<Value>& field, const PolicySpec& policy) {
  return field.demand.empty() || meets_demands(policy);
}

// Reads one [policy]; the table has known keys only.
class PolicyReader {
 public:
  PolicyReader(const TomlTable& table, const Topology& topology) : table_(table), topology_(topology) {}

  Result<PolicySpec> read() {
    if (table_.has("name")) {
      SQUARE_ASSIGN_OR_RETURN(policy_.name, table_.required_text("name"));
      SQUARE_RETURN_IF_ERROR(table_.at("name", check_name(policy_.name)));
    }
    SQUARE_RETURN_IF_ERROR(check_each_policy_field([&](const auto& field) { return read_field(field); }));
    SQUARE_RETURN_IF_ERROR(check_each_policy_field([&](const auto& field) {
      return field.check == nullptr ? Status() : table_.at(field.key, field.check(policy_, topology_));
    }));
    SQUARE_RETURN_IF_ERROR(check_named());
    return policy_;
  }

 private:
  Status check_named() const {
    if (table_.has("name")) return {};
    return check_each_policy_field([&](const auto& field) {
      if (!field.needs_name || !table_.has(field.key)) return Status();
      return table_.at(field.key, needs_named_policy(policy_, field.key));
    });
  }

  template <typename Value>
  Status read_field(const PolicyField<Value>& field) {
    if (!table_.has(field.key)) return {};
    if (!is_known(field, policy_)) return table_.at(field.key, meets_no_demands(policy_, field.demand));
    SQUARE_RETURN_IF_ERROR(read_value(field, policy_.*field.member));
    return table_.at(field.key, check_value(field, policy_));
  }

  template <typename Value>
  requires std::is_integral_v<Value> Status read_value(const PolicyField<Value>& field, Value& value) {
    SQUARE_ASSIGN_OR_RETURN(const auto number, table_.integer(field.key));
    // Here, as a wrong number need not fit into the field.
    SQUARE_RETURN_IF_ERROR(table_.at(field.key, field.range.check(static_cast<double>(*number))));
    value = static_cast<Value>(*number);
    return {};
  }

  template <typename Value>
  requires std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>> Status
  read_value(const PolicyField<Value>& field, Value& value) {
    SQUARE_ASSIGN_OR_RETURN(const auto number, table_.number(field.key));
    value = *number;
    return {};
  }

  template <typename Value>
  requires std::is_enum_v<Value> || std::is_same_v<Value, PathChoice> Status
  read_value(const PolicyField<Value>& field, Value& value) {
    SQUARE_ASSIGN_OR_RETURN(const auto word, table_.text(field.key));
    const Result<Value> known = parse(*word, value);
    if (!known.is_ok()) return table_.at(field.key, known.status());
    value = *known;
    return {};
  }

  Status read_value(const PolicyField<std::vector<NodeId>>& field, std::vector<NodeId>& value) {
    SQUARE_ASSIGN_OR_RETURN(const auto names, table_.texts(field.key));
    for (const std::string& name : *names) {
      SQUARE_ASSIGN_OR_RETURN(const NodeId node, find_node(field.key, name));
      value.push_back(node);
    }
    return {};
  }

  Status read_value(const PolicyField<std::vector<LinkId>>& field, std::vector<LinkId>& value) {
    SQUARE_ASSIGN_OR_RETURN(const auto links, table_.text_lists(field.key));
    for (const std::vector<std::string>& ends : *links) {
      if (ends.size() != 2) {
        return table_.error(field.key, fmt::format("must hold pairs [from, to], not {} names", ends.size()));
      }
      SQUARE_ASSIGN_OR_RETURN(const NodeId from, find_node(field.key, ends[0]));
      SQUARE_ASSIGN_OR_RETURN(const NodeId to, find_node(field.key, ends[1]));
      const auto link = topology_.find_link(from, to);
      if (!link) {
        return table_.error(field.key, quoted("there is no link from", ends[0]) + quoted(" to", ends[1]));
      }
      value.push_back(*link);
    }
    return {};
  }

  // The second argument says which kind of word it is.
  static Result<PathChoice> parse(std::string_view text, const PathChoice&) {
    return parse_path_choice(text);
  }
  static Result<Fairness> parse(std::string_view text, Fairness) { return parse_fairness(text); }
  static Result<Objective> parse(std::string_view text, Objective) { return parse_objective(text); }
  static Result<Coding> parse(std::string_view text, Coding) { return parse_coding(text); }

  [[nodiscard]] Result<NodeId> find_node(std::string_view key, std::string_view name) const {
    if (const auto node = topology_.find_node(name)) return *node;
    return table_.error(key, quoted("unknown node", name));
  }

  const TomlTable& table_;
  const Topology& topology_;
  PolicySpec policy_;
};

}  // namespace

Result<Fairness> parse_fairness(std::string_view text) { return find_word(kFairness, "fairness", text); }
std::string_view to_string(Fairness fairness) { return word_for(kFairness, fairness); }

Result<Objective> parse_objective(std::string_view text) { return find_word(kObjectives, "objective", text); }
std::string_view to_string(Objective objective) { return word_for(kObjectives, objective); }

Result<Coding> parse_coding(std::string_view text) { return find_word(kCodings, "coding", text); }
std::string_view to_string(Coding coding) { return word_for(kCodings, coding); }

bool meets_demands(const PolicySpec& policy) {
  const planning::PolicyEntry* const entry = planning::find_policy(policy.name);
  return entry != nullptr && entry->meets_demands;
}

Status meets_no_demands(const PolicySpec& policy, std::string_view part) {
  return invalid_argument(
      quoted("the policy", policy.name) +
      fmt::format(" knows no {}: choose \"{}\"", part, planning::policy_that_meets_demands()));
}

Status needs_named_policy(const PolicySpec& policy, std::string_view key) {
  return invalid_argument(
      quoted("the policy", policy.name) +
      fmt::format(", which plans where none is named, has no {}: name the policy, such as \"square\"", key));
}

Result<PolicySpec> read_policy(const TomlTable& root, const Topology& topology) {
  SQUARE_ASSIGN_OR_RETURN(const auto table, root.table("policy"));
  if (!table) return PolicySpec();
  std::vector<std::string_view> keys = {"name"};
  for_each_policy_field([&](const auto& field) { keys.push_back(field.key); });
  SQUARE_RETURN_IF_ERROR(table->allow_only(keys));
  return PolicyReader(*table, topology).read();
}

Status check_policy(const PolicySpec& policy, const Topology& topology) {
  SQUARE_RETURN_IF_ERROR(check_name(policy.name).with_context("policy.name"));
  return check_each_policy_field([&](const auto& field) {
    Status status;
    if (!is_known(field, policy) && !is_default(field, policy))
      status = meets_no_demands(policy, field.demand);
    if (status.is_ok()) status = check_value(field, policy);
    if (status.is_ok() && field.check != nullptr) status = field.check(policy, topology);
    return status.with_context(fmt::format("policy.{}", field.key));
  });
}

}  // namespace square
