// Plans that code: what they promise is carried, by streams that nodes could run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "planning/codes/code_networks.h"
#include "planning/scenarios.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace testing;

// Random bytes of the session, sent along a code's streams as the plan says, and solved by the plan's
// inverses.
void check_code(const PlanSession& session, std::uint32_t number) {
  const PlanCode& code = session.codes[number];
  std::vector<std::byte> data(code.blocks * 64);
  std::mt19937_64 chance(1);
  for (std::byte& byte : data) byte = static_cast<std::byte>(chance());
  const Encoder encoder = *Encoder::make({0, code.field, code.blocks}, data);
  std::vector<std::optional<CodedBlock>> carried(session.streams.size());
  for (std::size_t s = 0; s < session.streams.size(); ++s) {
    const auto& part = session.streams[s].coded;
    if (!part || part->code != number) continue;
    std::vector<CodedBlock> terms;
    std::vector<double> factors;
    for (const auto& [term, factor] : part->terms) {
      terms.push_back(*carried[term.index()]);
      factors.push_back(factor);
    }
    carried[s] = terms.empty() ? *encoder.coded(part->row) : *recode(terms, factors);
    CHECK(carried[s]->coefficients == part->row);
  }
  for (const PlanCode::Sink& sink : code.sinks) {
    std::vector<std::byte> out(data.size());
    Decoder decoder = *Decoder::make(encoder.generation(), out);
    for (const StreamIndex stream : sink.streams) (void)decoder.add(*carried[stream.index()]);
    REQUIRE(decoder.finish().is_ok());
    CHECK(out == data);
  }
}

void check_plan(const Plan& plan) {
  for (const std::string& violation : find_violations(plan)) FAIL_CHECK(violation);
  for (const PlanSession& session : plan.sessions) {
    for (std::uint32_t code = 0; code < session.codes.size(); ++code) check_code(session, code);
  }
}

Scenario broadcast_on(Topology topology, std::vector<NodeId> members) {
  Scenario scenario = scenario_on(std::move(topology));
  scenario.policy = {};
  add_collective(scenario, CollectiveOp::kBroadcast, std::move(members));
  return scenario;
}

// A network of code_networks.h with a capacity for each arc.
Scenario broadcast_on(const Network& network, const std::vector<double>& mbps) {
  std::vector<std::string> names;
  for (int v = 0; v < network.graph.node_count(); ++v) names.push_back(fmt::format("n{}", v));
  Topology topology = named_nodes(names);
  for (std::size_t a = 0; a < mbps.size(); ++a) {
    const auto& [from, to] = network.graph.arcs[a];
    if (topology.find_link(node(static_cast<std::size_t>(from)), node(static_cast<std::size_t>(to))))
      continue;
    link(topology, names[static_cast<std::size_t>(from)], names[static_cast<std::size_t>(to)], mbps[a]);
  }
  std::vector<NodeId> members = {node(static_cast<std::size_t>(network.problem.root))};
  for (const int terminal : network.problem.terminals)
    members.push_back(node(static_cast<std::size_t>(terminal)));
  return broadcast_on(std::move(topology), std::move(members));
}

TEST_CASE("on the butterfly all is coded, at twice the rate of a link") {
  Scenario scenario = broadcast_on(butterfly(), {node(0), node(5), node(6)});
  const Plan plan = planned(scenario).plan;
  check_plan(plan);
  const PlanSession& session = plan.sessions.at(0);
  CHECK(session.rate_bps == doctest::Approx(2 * kMbps));
  REQUIRE(session.codes.size() == 1);
  CHECK(session.codes[0].rate_bps == doctest::Approx(2 * kMbps));
  CHECK(session.codes[0].blocks == 2);
  CHECK(session.streams.size() == 3);
  CHECK(std::ranges::count_if(session.streams, [](const PlanStream& stream) {
          return stream.coded && !stream.coded->terms.empty();
        }) == 1);
  CHECK(plan_from_json(to_json(plan)).value().sessions[0].codes.size() == 1);
  CHECK(to_json(plan_from_json(to_json(plan)).value()) == to_json(plan));

  scenario.policy.coding = Coding::kOff;
  const Plan trees = planned(scenario).plan;
  check_plan(trees);
  CHECK(trees.sessions[0].rate_bps == doctest::Approx(1.5 * kMbps));
  CHECK(trees.sessions[0].codes.empty());
}

TEST_CASE("where trees fall short streams carry nearly what coding could") {
  std::mt19937_64 chance(seed());
  const int wanted = std::getenv("SQUARE_LONG") != nullptr ? 200 : 25;
  int found = 0;
  double least = 1.0;
  for (int instance = 0; found < wanted && instance < 40 * wanted; ++instance) {
    CAPTURE(instance);
    const int kind = static_cast<int>(chance() % 3);
    const int n = 3 + static_cast<int>(chance() % 3);
    const Network network =
        kind == 0   ? butterfly_network()
        : kind == 1 ? combination(n, 2 + static_cast<int>(chance() % static_cast<unsigned>(n - 2)))
                    : random_network(chance, 8, 16, 4, chance() % 2 == 0);
    std::vector<double> mbps;
    const bool is_even = chance() % 2 == 0;
    for (std::size_t a = 0; a < network.graph.arcs.size(); ++a)
      mbps.push_back(is_even ? 10.0 : 6.0 + static_cast<double>(chance() % 8000) / 1000.0);
    Scenario scenario = broadcast_on(network, mbps);
    scenario.policy.coding = Coding::kOff;
    const double trees = planned(scenario).plan.sessions[0].rate_bps;
    scenario.policy.coding = Coding::kExact;
    const Plan plan = planned(scenario).plan;
    const PlanSession& session = plan.sessions[0];
    if (session.lp_rate_bps < trees * 1.001) continue;
    ++found;
    check_plan(plan);
    CHECK(session.rate_bps >= 0.97 * session.lp_rate_bps);
    least = std::min(least, session.rate_bps / session.lp_rate_bps);
  }
  MESSAGE(found, " instances, the worst has ", least, " of the coded bound");
  CHECK(found == wanted);
}

TEST_CASE("a plan with a wrong code is found out") {
  const Plan good = planned(broadcast_on(butterfly(), {node(0), node(5), node(6)})).plan;
  const auto coded = [](Plan& plan) -> PlanStream& {
    auto& streams = plan.sessions[0].streams;
    return *std::ranges::find_if(streams, [](const auto& s) { return !s.coded->terms.empty(); });
  };
  const auto rejects = [&](const auto& spoil) {
    Plan plan = good;
    spoil(plan);
    CHECK_FALSE(find_violations(plan).empty());
  };
  rejects([&](Plan& plan) { coded(plan).coded->row[0] = 7; });
  rejects([&](Plan& plan) { coded(plan).coded->terms[0].second = 0; });
  rejects([&](Plan& plan) { coded(plan).coded->terms[0].first = StreamIndex(9); });
  rejects([&](Plan& plan) { coded(plan).coded->terms.pop_back(); });
  rejects([&](Plan& plan) { coded(plan).coded->origin = node(1); });
  rejects([&](Plan& plan) { coded(plan).coded->code = 3; });
  rejects([&](Plan& plan) { coded(plan).rate_bps *= 1.5; });
  rejects([](Plan& plan) { plan.sessions[0].codes[0].sinks.pop_back(); });
  rejects([](Plan& plan) { plan.sessions[0].codes[0].sinks[0].inverse[0][0] += 1; });
  rejects([](Plan& plan) { plan.sessions[0].codes[0].sinks[0].streams[0] = StreamIndex(2); });
  rejects([](Plan& plan) { plan.sessions[0].codes[0].blocks = 3; });
  rejects([](Plan& plan) { plan.sessions[0].codes[0].rate_bps *= 0.5; });
}

TEST_CASE("sums, latency bounds and few streams are not coded") {
  Scenario reduce = broadcast_on(butterfly(), {node(0), node(5), node(6)});
  Topology turned;
  for (std::size_t v = 0; v < 7; ++v) REQUIRE(turned.add_node(reduce.topology.node(node(v))).is_ok());
  for (std::size_t e = 0; e < reduce.topology.link_count(); ++e) {
    const TopologyLink& one = reduce.topology.link(LinkId(static_cast<std::uint32_t>(e)));
    REQUIRE(turned.add_link(one.to, one.from, one.properties).is_ok());
  }
  reduce.topology = std::move(turned);
  reduce.collectives[0].op = CollectiveOp::kReduce;
  const Plan sums = planned(reduce).plan;
  check_plan(sums);
  CHECK(sums.sessions[0].codes.empty());
  CHECK(sums.sessions[0].rate_bps == doctest::Approx(1.5 * kMbps));

  Scenario few = broadcast_on(butterfly(), {node(0), node(5), node(6)});
  few.policy.max_streams = 2;
  CHECK(planned(few).plan.sessions[0].codes.empty());
}

}  // namespace
}  // namespace square
