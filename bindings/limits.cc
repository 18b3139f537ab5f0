#include "square/limits.h"

#include <pybind11/typing.h>

#include <map>
#include <memory>

#include "bindings.h"
#include "whole_number.h"

namespace square::python {
namespace {

using SharedPlan = std::shared_ptr<Plan>;
using NodeNames = py::typing::Tuple<py::str, py::ellipsis>;

// Parts of what was found, with the plan that has the names.
struct LimitedResourceView {
  SharedPlan plan;
  LimitedResource resource;
};
struct LimitingCutView {
  SharedPlan plan;
  LimitingCut cut;
};
struct LimitProofView {
  SharedPlan plan;
  std::shared_ptr<const LimitProof> proof;
};
struct LimitsView {
  SharedPlan plan;
  Limits limits;
};

NodeNames node_names_of(const LimitedResourceView& view) {
  const auto name = [&](NodeId node) { return py::str(view.plan->nodes.at(node.index()).name); };
  if (view.resource.kind != LimitedResource::Kind::kLink) {
    return NodeNames(py::make_tuple(name(view.resource.node)));
  }
  const PlanLink& link = view.plan->links.at(view.resource.link.index());
  return NodeNames(py::make_tuple(name(link.from), name(link.to)));
}

std::map<std::uint32_t, double> loads_of(const LimitedResourceView& view) {
  std::map<std::uint32_t, double> loads;
  for (const LimitedResource::Load& load : view.resource.loads) loads[load.session.value()] = load.rate_bps;
  return loads;
}

std::vector<LimitedResourceView> views_of(const SharedPlan& plan,
                                          const std::vector<LimitedResource>& resources) {
  std::vector<LimitedResourceView> views;
  for (const LimitedResource& resource : resources) views.push_back({plan, resource});
  return views;
}

std::vector<LimitingCutView> cuts_of(const LimitsView& view) {
  std::vector<LimitingCutView> views;
  for (const LimitingCut& cut : view.limits.cuts) views.push_back({view.plan, cut});
  return views;
}

std::vector<std::string> nodes_into(const LimitingCutView& view) {
  std::vector<std::string> names;
  for (const NodeId node : view.cut.into) names.push_back(view.plan->nodes.at(node.index()).name);
  return names;
}

std::vector<std::uint32_t> numbers_of(const std::vector<SessionId>& ids) {
  std::vector<std::uint32_t> numbers;
  for (const SessionId id : ids) numbers.push_back(id.value());
  return numbers;
}

std::optional<LimitProofView> proof_of(const LimitsView& view) {
  if (view.limits.proof == nullptr) return std::nullopt;
  return LimitProofView{view.plan, view.limits.proof};
}

LimitsView limits(const SharedPlan& plan, std::optional<Count<"session">> session,
                  std::optional<Count<"collective">> collective, Size<"max_cuts"> max_cuts) {
  if (session.has_value() == collective.has_value()) {
    raise(invalid_argument("limits: name either a session or a collective"));
  }
  return {plan, check(unlocked([&] {
            return session.has_value() ? limits_of(*plan, SessionId(*session), max_cuts)
                                       : limits_of(*plan, CollectiveId(*collective), max_cuts);
          }))};
}

std::vector<LimitsView> limits_of_all(const SharedPlan& plan, Size<"max_cuts"> max_cuts) {
  std::vector<Limits> found = check(unlocked([&] { return limits_of_collectives(*plan, max_cuts); }));
  std::vector<LimitsView> views;
  for (Limits& of_one : found) views.push_back({plan, std::move(of_one)});
  return views;
}

void bind_resource(py::module_& module) {
  using View = LimitedResourceView;
  py::class_<View>(module, "LimitedResource",
                   "A link, or the limit of a node over all links that leave it (egress) or enter it "
                   "(ingress). Rates are bits per second.")
      .def_property_readonly(
          "kind", [](const View& self) { return to_string(self.resource.kind); },
          "\"link\", \"egress\" or \"ingress\".")
      .def_property_readonly("nodes", &node_names_of, "From and to of a link, or the node.")
      .def_property_readonly(
          "capacity_bps", [](const View& self) { return self.resource.capacity_bps; },
          "What a bound counts: an unlimited link is as wide as the widest of the plan that is limited.")
      .def_property_readonly("loads", &loads_of, "What streams put on it, by session.")
      .def_property_readonly("load_bps", [](const View& self) { return self.resource.load_bps; })
      .def_property_readonly(
          "length", [](const View& self) { return self.resource.length; }, "Its dual; 0 where it has none.");
}

void bind_cut(py::module_& module) {
  using Demand = LimitingCut::Demand;
  using View = LimitingCutView;
  py::class_<Demand>(module, "LimitDemand", "What one collective must bring across a cut.")
      .def_property_readonly("collective", [](const Demand& self) { return self.collective.value(); })
      .def_readonly("crossings", &Demand::crossings, "Bits that cross for each of its own.")
      .def_readonly("rate_bps", &Demand::rate_bps, "That it keeps.")
      .def_readonly("needs_bps", &Demand::needs_bps, "Crossings times rate.");
  py::class_<View>(module, "LimitingCut",
                   "A set of nodes that data must enter, and all that crosses into it.")
      .def_property_readonly("into", &nodes_into)
      .def_property_readonly(
          "is_left", [](const View& self) { return self.cut.is_left; },
          "The certificate names the other side, which data of a reduce leaves.")
      .def_property_readonly(
          "length", [](const View& self) { return self.cut.length; },
          "How much of the proof it is; 0 under a policy without levels.")
      .def_property_readonly(
          "sessions", [](const View& self) { return numbers_of(self.cut.sessions); },
          "Those that have it in the proof.")
      .def_property_readonly(
          "links", [](const View& self) { return views_of(self.plan, self.cut.links); },
          "Into it, the most loaded first.")
      .def_property_readonly(
          "node_limits", [](const View& self) { return views_of(self.plan, self.cut.node_limits); },
          "Of nodes at the links' ends: those that leave less than the links carry, or have a length.")
      .def_property_readonly(
          "carried_bps", [](const View& self) { return self.cut.carried_bps; },
          "By the links, within the limits of their nodes.")
      .def_property_readonly("demands", [](const View& self) { return self.cut.demands; })
      .def_property_readonly(
          "bound_bps", [](const View& self) { return self.cut.bound_bps; },
          "What it leaves to the collective while the others keep theirs.")
      .def_property_readonly(
          "is_proof", [](const View& self) { return self.cut.is_proof; },
          "Alone it proves the bound of the collective.");
}

void bind_proof(py::module_& module) {
  using Part = LimitProof::Part;
  using View = LimitProofView;
  py::class_<Part>(module, "LimitPart", "A collective in a proof: its length times its rate is what it uses.")
      .def_property_readonly("collective", [](const Part& self) { return self.collective.value(); })
      .def_readonly("length", &Part::length)
      .def_readonly("weight", &Part::weight)
      .def_readonly("lp_rate_bps", &Part::lp_rate_bps)
      .def_readonly("rate_bps", &Part::rate_bps)
      .def_readonly("is_earlier", &Part::is_earlier, "It stopped at a lower level.");
  py::class_<View>(module, "LimitProof", "The sum that proves a level: see LimitProof in square/limits.h.")
      .def_property_readonly("resources",
                             [](const View& self) { return views_of(self.plan, self.proof->resources); })
      .def_property_readonly("budget_length", [](const View& self) { return self.proof->budget_length; })
      .def_property_readonly("budget_usd_per_hour",
                             [](const View& self) { return self.proof->budget_usd_per_hour; })
      .def_property_readonly("parts", [](const View& self) { return self.proof->parts; })
      .def_property_readonly(
          "worth", [](const View& self) { return self.proof->worth; },
          "Capacities, limits and budget, each times its length.")
      .def_property_readonly(
          "earlier", [](const View& self) { return self.proof->earlier; },
          "What collectives of lower levels use of it.")
      .def_property_readonly(
          "active", [](const View& self) { return self.proof->active; },
          "Lengths times weights of the others.")
      .def_property_readonly(
          "bound_bps", [](const View& self) { return self.proof->bound_bps; },
          "Of the rate per unit of weight: (worth - earlier) / active.");
}

void bind_found(py::module_& module) {
  using View = LimitsView;
  py::class_<View>(module, "Limits", "Why a collective, or one of its sessions, has no higher rate.")
      .def_property_readonly("collective", [](const View& self) { return self.limits.collective.value(); })
      .def_property_readonly(
          "session",
          [](const View& self) {
            return self.limits.session ? std::optional(self.limits.session->value()) : std::nullopt;
          },
          "None: of the whole collective.")
      .def_property_readonly(
          "reason", [](const View& self) { return to_string(self.limits.reason); },
          "\"idle\", \"required\", \"level\", \"cut\", \"policy\" or \"unproven\": "
          "LimitReason in square/limits.h.")
      .def_property_readonly(
          "level", [](const View& self) { return self.limits.level; },
          "Its position in ``plan.certificate.levels``.")
      .def_property_readonly(
          "rate_bps", [](const View& self) { return self.limits.rate_bps; },
          "Of the collective; without streams what the linear program allows.")
      .def_property_readonly(
          "bound_bps", [](const View& self) { return self.limits.bound_bps; },
          "No plan gives the collective more while the others keep their rates.")
      .def_property_readonly(
          "held_by", [](const View& self) { return views_of(self.plan, self.limits.held_by); },
          "The links and limits of nodes that hold it back.")
      .def_property_readonly("is_held_by_budget",
                             [](const View& self) { return self.limits.is_held_by_budget; })
      .def_property_readonly(
          "keeps_pace_with", [](const View& self) { return numbers_of(self.limits.keeps_pace_with); },
          "Sessions whose cuts these are, where the session has none of its own.")
      .def_property_readonly("cuts", &cuts_of, "The heaviest, or the narrowest, first.")
      .def_property_readonly(
          "cut_count", [](const View& self) { return self.limits.cut_count; },
          "With those that ``cuts`` leaves out.")
      .def_property_readonly(
          "length", [](const View& self) { return self.limits.length; }, "Of all cuts.")
      .def_property_readonly("proof", &proof_of);
}

}  // namespace

void bind_limits(py::module_& module) {
  bind_resource(module);
  bind_cut(module);
  bind_proof(module);
  bind_found(module);
  module.def(
      "limits", &limits, py::arg("plan"), py::arg("session") = py::none(), py::kw_only(),
      py::arg("collective") = py::none(), py::arg("max_cuts") = kDefaultLimitingCuts,
      "Why a session, or a whole collective, has no higher rate: the links, limits of nodes and cuts that "
      "hold it back, with the sum that proves it. Believes what the plan claims (see ``validate``). Raises "
      "NotFoundError for what the plan does not have, InvalidArgumentError where the plan names what is not "
      "there, or unless one of the two is given. Lets go of the interpreter lock.");
  module.def("limits_of_collectives", &limits_of_all, py::arg("plan"), py::kw_only(),
             py::arg("max_cuts") = kDefaultLimitingCuts,
             "The same of every collective, in the order of the plan, which is read once.");
}

}  // namespace square::python
