#include "policy.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "names.h"
#include "planning/scenario/policy.h"
#include "planning/scenario/policy_fields.h"

namespace square::python {
namespace {

// Of a time in a file; Python's times have units of their own.
constexpr std::string_view kSeconds = "_seconds";

template <typename Value>
bool is_time(const PolicyField<Value>& field) {
  return field.key.ends_with(kSeconds);
}

template <typename Value>
std::string python_name(const PolicyField<Value>& field) {
  return std::string(field.key.substr(0, field.key.size() - (is_time(field) ? kSeconds.size() : 0)));
}

// What Python reads.
template <typename Value>
auto value_of(const PolicyText& text, const PolicyField<Value>& field) {
  if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, PathChoice>) {
    return std::string(to_string(text.spec.*field.member));
  } else {
    return text.spec.*field.member;
  }
}
auto value_of(const PolicyText& text, const PolicyField<std::vector<NodeId>>&) { return text.avoid_nodes; }
auto value_of(const PolicyText& text, const PolicyField<std::vector<LinkId>>&) { return text.avoid_links; }

PathChoice parsed(const std::string& text, const PathChoice&) { return check(parse_path_choice(text)); }
Fairness parsed(const std::string& text, Fairness) { return check(parse_fairness(text)); }
Objective parsed(const std::string& text, Objective) { return check(parse_objective(text)); }
Coding parsed(const std::string& text, Coding) { return check(parse_coding(text)); }

// Raises InvalidArgumentError for a word or a number that no policy could have; throws
// cast_error for another type.
template <typename Value>
void set(PolicyText& text, const PolicyField<Value>& field, const py::handle& given) {
  Value& value = text.spec.*field.member;
  if constexpr (std::is_integral_v<Value>) {
    // A number too large for the cast is as far out of range as the largest.
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
    int overflow = 0;
    std::int64_t number = PyLong_Check(given.ptr()) ? PyLong_AsLongLongAndOverflow(given.ptr(), &overflow)
                                                    : given.cast<std::int64_t>();
    if (overflow != 0) number = overflow > 0 ? kLargest : -kLargest;
    if (!std::in_range<Value>(number)) {
      raise(field.range.check(static_cast<double>(number)).with_context(python_name(field)));
    }
    value = static_cast<Value>(number);
  } else if constexpr (std::is_same_v<Value, std::optional<double>>) {
    value.reset();
    if (!given.is_none()) value = is_time(field) ? seconds_of(given.cast<Time>()) : given.cast<double>();
  } else if constexpr (std::is_same_v<Value, double>) {
    value = given.cast<double>();
  } else {
    value = parsed(given.cast<std::string>(), value);
  }
}
void set(PolicyText& text, const PolicyField<std::vector<NodeId>>&, const py::handle& given) {
  text.avoid_nodes = given.cast<std::vector<std::string>>();
}
void set(PolicyText& text, const PolicyField<std::vector<LinkId>>&, const py::handle& given) {
  text.avoid_links = given.cast<std::vector<std::pair<std::string, std::string>>>();
}

template <typename Value>
std::string type_name(const PolicyField<Value>& field) {
  if constexpr (std::is_integral_v<Value>) return "int";
  if constexpr (std::is_same_v<Value, double>) return "float";
  if constexpr (std::is_same_v<Value, std::optional<double>>) {
    return is_time(field) ? "float | datetime.timedelta | None" : "float | None";
  }
  if constexpr (std::is_same_v<Value, std::vector<NodeId>>) return "collections.abc.Sequence[str]";
  if constexpr (std::is_same_v<Value, std::vector<LinkId>>) {
    return "collections.abc.Sequence[tuple[str, str]]";
  }
  return "str";
}

// Sets what `given` names and removes it there; was there anything?
template <typename Value>
bool take(PolicyText& text, const PolicyField<Value>& field, const py::dict& given) {
  const std::string name = python_name(field);
  if (!given.contains(name)) return false;
  const py::object value = given.attr("pop")(name);
  try {
    set(text, field, value);
    return true;
  } catch (const py::cast_error&) {
    throw py::type_error("Policy: " + name + " must be " + type_name(field) + ", not " +
                         py::repr(value).cast<std::string>());
  }
}

// Raises InvalidArgumentError as the reader of scenarios does for what needs a named policy.
void take_all(PolicyText& text, const py::dict& given) {
  Status named;
  for_each_policy_field([&](const auto& field) {
    const bool is_given = take(text, field, given);
    if (!is_given || !field.needs_name || text.is_named || !named.is_ok()) return;
    named = needs_named_policy(text.spec, field.key).with_context(python_name(field));
  });
  if (!given.empty()) {
    const auto unknown = py::str(given.begin()->first).cast<std::string>();
    throw py::type_error("Policy: there is no keyword \"" + unknown + "\"");
  }
  if (!named.is_ok()) raise(named);
}

PolicyText make_policy(const std::optional<std::string>& name, const py::kwargs& parts) {
  PolicyText text;
  text.is_named = name.has_value();
  text.spec.name = name.value_or(text.spec.name);
  take_all(text, py::dict(parts));
  return text;
}

PolicyText replaced(const PolicyText& self, std::optional<std::string> name, const py::kwargs& parts) {
  PolicyText text = self;
  text.is_named = self.is_named || name.has_value();
  text.spec.name = name.value_or(self.spec.name);
  if (text.spec.name != self.spec.name && !meets_demands(text.spec)) {
    for_each_policy_field([&](const auto& field) {
      if (field.is_effort) text.spec.*field.member = PolicySpec{}.*field.member;
    });
  }
  py::dict given;
  for (const auto& [key, value] : parts) {
    if (!value.is_none()) given[key] = value;
  }
  take_all(text, given);
  return text;
}

// "shots: int = 3, paths: str = 'shortest'", or with None for every value.
std::string keywords(bool none) {
  std::string text;
  for_each_policy_field([&](const auto& field) {
    const std::string type = type_name(field);
    const bool adds_none = none && !type.ends_with("None");
    const std::string value =
        none ? "None" : py::repr(py::cast(value_of(PolicyText{}, field))).template cast<std::string>();
    text += ", " + python_name(field) + ": " + type + (adds_none ? " | None" : "") + " = " + value;
  });
  return text;
}

// pybind11 would write **kwargs only.
void bind_construction(py::class_<PolicyText>& policy) {
  py::options options;
  options.disable_function_signatures();
  const std::string make = "__init__(self: square._core.Policy, name: str | None = None, *" +
                           keywords(false) + ") -> None\n\nWithout a name it is \"" + PolicySpec{}.name +
                           "\", and takes neither ``shots`` nor ``paths``, as in a file.";
  policy.def(py::init(&make_policy), py::arg("name") = py::none(), make.c_str());
  const std::string replace =
      "replace(self: square._core.Policy, name: str | None = None, *" + keywords(true) +
      ") -> square._core.Policy\n\n"
      "The same policy with parts replaced; None leaves a part as it is. Under the name "
      "of a policy that knows none, the gap and the deadline go: they say how to solve, "
      "not what is wanted. ``shots`` and ``paths`` need a policy that was named, here or before.";
  policy.def("replace", &replaced, py::arg("name") = py::none(), replace.c_str());
}

}  // namespace

PolicySpec resolve(const PolicyText& text, const Topology& topology) {
  PolicySpec spec = text.spec;
  for (const std::string& name : text.avoid_nodes) spec.avoid_nodes.push_back(node_named(topology, name));
  for (const auto& [from, to] : text.avoid_links) spec.avoid_links.push_back(link_named(topology, from, to));
  return spec;
}

PolicyText describe(const PolicySpec& spec, const Topology& topology) {
  // A scenario does not say whether anybody named the default.
  PolicyText text{spec, names_of(topology, spec.avoid_nodes), {}, spec.name != PolicySpec{}.name};
  for (const LinkId id : spec.avoid_links) {
    const TopologyLink& link = topology.link(id);
    text.avoid_links.emplace_back(topology.node(link.from).name, topology.node(link.to).name);
  }
  text.spec.avoid_nodes.clear();
  text.spec.avoid_links.clear();
  return text;
}

void bind_policy(py::module_& module) {
  py::class_<PolicyText> policy(
      module, "Policy",
      "How to plan; docs/scenario.md says what each part means. All from ``objective`` on "
      "is for the policy \"exact\"; what is wrong is said where the policy meets a scenario.");
  bind_construction(policy);
  policy.def_property_readonly("name", [](const PolicyText& self) { return self.spec.name; });
  for_each_policy_field([&](const auto& field) {
    policy.def_property_readonly(
        python_name(field).c_str(), [field](const PolicyText& self) { return value_of(self, field); },
        std::string(field.about).c_str());
  });
}

}  // namespace square::python
