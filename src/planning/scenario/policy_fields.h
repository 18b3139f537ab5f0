// Every field of a PolicySpec but its name, once: how a file and Python call it, which values
// it takes, and which policies know it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "square/scenario.h"
#include "square/status.h"

namespace square {

// The numbers that a field takes; infinite ones never.
struct NumberRange {
  double least = 0.0;
  double most = kUnlimited;
  bool least_itself = true;
  bool most_itself = true;

  // Errors: INVALID_ARGUMENT, "must be from 0 to below 1, not 1".
  [[nodiscard]] Status check(double value) const;
};

template <typename Value>
struct PolicyField {
  // In files. A time ends in "_seconds" there, and has no unit in Python.
  std::string_view key;
  Value PolicySpec::*member;
  std::string_view about;  // for people
  // What a policy that meets no demands knows nothing of, in words; empty: all know the field.
  std::string_view demand = {};
  NumberRange range = {};
  // Does it say how to solve, not what is wanted?
  bool is_effort = false;
  // Does it need a policy that is named? The default heeds it not: who gives it means another one.
  bool needs_name = false;
  // What else must hold. Errors: INVALID_ARGUMENT without the key.
  Status (*check)(const PolicySpec& policy, const Topology& topology) = nullptr;
};

Status check_budget(const PolicySpec& policy, const Topology& topology);
Status check_paths(const PolicySpec& policy, const Topology& topology);
Status check_streams(const PolicySpec& policy, const Topology& topology);
Status check_avoided_nodes(const PolicySpec& policy, const Topology& topology);
Status check_avoided_links(const PolicySpec& policy, const Topology& topology);

// In the order of documents and of Python's keywords.
inline constexpr std::tuple kPolicyFields = {
    PolicyField<int>{.key = "shots",
                     .member = &PolicySpec::shots,
                     .about = "Rounds of max-min.",
                     .range = {1, kMaxShots},
                     .needs_name = true},
    PolicyField<PathChoice>{.key = "paths",
                            .member = &PolicySpec::paths,
                            .about = "Feasible paths: \"shortest:7\", \"widest:2\", \"all\".",
                            .needs_name = true,
                            .check = check_paths},
    PolicyField<Fairness>{.key = "fairness",
                          .member = &PolicySpec::fairness,
                          .about = "What is treated alike: \"tenant\" or \"collective\"."},
    PolicyField<Objective>{
        .key = "objective",
        .member = &PolicySpec::objective,
        .about = "\"fair\": the fairest rates; \"cost\": the required ones for the least money.",
        .demand = "objective"},
    PolicyField<double>{.key = "gap",
                        .member = &PolicySpec::gap,
                        .about = "How far from its proven bound a rate may stay, relative.",
                        .demand = "gap",
                        .range = {.most = 1, .most_itself = false},
                        .is_effort = true},
    PolicyField<std::optional<double>>{.key = "deadline_seconds",
                                       .member = &PolicySpec::deadline_seconds,
                                       .about = "Seconds, after which the best plan so far comes back.",
                                       .demand = "deadline",
                                       .range = {.least_itself = false},
                                       .is_effort = true},
    PolicyField<std::size_t>{.key = "max_streams",
                             .member = &PolicySpec::max_streams,
                             .about = "Trees a session at most; 0: as many as the optimum takes.",
                             .demand = "limit on streams",
                             .range = {0, static_cast<double>(kMaxSessionStreams)},
                             .check = check_streams},
    PolicyField<Coding>{.key = "coding",
                        .member = &PolicySpec::coding,
                        .about = "Codes where trees fall short: \"exact\", \"float32\" or \"off\".",
                        .demand = "coding"},
    PolicyField<std::optional<double>>{.key = "budget_usd_per_hour",
                                       .member = &PolicySpec::budget_usd_per_hour,
                                       .about = "What all traffic together may cost.",
                                       .demand = "budget",
                                       .range = {.least_itself = false},
                                       .check = check_budget},
    PolicyField<double>{.key = "headroom",
                        .member = &PolicySpec::headroom,
                        .about = "Plans for each capacity less so many of its standard deviations.",
                        .demand = "headroom"},
    PolicyField<std::vector<NodeId>>{.key = "avoid_nodes",
                                     .member = &PolicySpec::avoid_nodes,
                                     .about = "Nodes that relay nothing.",
                                     .demand = "nodes to avoid",
                                     .check = check_avoided_nodes},
    PolicyField<std::vector<LinkId>>{.key = "avoid_links",
                                     .member = &PolicySpec::avoid_links,
                                     .about = "Links that carry nothing, each as (from, to).",
                                     .demand = "links to avoid",
                                     .check = check_avoided_links}};

// Calls `visit(field)` for each.
template <typename Visit>
constexpr void for_each_policy_field(Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, kPolicyFields);
}

// Until one call of `visit(field)` is not OK; that status, or OK.
template <typename Visit>
Status check_each_policy_field(Visit&& visit) {
  Status status;
  std::apply([&](const auto&... field) { static_cast<void>(((status = visit(field)).is_ok() && ...)); },
             kPolicyFields);
  return status;
}

// Is the field of the policy as it is where nobody says anything?
template <typename Value>
bool is_default(const PolicyField<Value>& field, const PolicySpec& policy) {
  return policy.*field.member == PolicySpec{}.*field.member;
}

}  // namespace square
