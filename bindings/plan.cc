#include "square/plan.h"

#include <memory>

#include "bindings.h"
#include "square/validator.h"

namespace square::python {
namespace {

using SharedPlan = std::shared_ptr<Plan>;
using Names = std::vector<std::string>;

// Parts of a plan with names in place of numbers.
struct PathView {
  std::string member;
  Names nodes;
  double rate_bps;
};
struct StreamView {
  std::vector<std::pair<std::string, std::string>> links;
  double rate_bps;
  bool coded;
};
struct SessionView {
  PlanSession session;
  std::string root;
  Names members;
  std::vector<PathView> paths;
  std::vector<StreamView> streams;
};
struct PlanLinkView {
  PlanLink link;
  std::string from_node;
  std::string to_node;
};
struct CutView {
  std::uint32_t collective;
  Names source_side;
  double bound_bps;
};
struct CertificateView {
  std::optional<double> level_bound_bps;
  std::vector<CutView> cuts;
};

Names names_of(const Plan& plan, const std::vector<NodeId>& nodes) {
  Names names;
  for (const NodeId node : nodes) names.push_back(plan.nodes.at(node.index()).name);
  return names;
}

SessionView view_of(const Plan& plan, const PlanSession& session) {
  SessionView view{
      session, plan.nodes.at(session.root.index()).name, names_of(plan, session.members), {}, {}};
  for (const PlanPath& path : session.paths) {
    view.paths.push_back(
        {plan.nodes.at(path.member.index()).name, names_of(plan, path.nodes), path.rate_bps});
  }
  for (const PlanStream& stream : session.streams) {
    StreamView streamed{{}, stream.rate_bps, stream.coded};
    for (const auto& [from, to] : stream.links) {
      streamed.links.emplace_back(plan.nodes.at(from.index()).name, plan.nodes.at(to.index()).name);
    }
    view.streams.push_back(std::move(streamed));
  }
  return view;
}

std::vector<SessionView> sessions_of(const Plan& plan) {
  std::vector<SessionView> views;
  for (const PlanSession& session : plan.sessions) views.push_back(view_of(plan, session));
  return views;
}

std::vector<PlanLinkView> links_of(const Plan& plan) {
  std::vector<PlanLinkView> views;
  for (const PlanLink& link : plan.links) {
    views.push_back({link, plan.nodes.at(link.from.index()).name, plan.nodes.at(link.to.index()).name});
  }
  return views;
}

CertificateView certificate_of(const Plan& plan) {
  CertificateView view{plan.certificate.level_bound_bps, {}};
  for (const PlanCut& cut : plan.certificate.cuts) {
    view.cuts.push_back({cut.collective.value(), names_of(plan, cut.source_side), cut.bound_bps});
  }
  return view;
}

std::vector<std::uint32_t> numbers_of(const std::vector<SessionId>& ids) {
  std::vector<std::uint32_t> numbers;
  for (const SessionId id : ids) numbers.push_back(id.value());
  return numbers;
}

void bind_session(py::module_& module) {
  py::class_<PathView>(module, "PlanPath", "A conceptual path of a session.")
      .def_readonly("member", &PathView::member)
      .def_readonly("nodes", &PathView::nodes)
      .def_readonly("rate_bps", &PathView::rate_bps);
  py::class_<StreamView>(module, "PlanStream", "A tree with a rate; links in feeding order.")
      .def_readonly("links", &StreamView::links)
      .def_readonly("rate_bps", &StreamView::rate_bps)
      .def_readonly("coded", &StreamView::coded);
  py::class_<SessionView>(module, "PlanSession", "One session of a plan.")
      .def_property_readonly("id", [](const SessionView& self) { return self.session.id.value(); })
      .def_property_readonly("collective",
                             [](const SessionView& self) { return self.session.collective.value(); })
      .def_property_readonly("kind", [](const SessionView& self) { return to_string(self.session.kind); })
      .def_readonly("root", &SessionView::root)
      .def_readonly("members", &SessionView::members)
      .def_property_readonly("offset_bytes",
                             [](const SessionView& self) { return self.session.offset_bytes; })
      .def_property_readonly("size_bytes", [](const SessionView& self) { return self.session.size_bytes; })
      .def_property_readonly("pair",
                             [](const SessionView& self) {
                               return self.session.pair ? std::optional(self.session.pair->value())
                                                        : std::nullopt;
                             })
      .def_property_readonly("lp_rate_bps", [](const SessionView& self) { return self.session.lp_rate_bps; })
      .def_property_readonly("rate_bps", [](const SessionView& self) { return self.session.rate_bps; })
      .def_readonly("paths", &SessionView::paths)
      .def_readonly("streams", &SessionView::streams);
}

void bind_parts(py::module_& module) {
  py::class_<PlanTenant>(module, "PlanTenant")
      .def_readonly("name", &PlanTenant::name)
      .def_readonly("weight", &PlanTenant::weight)
      .def_readonly("rate_bps", &PlanTenant::rate_bps);
  py::class_<PlanCollective>(module, "PlanCollective", "One collective of a plan.")
      .def_property_readonly("id", [](const PlanCollective& self) { return self.id.value(); })
      .def_readonly("tenant", &PlanCollective::tenant)
      .def_property_readonly("op", [](const PlanCollective& self) { return to_string(self.op); })
      .def_readonly("weight", &PlanCollective::weight)
      .def_readonly("size_bytes", &PlanCollective::size_bytes)
      .def_readonly("rate_bps", &PlanCollective::rate_bps)
      .def_readonly("bound_bps", &PlanCollective::bound_bps)
      .def_readonly("completion_seconds", &PlanCollective::completion_seconds)
      .def_property_readonly("sessions",
                             [](const PlanCollective& self) { return numbers_of(self.sessions); });
  py::class_<PlanNode>(module, "PlanNode")
      .def_readonly("name", &PlanNode::name)
      .def_readonly("egress_bps", &PlanNode::egress_bps)
      .def_readonly("ingress_bps", &PlanNode::ingress_bps);
  py::class_<PlanLinkView>(module, "PlanLink", "A link and its load; latency in seconds.")
      .def_readonly("from_node", &PlanLinkView::from_node)
      .def_readonly("to_node", &PlanLinkView::to_node)
      .def_property_readonly("capacity_bps", [](const PlanLinkView& self) { return self.link.capacity_bps; })
      .def_property_readonly("load_bps", [](const PlanLinkView& self) { return self.link.load_bps; })
      .def_property_readonly("latency",
                             [](const PlanLinkView& self) { return to_seconds(self.link.latency); });
  py::class_<CutView>(module, "PlanCut", "A cut that bounds a collective's rate.")
      .def_readonly("collective", &CutView::collective)
      .def_readonly("source_side", &CutView::source_side)
      .def_readonly("bound_bps", &CutView::bound_bps);
  py::class_<CertificateView>(module, "PlanCertificate", "Why no plan does better: see square/plan.h.")
      .def_readonly("level_bound_bps", &CertificateView::level_bound_bps)
      .def_readonly("cuts", &CertificateView::cuts);
}

}  // namespace

void bind_plan(py::module_& module) {
  bind_session(module);
  bind_parts(module);
  py::class_<Plan, SharedPlan>(module, "Plan", "Who sends what over which trees at what rate. Immutable.")
      .def_property_readonly("epoch", [](const Plan& self) { return self.epoch.value(); })
      .def_readonly("policy", &Plan::policy)
      .def_readonly("solve_seconds", &Plan::solve_seconds)
      .def_readonly("min_rate_bps", &Plan::min_rate_bps)
      .def_readonly("total_rate_bps", &Plan::total_rate_bps)
      .def_readonly("jain", &Plan::jain)
      .def_readonly("tenants", &Plan::tenants)
      .def_readonly("collectives", &Plan::collectives)
      .def_readonly("nodes", &Plan::nodes)
      .def_property_readonly("sessions", &sessions_of)
      .def_property_readonly("links", &links_of)
      .def_property_readonly("certificate", &certificate_of)
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
      "validate", [](const Plan& plan) { check(unlocked([&] { return validate(plan); })); }, py::arg("plan"),
      "Raises InvalidArgumentError with the first violations.");
}

}  // namespace square::python
