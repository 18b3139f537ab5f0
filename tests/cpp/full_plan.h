// A plan in which every member of every struct is somewhere other than its default: a border that loses one
// gives another plan back.
#pragma once

#include <map>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include "base/plan/field_visits.h"
#include "base/plan/figures.h"

namespace square::testing {

// Calls `visit(struct, field)` for each field of the value, and of what it holds.
template <typename T, typename Visit>
void visit_structs(T&, Visit&) {}
template <typename T, typename Visit>
void visit_structs(std::vector<T>& values, Visit& visit);
template <typename T, typename Visit>
void visit_structs(std::optional<T>& value, Visit& visit) {
  if (value) visit_structs(*value, visit);
}
template <plan_fields::Listed T, typename Visit>
void visit_structs(T& value, Visit& visit) {
  plan_fields::for_each<T>([&](const auto& field) {
    visit(value, field);
    visit_structs(value.*field.member, visit);
  });
}
template <typename T, typename Visit>
void visit_structs(std::vector<T>& values, Visit& visit) {
  for (T& value : values) visit_structs(value, visit);
}

// The members that have their default everywhere in the plan, by the name of their struct and their number.
inline std::vector<std::pair<std::string, int>> members_at_default(Plan plan) {
  std::map<std::pair<std::string, int>, bool> is_other;
  const auto visit = [&]<typename T>(T& value, const auto& field) {
    int number = 0;
    plan_fields::for_each<T>([&](const auto& other) {
      if (plan_fields::are_same_member(other.member, field.member))
        is_other[{typeid(T).name(), number}] |=
            !plan_fields::same_values(value.*field.member, T{}.*field.member);
      ++number;
    });
  };
  visit_structs(plan, visit);
  std::vector<std::pair<std::string, int>> members;
  for (const auto& [member, is] : is_other) {
    if (!is) members.push_back(member);
  }
  return members;
}

// Sets members that `is_lost(field)` to their defaults.
template <typename T, typename IsLost>
T without(T value, const IsLost& is_lost) {
  const auto visit = [&]<typename Struct>(Struct& item, const auto& field) {
    if (is_lost(field)) item.*field.member = Struct{}.*field.member;
  };
  visit_structs(value, visit);
  return value;
}

inline PlanStream coded_stream(StreamIndex term, NodeId from, NodeId to, std::vector<double> row) {
  PlanStream stream{{{from, to}}, 2e6, PlanCodePart{1, from, {}, row, {}, row}, std::chrono::milliseconds(5)};
  if (term == StreamIndex(0)) return stream;
  stream.coded->terms = {{term, 0.5}};
  stream.coded->byte_factors = {3};
  stream.coded->byte_row = {2, 3};
  return stream;
}

inline PlanSession full_session() {
  const NodeId a(0);
  const NodeId b(1);
  const NodeId c(2);
  PlanSession session;
  session.id = SessionId(1);
  session.collective = CollectiveId(1);
  session.kind = SessionKind::kReduce;
  session.root = b;
  session.members = {b, c};
  session.max_latency = {std::chrono::milliseconds(8), Duration::max()};
  session.offset_bytes = 5;
  session.size_bytes = 1000;
  session.pair = SessionId(2);
  session.lp_rate_bps = 7e6;
  session.rate_bps = 6e6;
  session.paths = {{c, {b, c}, 3e6}};
  session.streams = {{{{b, c}}, 1e6, std::nullopt, std::chrono::milliseconds(5), true},
                     coded_stream(StreamIndex(0), a, b, {1, 0}),
                     coded_stream(StreamIndex(0), a, b, {0, 1}),
                     coded_stream(StreamIndex(1), b, c, {0.5, 0.5})};
  const PlanCode::Sink sink{
      c, {StreamIndex(1), StreamIndex(2), StreamIndex(3)}, {{1, 0.25}, {-1, 2}}, {{1, 2}, {3, 4}}};
  session.codes = {{FieldKind::kGf65536, 1, 0, {}, 0}, {FieldKind::kFloat32, 2, 4e6, {sink}, 1}};
  return session;
}

inline PlanCertificate full_certificate() {
  const PlanPacking packing{SessionId(2), {{{NodeId(1), NodeId(2)}, 0.25}}};
  const PlanLevel level{
      4e6, {CollectiveId(2)}, {{LinkId(1), 0.5}}, {{NodeId(1), 0.125}}, {{NodeId(2), 0.75}}, {packing}, 1.5};
  return {9e6, {{CollectiveId(1), {NodeId(1)}, 5e6}}, {level}, 12.5};
}

inline Plan full_plan() {
  Plan plan;
  plan.epoch = Epoch(9);
  plan.origin = {0xab12, 3};
  plan.policy = "exact";
  plan.solve_seconds = 0.5;
  plan.min_rate_bps = 2e6;
  plan.total_rate_bps = 8e6;
  plan.cost_usd_per_hour = 1.25;
  plan.budget_usd_per_hour = 4.5;
  plan.realised = false;
  plan.provisional = true;
  plan.jain = 0.75;
  plan.nodes = {{"a", 11e6, 12e6, false}, {"b"}, {"c"}};
  plan.links = {{NodeId(0), NodeId(1), 10e6, 3e6, std::chrono::milliseconds(5), 0.5, true, 14e6},
                {NodeId(1), NodeId(2), 20e6, 4e6, std::chrono::milliseconds(5), 0.25, false, 15e6}};
  plan.tenants = {{"t", 2.5, 3e6, {7, 8000}}};
  plan.sessions = {full_session(), {}};
  plan.sessions.back().id = SessionId(2);
  plan.sessions.back().collective = CollectiveId(2);
  plan.sessions.back().root = NodeId(1);
  plan.sessions.back().members = {NodeId(1), NodeId(0)};
  plan.sessions.back().streams = {{{{NodeId(1), NodeId(0)}}, 1e6}};
  for (const std::uint32_t id : {1U, 2U}) {
    plan.collectives.push_back({CollectiveId(id),
                                "t",
                                "g",
                                CollectiveOp::kScatter,
                                1.5,
                                4000,
                                3e6,
                                2e6,
                                5e6,
                                0.25,
                                0.75,
                                {SessionId(id)},
                                plan.epoch});
  }
  plan.certificate = full_certificate();
  plan.headroom = PlanHeadroom{1.5, 3e6, 6e6};
  plan.changes = {{CollectiveId(1), PlanChange::Kind::kSlower, 3e6, 2e6}};
  plan.part = PlanPart{"b", 3, 3};
  // Figures that the controller works out for parts.
  const std::vector<double> paces = link_paces(plan);
  for (std::size_t e = 0; e < plan.links.size(); ++e) plan.links[e].pace_bps = paces[e];
  const std::vector<double> limits = block_limits(plan);
  for (std::size_t s = 0; s < plan.sessions.size(); ++s) plan.sessions[s].block_limit_bytes = limits[s];
  plan.sessions.back().streams.front().latency = Duration{0};
  return plan;
}

}  // namespace square::testing
