#include "square/plan.h"

#include <cstdio>
#include <memory>
#include <tuple>

#include "bindings.h"
#include "planning/plan/assumption.h"
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
  std::optional<PlanCodePart> coded;
  std::string origin;
};
struct SinkView {
  std::string member;
  std::vector<std::uint32_t> streams;
  std::vector<std::vector<double>> inverse;
  std::vector<std::vector<double>> byte_inverse;
};
struct CodeView {
  PlanCode code;
  std::vector<SinkView> sinks;
};
struct SessionView {
  PlanSession session;
  std::string root;
  Names members;
  std::vector<PathView> paths;
  std::vector<StreamView> streams;
  std::vector<CodeView> codes;
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
struct PackingView {
  std::uint32_t session;
  std::vector<std::pair<Names, double>> cuts;
};
struct LevelView {
  double bound_bps;
  std::vector<std::uint32_t> collectives;
  std::vector<std::tuple<std::string, std::string, double>> links;
  std::vector<std::pair<std::string, double>> egress;
  std::vector<std::pair<std::string, double>> ingress;
  double budget;
  std::vector<PackingView> packings;
};
struct CertificateView {
  std::optional<double> level_bound_bps;
  std::vector<CutView> cuts;
  std::vector<LevelView> levels;
  std::optional<double> cost_bound_usd_per_hour;
};

Names node_names(const Plan& plan, const std::vector<NodeId>& nodes) {
  Names names;
  for (const NodeId node : nodes) names.push_back(plan.nodes.at(node.index()).name);
  return names;
}

template <typename IdType>
std::vector<std::uint32_t> numbers_of(const std::vector<IdType>& ids) {
  std::vector<std::uint32_t> numbers;
  for (const IdType id : ids) numbers.push_back(id.value());
  return numbers;
}

SessionView session_view(const Plan& plan, const PlanSession& session) {
  SessionView view{
      session, plan.nodes.at(session.root.index()).name, node_names(plan, session.members), {}, {}, {}};
  for (const PlanPath& path : session.paths) {
    view.paths.push_back(
        {plan.nodes.at(path.member.index()).name, node_names(plan, path.nodes), path.rate_bps});
  }
  for (const PlanStream& stream : session.streams) {
    const NodeId origin = stream.coded ? stream.coded->origin : session.root;
    StreamView streamed{{}, stream.rate_bps, stream.coded, plan.nodes.at(origin.index()).name};
    for (const auto& [from, to] : stream.links) {
      streamed.links.emplace_back(plan.nodes.at(from.index()).name, plan.nodes.at(to.index()).name);
    }
    view.streams.push_back(std::move(streamed));
  }
  for (const PlanCode& code : session.codes) {
    CodeView& added = view.codes.emplace_back(CodeView{code, {}});
    for (const PlanCode::Sink& sink : code.sinks) {
      added.sinks.push_back({plan.nodes.at(sink.member.index()).name, numbers_of(sink.streams), sink.inverse,
                             sink.byte_inverse});
    }
  }
  return view;
}

std::vector<SessionView> sessions_of(const Plan& plan) {
  std::vector<SessionView> views;
  for (const PlanSession& session : plan.sessions) views.push_back(session_view(plan, session));
  return views;
}

std::vector<PlanLinkView> planned_links_of(const Plan& plan) {
  std::vector<PlanLinkView> views;
  for (const PlanLink& link : plan.links) {
    views.push_back({link, plan.nodes.at(link.from.index()).name, plan.nodes.at(link.to.index()).name});
  }
  return views;
}

std::vector<std::pair<std::string, double>> node_lengths(
    const Plan& plan, const std::vector<std::pair<NodeId, double>>& lengths) {
  std::vector<std::pair<std::string, double>> named;
  for (const auto& [node, length] : lengths) named.emplace_back(plan.nodes.at(node.index()).name, length);
  return named;
}

LevelView level_view(const Plan& plan, const PlanLevel& level) {
  LevelView view{level.bound_bps,
                 numbers_of(level.collectives),
                 {},
                 node_lengths(plan, level.egress),
                 node_lengths(plan, level.ingress),
                 level.budget,
                 {}};
  for (const auto& [id, length] : level.links) {
    const PlanLink& link = plan.links.at(id.index());
    view.links.emplace_back(plan.nodes.at(link.from.index()).name, plan.nodes.at(link.to.index()).name,
                            length);
  }
  for (const PlanPacking& packing : level.packings) {
    PackingView& packed = view.packings.emplace_back(PackingView{packing.session.value(), {}});
    for (const PlanPacking::Cut& cut : packing.cuts) {
      packed.cuts.emplace_back(node_names(plan, cut.far_side), cut.length);
    }
  }
  return view;
}

CertificateView certificate_of(const Plan& plan) {
  CertificateView view{plan.certificate.level_bound_bps, {}, {}, plan.certificate.cost_bound_usd_per_hour};
  for (const PlanCut& cut : plan.certificate.cuts) {
    view.cuts.push_back({cut.collective.value(), node_names(plan, cut.source_side), cut.bound_bps});
  }
  for (const PlanLevel& level : plan.certificate.levels) view.levels.push_back(level_view(plan, level));
  return view;
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

// In seconds, by member; None is no bound.
std::vector<std::optional<double>> latencies_of(const SessionView& view) {
  std::vector<std::optional<double>> seconds;
  for (const Duration bound : view.session.max_latency) {
    seconds.push_back(bound == Duration::max() ? std::nullopt : std::optional(to_seconds(bound)));
  }
  return seconds;
}

void bind_stream(py::module_& module) {
  py::class_<StreamView>(module, "PlanStream", "A tree with a rate; links in feeding order.")
      .def_readonly("links", &StreamView::links)
      .def_readonly("rate_bps", &StreamView::rate_bps)
      .def_property_readonly("coded", [](const StreamView& self) { return self.coded.has_value(); })
      .def_readonly("origin", &StreamView::origin,
                    "Where it begins: the root, or where a coded one is added up.")
      .def_property_readonly(
          "code",
          [](const StreamView& self) { return self.coded ? std::optional(self.coded->code) : std::nullopt; },
          "Position of its code in the session's codes.")
      .def_property_readonly(
          "adds",
          [](const StreamView& self) {
            std::vector<std::pair<std::uint32_t, double>> terms;
            if (!self.coded) return terms;
            for (const auto& [stream, factor] : self.coded->terms) terms.emplace_back(stream.value(), factor);
            return terms;
          },
          "The session's streams that are added at its origin, each with its factor.")
      .def_property_readonly(
          "row", [](const StreamView& self) { return self.coded ? self.coded->row : std::vector<double>(); },
          "Which sum of a generation's blocks it carries.")
      .def_property_readonly(
          "byte_factors",
          [](const StreamView& self) {
            return self.coded ? self.coded->byte_factors : std::vector<double>();
          },
          "Of a code of floats: the factors over bytes, for blocks that floats would spoil.")
      .def_property_readonly(
          "byte_row",
          [](const StreamView& self) { return self.coded ? self.coded->byte_row : std::vector<double>(); },
          "Of a code of floats: its row over bytes.");
}

void bind_session(py::module_& module) {
  py::class_<PathView>(module, "PlanPath", "A conceptual path of a session.")
      .def_readonly("member", &PathView::member)
      .def_readonly("nodes", &PathView::nodes)
      .def_readonly("rate_bps", &PathView::rate_bps);
  bind_stream(module);
  py::class_<SinkView>(module, "PlanSink", "A member that solves for the blocks of a code.")
      .def_readonly("member", &SinkView::member)
      .def_readonly("streams", &SinkView::streams)
      .def_readonly("inverse", &SinkView::inverse)
      .def_readonly("byte_inverse", &SinkView::byte_inverse,
                    "Of a code of floats: that of its rows over bytes.");
  py::class_<CodeView>(module, "PlanCode", "A linear code for what trees cannot carry of a session.")
      .def_property_readonly("field", [](const CodeView& self) { return to_string(self.code.field); })
      .def_property_readonly("blocks", [](const CodeView& self) { return self.code.blocks; })
      .def_property_readonly(
          "redundancy", [](const CodeView& self) { return self.code.redundancy; },
          "So many of the streams that come to a member may be lost.")
      .def_property_readonly("rate_bps", [](const CodeView& self) { return self.code.rate_bps; })
      .def_readonly("sinks", &CodeView::sinks);
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
      .def_readonly("codes", &SessionView::codes)
      .def_property_readonly("lp_rate_bps", [](const SessionView& self) { return self.session.lp_rate_bps; })
      .def_property_readonly("rate_bps", [](const SessionView& self) { return self.session.rate_bps; })
      .def_property_readonly("max_latency", &latencies_of)
      .def_readonly("paths", &SessionView::paths)
      .def_readonly("streams", &SessionView::streams);
}

std::optional<std::uint64_t> limit_of(std::uint64_t quota) {
  return quota == Quota::kNone ? std::nullopt : std::optional(quota);
}

planning::Assumption assumption_or_none(const Plan& plan) {
  return planning::assumption_of(plan).value_or(planning::Assumption{});
}

void bind_parts(py::module_& module) {
  py::class_<PlanTenant>(module, "PlanTenant")
      .def_readonly("name", &PlanTenant::name)
      .def_readonly("weight", &PlanTenant::weight)
      .def_readonly("rate_bps", &PlanTenant::rate_bps)
      .def_property_readonly(
          "open_operations", [](const PlanTenant& self) { return limit_of(self.open.operations); },
          "Calls that may be under way on a node at once; None: no limit.")
      .def_property_readonly(
          "open_bytes", [](const PlanTenant& self) { return limit_of(self.open.bytes); },
          "The same in bytes.");
  py::class_<PlanCollective>(module, "PlanCollective", "One collective of a plan.")
      .def_property_readonly("id", [](const PlanCollective& self) { return self.id.value(); })
      .def_readonly("tenant", &PlanCollective::tenant)
      .def_readonly("group", &PlanCollective::group,
                    "The group of processes that calls it; empty where a scenario asks for it.")
      .def_property_readonly("op", [](const PlanCollective& self) { return to_string(self.op); })
      .def_readonly("weight", &PlanCollective::weight)
      .def_readonly("size_bytes", &PlanCollective::size_bytes)
      .def_readonly("lp_rate_bps", &PlanCollective::lp_rate_bps)
      .def_readonly("rate_bps", &PlanCollective::rate_bps)
      .def_readonly("bound_bps", &PlanCollective::bound_bps)
      .def_readonly("completion_seconds", &PlanCollective::completion_seconds)
      .def_readonly("cost_usd_per_hour", &PlanCollective::cost_usd_per_hour)
      .def_property_readonly("sessions",
                             [](const PlanCollective& self) { return numbers_of(self.sessions); });
  py::class_<PlanNode>(module, "PlanNode")
      .def_readonly("name", &PlanNode::name)
      .def_readonly("egress_bps", &PlanNode::egress_bps)
      .def_readonly("ingress_bps", &PlanNode::ingress_bps)
      .def_readonly("relays", &PlanNode::relays);
  py::class_<PlanLinkView>(module, "PlanLink", "A link and its load; latency in seconds.")
      .def_readonly("from_node", &PlanLinkView::from_node)
      .def_readonly("to_node", &PlanLinkView::to_node)
      .def_property_readonly("capacity_bps", [](const PlanLinkView& self) { return self.link.capacity_bps; })
      .def_property_readonly("load_bps", [](const PlanLinkView& self) { return self.link.load_bps; })
      .def_property_readonly("latency",
                             [](const PlanLinkView& self) { return to_seconds(self.link.latency); })
      .def_property_readonly("price_usd_per_gb",
                             [](const PlanLinkView& self) { return self.link.price_usd_per_gb; })
      .def_property_readonly("avoided", [](const PlanLinkView& self) { return self.link.avoided; });
}

void bind_certificate(py::module_& module) {
  py::class_<CutView>(module, "PlanCut", "A cut that bounds a collective's rate.")
      .def_readonly("collective", &CutView::collective)
      .def_readonly("source_side", &CutView::source_side)
      .def_readonly("bound_bps", &CutView::bound_bps);
  py::class_<PackingView>(module, "PlanPacking", "Cuts for one session: (far side, length).")
      .def_readonly("session", &PackingView::session)
      .def_readonly("cuts", &PackingView::cuts);
  py::class_<LevelView>(module, "PlanLevel", "The proof that a freezing level is no higher: square/plan.h.")
      .def_readonly("bound_bps", &LevelView::bound_bps)
      .def_readonly("collectives", &LevelView::collectives)
      .def_readonly("links", &LevelView::links)
      .def_readonly("egress", &LevelView::egress)
      .def_readonly("ingress", &LevelView::ingress)
      .def_readonly("budget", &LevelView::budget)
      .def_readonly("packings", &LevelView::packings);
  py::class_<CertificateView>(module, "PlanCertificate", "Why no plan does better: see square/plan.h.")
      .def_readonly("level_bound_bps", &CertificateView::level_bound_bps)
      .def_readonly("cuts", &CertificateView::cuts)
      .def_readonly("levels", &CertificateView::levels)
      .def_readonly("cost_bound_usd_per_hour", &CertificateView::cost_bound_usd_per_hour);
  py::class_<LevelGap>(module, "LevelGap", "How far a level is from what its duals prove.")
      .def_readonly("level", &LevelGap::level)
      .def_readonly("bound_bps", &LevelGap::bound_bps)
      .def_readonly("lp_level_bps", &LevelGap::lp_level_bps)
      .def_readonly("rate_level_bps", &LevelGap::rate_level_bps)
      .def_readonly("lp_gap", &LevelGap::lp_gap)
      .def_readonly("rate_gap", &LevelGap::rate_gap);
}

void bind_comparisons(py::module_& module) {
  py::class_<PlanHeadroom>(module, "PlanHeadroom", "The rates of the same scenario without headroom.")
      .def_readonly("deviations", &PlanHeadroom::deviations)
      .def_readonly("nominal_min_rate_bps", &PlanHeadroom::nominal_min_rate_bps)
      .def_readonly("nominal_total_rate_bps", &PlanHeadroom::nominal_total_rate_bps);
  py::class_<PlanChange>(module, "PlanChange", "How a collective differs from the plan before.")
      .def_property_readonly("collective", [](const PlanChange& self) { return self.collective.value(); })
      .def_property_readonly("kind", [](const PlanChange& self) { return to_string(self.kind); })
      .def_readonly("rate_before_bps", &PlanChange::rate_before_bps)
      .def_readonly("rate_after_bps", &PlanChange::rate_after_bps);
}

}  // namespace

void bind_plan(py::module_& module) {
  bind_session(module);
  bind_parts(module);
  bind_certificate(module);
  bind_comparisons(module);
  py::class_<Plan, SharedPlan>(module, "Plan", "Who sends what over which trees at what rate. Immutable.")
      .def_property_readonly("epoch", [](const Plan& self) { return self.epoch.value(); })
      .def_readonly("policy", &Plan::policy)
      .def_readonly("solve_seconds", &Plan::solve_seconds)
      .def_readonly("min_rate_bps", &Plan::min_rate_bps)
      .def_readonly("total_rate_bps", &Plan::total_rate_bps)
      .def_readonly("cost_usd_per_hour", &Plan::cost_usd_per_hour)
      .def_readonly("budget_usd_per_hour", &Plan::budget_usd_per_hour)
      .def_readonly("realised", &Plan::realised)
      .def_readonly("provisional", &Plan::provisional)
      .def_readonly("jain", &Plan::jain)
      .def_readonly("tenants", &Plan::tenants)
      .def_readonly("collectives", &Plan::collectives)
      .def_readonly("nodes", &Plan::nodes)
      .def_property_readonly("sessions", &sessions_of)
      .def_property_readonly("links", &planned_links_of)
      .def_property_readonly("certificate", &certificate_of)
      .def_property_readonly(
          "assumed_links", [](const Plan& self) { return assumption_or_none(self).links; },
          "Links without a capacity, but for those to be avoided.")
      .def_property_readonly(
          "assumed_capacity_bps", [](const Plan& self) { return assumption_or_none(self).capacity_bps; },
          "What each of them is planned as: the lowest capacity that there is, else 1 Gbit/s. 0 without any.")
      .def_property_readonly(
          "assumed_bounds", [](const Plan& self) { return numbers_of(planning::assumed_bounds(self)); },
          "The collectives whose bound rests on that: a better plan may exist.")
      .def_readonly("headroom", &Plan::headroom)
      .def_readonly("changes", &Plan::changes)
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
