#include "square/plan.h"

#include <cstdio>
#include <memory>
#include <tuple>

#include "base/plan/field_visits.h"
#include "bindings.h"
#include "planning/plan/assumption.h"
#include "square/validator.h"

namespace square::python {
namespace {

using plan_fields::Listed;
using SharedPlan = std::shared_ptr<Plan>;

template <Listed Struct>
struct PlanView;

// Reads values of a plan for Python: names in place of the numbers of nodes and links, seconds, words.
struct PlanScope {
  SharedPlan plan;
  const PlanSession* session = nullptr;  // that the values are of, if they are of one

  [[nodiscard]] const std::string& name(NodeId node) const { return plan->nodes.at(node.index()).name; }

  [[nodiscard]] std::string of(NodeId node) const { return name(node); }
  template <typename Tag, typename Number>
  [[nodiscard]] Number of(Id<Tag, Number> id) const {
    return id.value();
  }
  [[nodiscard]] double of(Duration duration) const { return to_seconds(duration); }
  // None is no bound.
  [[nodiscard]] auto of(const std::vector<Duration>& bounds) const {
    std::vector<std::optional<double>> seconds;
    for (const Duration bound : bounds)
      seconds.push_back(bound == Duration::max() ? std::nullopt : std::optional(to_seconds(bound)));
    return seconds;
  }
  [[nodiscard]] auto of(const std::pair<LinkId, double>& length) const {
    const PlanLink& link = plan->links.at(length.first.index());
    return std::tuple(of(link.from), of(link.to), length.second);
  }
  template <typename A, typename B>
  [[nodiscard]] auto of(const std::pair<A, B>& pair) const {
    return std::pair(of(pair.first), of(pair.second));
  }
  [[nodiscard]] auto of(const PlanPacking::Cut& cut) const;
  // The members of the part are attributes of the stream: PlanAttributes::add_part().
  [[nodiscard]] bool of(const std::optional<PlanCodePart>& part) const { return part.has_value(); }
  template <typename T>
  [[nodiscard]] auto of(const std::optional<T>& value) const {
    return value ? std::optional(of(*value)) : std::nullopt;
  }
  template <typename T>
  [[nodiscard]] auto of(const std::vector<T>& values) const {
    std::vector<decltype(of(values.front()))> read;
    read.reserve(values.size());
    for (const T& value : values) read.push_back(of(value));
    return read;
  }
  [[nodiscard]] auto of(const PlanSession& value) const;
  template <typename T>
  [[nodiscard]] auto of(const T& value) const {
    if constexpr (Listed<T>) {
      return PlanView<T>{*this, &value};
    } else if constexpr (std::is_enum_v<T>) {
      return to_string(value);
    } else {
      return value;
    }
  }
};

// A struct of a plan that Python holds.
template <Listed Struct>
struct PlanView : PlanScope {
  const Struct* item;
};

auto PlanScope::of(const PlanPacking::Cut& cut) const {
  return std::apply([&](const auto&... field) { return std::tuple(of(cut.*field.member)...); },
                    plan_fields::kFields<PlanPacking::Cut>);
}
auto PlanScope::of(const PlanSession& value) const { return PlanView<PlanSession>{{plan, &value}, &value}; }

template <Listed Struct>
const PlanView<Struct>& plan_view(const PlanView<Struct>& view) {
  return view;
}
PlanView<Plan> plan_view(const SharedPlan& plan) { return {{plan}, plan.get()}; }

// Gives classes the attributes of base/plan/fields.h.
template <Listed Struct, typename Self, typename... Options>
class PlanAttributes {
 public:
  explicit PlanAttributes(py::class_<Options...>& type) : type_(type) {
    plan_fields::for_each<Struct>([&](const auto& field) { add(field.member, field.python); });
  }

 private:
  template <typename Member>
  void add(Member, plan_fields::Nowhere) {}
  template <typename Member>
  void add(Member member, const plan_fields::Attribute& attribute) {
    define(attribute, [member](const auto& view) { return view.of(view.item->*member); });
    if constexpr (std::is_same_v<Struct, PlanStream>) add_part(member);
  }
  // None is no limit.
  void add(Quota Struct::*quota, plan_fields::Inline) {
    plan_fields::for_each<Quota>([&](const auto& field) {
      define(field.python, [quota, limit = field.member](const auto& view) {
        const std::uint64_t value = view.item->*quota.*limit;
        return value == Quota::kNone ? std::nullopt : std::optional(value);
      });
    });
  }

  template <typename Member>
  void add_part(Member) {}
  void add_part(std::optional<PlanCodePart> PlanStream::*part) {
    plan_fields::for_each<PlanCodePart>([&](const auto& field) {
      define(field.python, [part, member = field.member](const PlanView<PlanStream>& view) {
        const std::optional<PlanCodePart>& coded = view.item->*part;
        using Value = std::remove_cvref_t<decltype((*coded).*member)>;
        if constexpr (std::is_same_v<Value, NodeId>) {
          return view.of(coded ? (*coded).*member : view.session->root);
        } else if constexpr (std::is_same_v<Value, std::uint32_t>) {
          return coded ? std::optional((*coded).*member) : std::nullopt;
        } else {
          return view.of(coded ? (*coded).*member : Value());
        }
      });
    });
  }

  template <typename Read>
  void define(const plan_fields::Attribute& attribute, Read read) {
    type_.def_property_readonly(
        attribute.name, [read](const Self& self) { return read(plan_view(self)); }, attribute.about);
  }

  py::class_<Options...>& type_;
};

template <Listed Struct, typename... About>
void bind_struct(py::module_& module, const char* name, const About&... about) {
  py::class_<PlanView<Struct>> type(module, name, about...);
  PlanAttributes<Struct, PlanView<Struct>, PlanView<Struct>>{type};
}

// "<Plan exact epoch 1: 3 collectives, min 8.1 Mbit/s>"
std::string repr_of(const Plan& plan) {
  char least[32];
  std::snprintf(least, sizeof least, "%.4g", bps_to_mbps(plan.min_rate_bps));
  const std::size_t count = plan.collectives.size();
  return "<Plan " + plan.policy + " epoch " + std::to_string(plan.epoch.value()) + ": " +
         std::to_string(count) + (count == 1 ? " collective" : " collectives") + ", min " + least +
         " Mbit/s" + (plan.realised ? ">" : ", without streams>");
}

planning::Assumption assumption_or_none(const Plan& plan) {
  return planning::assumption_of(plan).value_or(planning::Assumption{});
}

// A class comes before those that have it.
void bind_structs(py::module_& module) {
  bind_struct<PlanPath>(module, "PlanPath", "A conceptual path of a session.");
  bind_struct<PlanStream>(module, "PlanStream", "A tree with a rate; links in feeding order.");
  bind_struct<PlanCode::Sink>(module, "PlanSink", "A member that solves for the blocks of a code.");
  bind_struct<PlanCode>(module, "PlanCode", "A linear code for what trees cannot carry of a session.");
  bind_struct<PlanSession>(module, "PlanSession", "One session of a plan.");
  bind_struct<PlanTenant>(module, "PlanTenant");
  bind_struct<PlanCollective>(module, "PlanCollective", "One collective of a plan.");
  bind_struct<PlanNode>(module, "PlanNode");
  bind_struct<PlanLink>(module, "PlanLink", "A link and its load; latency in seconds.");
  bind_struct<PlanCut>(module, "PlanCut", "A cut that bounds a collective's rate.");
  bind_struct<PlanPacking>(module, "PlanPacking", "Cuts for one session: (far side, length).");
  bind_struct<PlanLevel>(module, "PlanLevel", "The proof that a freezing level is no higher: square/plan.h.");
  bind_struct<PlanCertificate>(module, "PlanCertificate", "Why no plan does better: see square/plan.h.");
  bind_struct<PlanHeadroom>(module, "PlanHeadroom", "The rates of the same scenario without headroom.");
  bind_struct<PlanChange>(module, "PlanChange", "How a collective differs from the plan before.");
  py::class_<LevelGap>(module, "LevelGap", "How far a level is from what its duals prove.")
      .def_readonly("level", &LevelGap::level)
      .def_readonly("bound_bps", &LevelGap::bound_bps)
      .def_readonly("lp_level_bps", &LevelGap::lp_level_bps)
      .def_readonly("rate_level_bps", &LevelGap::rate_level_bps)
      .def_readonly("lp_gap", &LevelGap::lp_gap)
      .def_readonly("rate_gap", &LevelGap::rate_gap);
}

}  // namespace

void bind_plan(py::module_& module) {
  bind_structs(module);
  py::class_<Plan, SharedPlan> type(module, "Plan",
                                    "Who sends what over which trees at what rate. Immutable.");
  PlanAttributes<Plan, SharedPlan, Plan, SharedPlan>{type};
  type.def_property_readonly(
          "assumed_links", [](const Plan& self) { return assumption_or_none(self).links; },
          "Links without a capacity, but for those to be avoided.")
      .def_property_readonly(
          "assumed_capacity_bps", [](const Plan& self) { return assumption_or_none(self).capacity_bps; },
          "What each of them is planned as: the lowest capacity that there is, else 1 Gbit/s. 0 without any.")
      .def_property_readonly(
          "assumed_bounds",
          [](const SharedPlan& self) { return PlanScope{self}.of(planning::assumed_bounds(*self)); },
          "The collectives whose bound rests on that: a better plan may exist.")
      .def("__repr__", &repr_of)
      .def("to_json", [](const Plan& self) { return unlocked([&] { return to_json(self); }); })
      .def_static(
          "from_json",
          [](const std::string& text) {
            return std::make_shared<Plan>(check(unlocked([&] { return plan_from_json(text); })));
          },
          py::arg("text"));
  module.def(
      "find_violations", [](const Plan& plan) { return unlocked([&] { return find_violations(plan); }); },
      py::arg("plan"), "Every way in which the plan breaks a rule; empty for a valid plan.");
  module.def(
      "certified_gaps",
      [](const Plan& plan) { return check(unlocked([&] { return certified_gaps(plan); })); }, py::arg("plan"),
      "What the duals of each level prove, and how far the rates are from it.");
  module.def(
      "validate", [](const Plan& plan) { check(unlocked([&] { return validate(plan); })); }, py::arg("plan"),
      "Raises InvalidArgumentError with the first violations.");
}

}  // namespace square::python
