#include "planning/exact/coded_streams.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/codes/redundant_code.h"
#include "planning/exact/relaxation.h"

namespace square::planning {
namespace {

// A subgraph that carries less of its session is not worth a code.
constexpr double kLeastPart = 0.01;
// How often one is looked for without a link that closed a circle, and what such a link costs then, in the
// dearest.
constexpr int kMostTries = 8;
constexpr double kBanned = 1e6;

Column column_of(const Instance& instance, std::size_t demand, CodeDesign design) {
  const DemandGraph& graph = *instance.demands[demand].graph;
  Column column{demand, {}, {}};
  const std::vector<int> copies = design.copies(graph.link.size());
  for (std::size_t a = 0; a < copies.size(); ++a) {
    if (copies[a] == 0) continue;
    column.links.push_back(graph.link[a]);
    column.usage.push_back(static_cast<double>(copies[a]) / design.blocks);
  }
  column.code = std::make_shared<const CodeDesign>(std::move(design));
  return column;
}

class Designer {
 public:
  Designer(const Instance& instance, const FairRates& rates, FieldKind field)
      : instance_(instance), rates_(rates), field_(field) {}

  // By arc of the demand's graph: what a unit of the session's rate puts on it.
  Result<std::optional<Column>> design(std::size_t demand, std::vector<double> usage) const {
    const Demand& what = instance_.demands[demand];
    std::vector<double> cost;
    for (int tries = 0; tries < kMostTries; ++tries) {
      look_at_budget();
      WholeParts parts = whole_parts(usage);
      const CodeProblem problem{&what.graph->graph, what.root, what.terminals, parts.blocks,
                                std::move(parts.copies)};
      Result<CodeDesign> code = design_code(field_, problem);
      // Floats may lose too many digits; and very many destinations need a larger field.
      for (const FieldKind other : {FieldKind::kGf256, FieldKind::kGf65536}) {
        if (code.status().code() == StatusCode::kFailedPrecondition) code = design_code(other, problem);
      }
      if (code.is_ok()) return std::optional(column_of(instance_, demand, *std::move(code)));
      if (code.status().code() != StatusCode::kAborted) break;
      if (cost.empty()) cost = level_cost(demand);
      cost[thinnest_in_circle(what.graph->graph, usage)] += kBanned;
      const Result<Relaxation> again =
          steiner_relaxation(what.graph->graph, what.root, what.terminals, cost, kMaxRelaxationWork);
      if (!again.is_ok()) break;
      usage = again->usage;
    }
    return std::optional<Column>();
  }

 private:
  // By arc, relative to the dearest: what links cost at the level where the demand's group stopped.
  [[nodiscard]] std::vector<double> level_cost(std::size_t demand) const {
    const std::size_t collective = instance_.problem->sessions[demand].collective;
    const auto stops_here = [&](const FairLevel& level) {
      return std::ranges::find(level.groups, collective) != level.groups.end();
    };
    const auto level = std::ranges::find_if(rates_.levels, stops_here);
    SQUARE_CHECK(level != rates_.levels.end(), "every group that sends stops at some level");
    const std::vector<double> by_link = level->duals.link_cost(instance_);
    const double dearest = *std::ranges::max_element(by_link);
    std::vector<double> cost;
    for (const int link : instance_.demands[demand].graph->link)
      cost.push_back(dearest > 0.0 ? by_link[static_cast<std::size_t>(link)] / dearest : 1.0);
    return cost;
  }

  // Of the arcs in use from whose end their beginning can be reached, the one that carries least.
  static std::size_t thinnest_in_circle(const Digraph& graph, const std::vector<double>& usage) {
    std::vector<double> length(usage.size());
    for (std::size_t a = 0; a < usage.size(); ++a) length[a] = usage[a] > 0.0 ? 1.0 : kUnreachable;
    std::optional<std::size_t> thinnest;
    for (std::size_t a = 0; a < usage.size(); ++a) {
      if (usage[a] <= 0.0 || (thinnest && usage[a] >= usage[*thinnest])) continue;
      const Distances ways = shortest_from(graph, {graph.arcs[a].to}, length);
      if (ways.distance[static_cast<std::size_t>(graph.arcs[a].from)] < kUnreachable) thinnest = a;
    }
    SQUARE_CHECK(thinnest.has_value(), "edges feed one another in a circle only where arcs do");
    return *thinnest;
  }

  const Instance& instance_;
  const FairRates& rates_;
  const FieldKind field_;
};

}  // namespace

Result<std::vector<Column>> coded_columns(const Generation& coded, const FairRates& rates, FieldKind field) {
  const Phase phase("designing codes");
  const Instance& instance = coded.instance();
  const Designer designer(instance, rates, field);
  std::vector<Column> designed;
  for (std::size_t k = 0; k < rates.flows.rate.size(); ++k) {
    const Column& column = coded.pool().columns()[k];
    const Demand& demand = instance.demands[column.demand];
    const Session& session = instance.problem->sessions[column.demand];
    if (column.is_tree() || column.code || demand.reversed || session.share.has_value()) continue;
    if (rates.flows.rate[k] < kLeastPart * session.fraction * rates.rate[session.collective]) continue;
    std::vector<double> by_link(instance.link_count(), 0.0);
    for (std::size_t e = 0; e < column.links.size(); ++e)
      by_link[static_cast<std::size_t>(column.links[e])] = column.usage[e];
    std::vector<double> usage;
    for (const int link : demand.graph->link) usage.push_back(by_link[static_cast<std::size_t>(link)]);
    SQUARE_ASSIGN_OR_RETURN(std::optional<Column> one, designer.design(column.demand, std::move(usage)));
    if (one) designed.push_back(*std::move(one));
  }
  return designed;
}

std::optional<Column> redundant_column(const Instance& instance, std::size_t demand,
                                       const std::vector<double>& link_cost) {
  const Demand& what = instance.demands[demand];
  std::vector<double> cost;
  for (const int link : what.graph->link) cost.push_back(link_cost[static_cast<std::size_t>(link)]);
  std::optional<CodeDesign> code = cheapest_redundant_code(
      {&what.graph->graph, what.root, what.terminals, what.redundancy}, what.most_ways, cost);
  if (!code) return std::nullopt;
  return column_of(instance, demand, *std::move(code));
}

void write_code(const DemandGraph& graph, const CodeDesign& design, double rate_bps, PlanSession& session) {
  const auto first = session.streams.size();
  const auto index_of = [&](int flow) {
    return StreamIndex(static_cast<std::uint16_t>(first + static_cast<std::size_t>(flow)));
  };
  const auto node = [](int number) { return NodeId(static_cast<std::uint32_t>(number)); };
  PlanCode& code = session.codes.emplace_back();
  code.field = design.field;
  code.blocks = static_cast<std::uint32_t>(design.blocks);
  code.redundancy = static_cast<std::uint32_t>(design.redundancy);
  code.rate_bps = rate_bps;
  for (const CodeDesign::Flow& flow : design.flows) {
    PlanStream& stream = session.streams.emplace_back();
    stream.rate_bps = rate_bps / design.blocks;
    for (const int arc : flow.arcs) {
      const Digraph::Arc& ends = graph.graph.arcs[static_cast<std::size_t>(arc)];
      stream.links.emplace_back(node(ends.from), node(ends.to));
    }
    PlanCodePart& part = stream.coded.emplace();
    part.code = static_cast<std::uint32_t>(session.codes.size() - 1);
    part.origin = node(flow.origin);
    part.row = flow.row;
    part.byte_row = flow.byte_row;
    part.byte_factors = flow.byte_factors;
    for (std::size_t i = 0; i < flow.inputs.size(); ++i)
      part.terms.emplace_back(index_of(flow.inputs[i]), flow.factors[i]);
  }
  for (std::size_t j = 0; j < design.sinks.size(); ++j) {
    const CodeDesign::Sink& designed = design.sinks[j];
    PlanCode::Sink sink{session.members[j + 1], {}, designed.inverse, designed.byte_inverse};
    for (const int flow : designed.flows) sink.streams.push_back(index_of(flow));
    code.sinks.push_back(std::move(sink));
  }
}

}  // namespace square::planning
