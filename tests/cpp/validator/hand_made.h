// Plans written by hand, without a planner: links, trees and rates as the test says.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "square/plan.h"
#include "square/units.h"
#include "square/validator.h"

namespace square::testing {

using Names = std::vector<std::string>;
using NamedLinks = std::vector<std::pair<std::string, std::string>>;

inline constexpr double kUsdPerHourPerBps = 3600.0 / 8e9;  // at 1 USD a GB

class HandMade {
 public:
  explicit HandMade(const Names& nodes) {
    plan_.policy = "exact";
    plan_.tenants = {{"t", 1.0, 0.0}};
    for (const std::string& name : nodes) plan_.nodes.push_back({name, kUnlimited, kUnlimited});
  }

  Plan& plan() { return plan_; }
  [[nodiscard]] NodeId node(const std::string& name) const { return plan_.find_node(name).value(); }
  [[nodiscard]] std::vector<NodeId> nodes(const Names& names) const {
    std::vector<NodeId> ids;
    for (const std::string& name : names) ids.push_back(node(name));
    return ids;
  }
  [[nodiscard]] LinkId link(const std::string& from, const std::string& to) const {
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      if (plan_.links[e].from == node(from) && plan_.links[e].to == node(to)) {
        return LinkId(static_cast<std::uint32_t>(e));
      }
    }
    FAIL("no link " << from << " -> " << to);
    return {};
  }

  void add_link(const std::string& from, const std::string& to, double mbps, double usd_per_gb = 0.0) {
    plan_.links.push_back({node(from), node(to), mbps_to_bps(mbps), 0.0, Duration(0), usd_per_gb});
  }

  PlanCollective& add_collective(CollectiveOp op, std::uint64_t bytes, double weight = 1.0) {
    PlanCollective& collective = plan_.collectives.emplace_back();
    collective.id = CollectiveId(static_cast<std::uint32_t>(plan_.collectives.size() - 1));
    collective.tenant = "t";
    collective.op = op;
    collective.weight = weight;
    collective.size_bytes = bytes;
    return collective;
  }

  // Of the last collective; the first member is the root.
  PlanSession& add_session(SessionKind kind, const Names& members, std::uint64_t offset, std::uint64_t size) {
    PlanSession& session = plan_.sessions.emplace_back();
    session.id = SessionId(static_cast<std::uint32_t>(plan_.sessions.size() - 1));
    session.collective = plan_.collectives.back().id;
    session.kind = kind;
    session.root = node(members.front());
    session.members = nodes(members);
    session.offset_bytes = offset;
    session.size_bytes = size;
    plan_.collectives.back().sessions.push_back(session.id);
    return session;
  }

  // Of the last session.
  void add_stream(const NamedLinks& links, double mbps) {
    PlanStream stream;
    for (const auto& [from, to] : links) stream.links.emplace_back(node(from), node(to));
    stream.rate_bps = mbps_to_bps(mbps);
    plan_.sessions.back().streams.push_back(std::move(stream));
  }
  void add_path(const Names& way, double mbps) {
    plan_.sessions.back().paths.push_back({node(way.back()), nodes(way), mbps_to_bps(mbps)});
  }

  // A level with duals on links and, by session, cuts of length 1.
  PlanLevel& add_level(double bound_mbps, std::vector<std::uint32_t> collectives,
                       const std::vector<std::tuple<std::string, std::string, double>>& links,
                       const std::vector<std::pair<std::uint32_t, std::vector<Names>>>& packings) {
    PlanLevel& level = plan_.certificate.levels.emplace_back();
    level.bound_bps = mbps_to_bps(bound_mbps);
    for (const std::uint32_t id : collectives) level.collectives.emplace_back(id);
    for (const auto& [from, to, length] : links) level.links.emplace_back(link(from, to), length);
    for (const auto& [session, cuts] : packings) {
      PlanPacking& packing = level.packings.emplace_back(PlanPacking{SessionId(session), {}});
      for (const Names& far_side : cuts) packing.cuts.push_back({nodes(far_side), 1.0});
    }
    return level;
  }

  // Rates, loads, costs and sums that follow from the streams. An lp_rate that was set stays.
  Plan& finish() {
    for (PlanSession& session : plan_.sessions) {
      session.rate_bps = 0.0;
      for (const PlanStream& stream : session.streams) session.rate_bps += stream.rate_bps;
      session.lp_rate_bps = std::max(session.lp_rate_bps, session.rate_bps);
    }
    double sum = 0.0;
    double squares = 0.0;
    plan_.min_rate_bps = kUnlimited;
    for (PlanCollective& collective : plan_.collectives) {
      finish(collective);
      plan_.min_rate_bps = std::min(plan_.min_rate_bps, collective.rate_bps);
      plan_.total_rate_bps += collective.rate_bps;
      plan_.cost_usd_per_hour += collective.cost_usd_per_hour;
      sum += collective.rate_bps / collective.weight;
      squares += std::pow(collective.rate_bps / collective.weight, 2);
    }
    plan_.tenants[0].rate_bps = plan_.total_rate_bps;
    if (squares > 0.0) plan_.jain = sum * sum / (squares * static_cast<double>(plan_.collectives.size()));
    return plan_;
  }

 private:
  void finish(PlanCollective& collective) {
    collective.rate_bps = kUnlimited;
    collective.lp_rate_bps = kUnlimited;
    collective.bound_bps = kUnlimited;
    double shares = 0.0;
    double lp_shares = 0.0;
    for (const SessionId id : collective.sessions) {
      const PlanSession& session = plan_.sessions[id.index()];
      for (const PlanStream& stream : session.streams) add_load(stream, collective);
      const double part =
          static_cast<double>(session.size_bytes) / static_cast<double>(collective.size_bytes);
      if (session.pair.has_value()) {
        const PlanSession& other = plan_.sessions[session.pair->index()];
        shares += std::min(session.rate_bps, other.rate_bps) / 2;
        lp_shares += std::min(session.lp_rate_bps, other.lp_rate_bps) / 2;
        collective.rate_bps = shares;
        collective.lp_rate_bps = lp_shares;
      } else {
        collective.rate_bps = std::min(collective.rate_bps, session.rate_bps / part);
        collective.lp_rate_bps = std::min(collective.lp_rate_bps, session.lp_rate_bps / part);
      }
    }
    const double bits = 8.0 * static_cast<double>(collective.size_bytes);
    collective.completion_seconds = collective.rate_bps > 0 ? bits / collective.rate_bps : kUnlimited;
  }

  void add_load(const PlanStream& stream, PlanCollective& collective) {
    for (const auto& [from, to] : stream.links) {
      for (PlanLink& link : plan_.links) {
        if (link.from != from || link.to != to) continue;
        link.load_bps += stream.rate_bps;
        collective.cost_usd_per_hour += stream.rate_bps * link.price_usd_per_gb * kUsdPerHourPerBps;
      }
    }
  }

  Plan plan_;
};

inline std::string all_violations(const Plan& plan) {
  std::string all;
  for (const std::string& violation : find_violations(plan)) all += violation + "\n";
  return all;
}

// A change to a sound plan, and words of the message that it must cause.
template <typename Tamper>
void check_tampered(Plan plan, const Tamper& tamper, std::string_view expected) {
  REQUIRE(all_violations(plan) == "");
  tamper(plan);
  const std::string all = all_violations(plan);
  INFO(all);
  INFO(expected);
  CHECK(all.find(expected) != std::string::npos);
}

// One broadcast from a over two trees, which use all that leaves a.
inline HandMade triangle() {
  HandMade made({"a", "b", "c"});
  for (const auto& [from, to] :
       NamedLinks{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "b"}, {"a", "c"}, {"c", "a"}}) {
    made.add_link(from, to, 10);
  }
  made.add_collective(CollectiveOp::kBroadcast, 1'000'000);
  made.add_session(SessionKind::kMulticast, {"a", "b", "c"}, 0, 1'000'000);
  made.add_stream({{"a", "b"}, {"b", "c"}}, 10);
  made.add_stream({{"a", "c"}, {"c", "b"}}, 10);
  made.add_level(20, {0}, {{"a", "b", 1.0}, {"a", "c", 1.0}}, {{0, {{"b", "c"}}}});
  made.finish().collectives[0].bound_bps = 20e6;
  return made;
}

// Coding reaches 2 Mbit/s, trees 1.5.
inline HandMade coded_butterfly() {
  HandMade made({"s", "a", "b", "c", "d", "x", "y"});
  for (const auto& [from, to] : NamedLinks{{"s", "a"},
                                           {"s", "b"},
                                           {"a", "c"},
                                           {"b", "c"},
                                           {"c", "d"},
                                           {"a", "x"},
                                           {"b", "y"},
                                           {"d", "x"},
                                           {"d", "y"}}) {
    made.add_link(from, to, 1);
  }
  made.add_collective(CollectiveOp::kBroadcast, 1'000'000);
  made.add_session(SessionKind::kMulticast, {"s", "x", "y"}, 0, 1'000'000).lp_rate_bps = 2e6;
  made.add_path({"s", "a", "x"}, 1);
  made.add_path({"s", "b", "c", "d", "x"}, 1);
  made.add_path({"s", "b", "y"}, 1);
  made.add_path({"s", "a", "c", "d", "y"}, 1);
  made.add_stream({{"s", "a"}, {"a", "x"}, {"a", "c"}, {"c", "d"}, {"d", "y"}}, 0.5);
  made.add_stream({{"s", "b"}, {"b", "y"}, {"b", "c"}, {"c", "d"}, {"d", "x"}}, 0.5);
  made.add_stream({{"s", "a"}, {"s", "b"}, {"a", "x"}, {"b", "y"}}, 0.5);
  made.add_level(2, {0}, {{"s", "a", 1.0}, {"s", "b", 1.0}}, {{0, {{"a", "b", "c", "d", "x", "y"}}}});
  made.finish().collectives[0].bound_bps = 2e6;
  return made;
}

// Two members and a relay add up towards r; the last link is the bottleneck.
inline HandMade reduce_over_a_relay() {
  HandMade made({"r", "u", "v", "w"});
  made.add_link("v", "u", 10, 0.5);
  made.add_link("w", "u", 10);
  made.add_link("u", "r", 5, 0.25);
  made.add_link("r", "u", 5);
  made.add_link("u", "v", 5);
  made.add_collective(CollectiveOp::kReduce, 1'000'000);
  made.add_session(SessionKind::kReduce, {"r", "v", "w"}, 0, 1'000'000);
  made.add_stream({{"v", "u"}, {"w", "u"}, {"u", "r"}}, 5);
  made.add_level(5, {0}, {{"u", "r", 1.0}}, {{0, {{"u", "v", "w"}}}});
  made.finish().collectives[0].bound_bps = 5e6;
  return made;
}

// On a mesh of three with 10 Mbit/s everywhere: each member is the root of a third.
inline HandMade planned_all_reduce(std::uint64_t bytes = 3'000'000) {
  HandMade made({"a", "b", "c"});
  const Names names = {"a", "b", "c"};
  for (const std::string& from : names) {
    for (const std::string& to : names) {
      if (from != to) made.add_link(from, to, 10);
    }
  }
  made.add_collective(CollectiveOp::kAllReduce, bytes);
  std::vector<std::pair<std::uint32_t, std::vector<Names>>> packings;
  for (std::uint32_t r = 0; r < 3; ++r) {
    const std::string& root = names[r];
    const std::string& next = names[(r + 1) % 3];
    const std::string& last = names[(r + 2) % 3];
    const std::uint64_t offset = bytes * r / 3;
    const std::uint64_t size = bytes * (r + 1) / 3 - offset;
    made.add_session(SessionKind::kReduce, {root, next, last}, offset, size).pair = SessionId(2 * r + 1);
    made.add_stream({{next, root}, {last, root}}, 5);
    made.add_session(SessionKind::kMulticast, {root, next, last}, offset, size).pair = SessionId(2 * r);
    made.add_stream({{root, next}, {root, last}}, 5);
    packings.push_back({2 * r, {{next}, {last}}});
    packings.push_back({2 * r + 1, {{next}, {last}}});
  }
  std::vector<std::tuple<std::string, std::string, double>> lengths;
  for (const std::string& from : names) {
    for (const std::string& to : names) {
      if (from != to) lengths.emplace_back(from, to, 1.0);
    }
  }
  made.add_level(15, {0}, lengths, packings);
  made.finish().collectives[0].bound_bps = 15e6;
  return made;
}

}  // namespace square::testing
