#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planning/plan/assumption.h"
#include "square/plan.h"
#include "square/units.h"

namespace square {
namespace {

// Keeps keys in the order in which they are written: people read plans, too.
using OrderedJson = nlohmann::ordered_json;

OrderedJson finite_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}
OrderedJson number_or_null(const std::optional<double>& value) {
  return value.has_value() ? OrderedJson(*value) : OrderedJson(nullptr);
}
OrderedJson rate(double bps) { return finite_or_null(bps_to_mbps(bps)); }

double milliseconds(Duration duration) { return to_seconds(duration) * 1e3; }

template <typename IdType>
std::string id_text(IdType id) {
  return std::to_string(id.value());
}

class Writer {
 public:
  explicit Writer(const Plan& plan) : plan_(plan) {}

  [[nodiscard]] OrderedJson write() const {
    OrderedJson out;
    out["format"] = kPlanFormat;
    out["epoch"] = plan_.epoch.value();
    if (plan_.origin != PlanOrigin{}) {
      out["origin"] = {{"store", fmt::format("{:016x}", plan_.origin.store)}, {"term", plan_.origin.term}};
    }
    out["policy"] = plan_.policy;
    out["solve_seconds"] = plan_.solve_seconds;
    out["min_rate_mbps"] = rate(plan_.min_rate_bps);
    out["total_rate_mbps"] = rate(plan_.total_rate_bps);
    out["jain"] = plan_.jain;
    out["cost_usd_per_hour"] = plan_.cost_usd_per_hour;
    out["budget_usd_per_hour"] = number_or_null(plan_.budget_usd_per_hour);
    out["realised"] = plan_.realised;
    if (plan_.provisional) out["provisional"] = true;
    if (const auto assumption = planning::assumption_of(plan_)) {
      out["assumed"] = {{"links", assumption->links}, {"capacity_mbps", rate(assumption->capacity_bps)}};
    }
    out["headroom"] = headroom();
    out["changes"] = changes();
    out["tenants"] = OrderedJson::array();
    for (const PlanTenant& tenant : plan_.tenants) {
      OrderedJson& item = out["tenants"].emplace_back(OrderedJson{
          {"name", tenant.name}, {"weight", tenant.weight}, {"rate_mbps", rate(tenant.rate_bps)}});
      if (tenant.open.operations != Quota::kNone) item["open_operations"] = tenant.open.operations;
      if (tenant.open.bytes != Quota::kNone) item["open_bytes"] = tenant.open.bytes;
    }
    out["certificate"] = certificate();
    out["collectives"] = OrderedJson::array();
    const std::vector<CollectiveId> assumed = planning::assumed_bounds(plan_);
    for (const PlanCollective& item : plan_.collectives) {
      OrderedJson& written = out["collectives"].emplace_back(collective(item));
      if (std::ranges::find(assumed, item.id) != assumed.end()) written["bound_is_assumed"] = true;
    }
    out["sessions"] = OrderedJson::array();
    for (const PlanSession& item : plan_.sessions) out["sessions"].push_back(session(item));
    out["nodes"] = OrderedJson::array();
    for (const PlanNode& node : plan_.nodes) {
      OrderedJson& item = out["nodes"].emplace_back(OrderedJson{{"name", node.name},
                                                                {"egress_mbps", rate(node.egress_bps)},
                                                                {"ingress_mbps", rate(node.ingress_bps)}});
      if (!node.relays) item["relays"] = false;
    }
    out["links"] = OrderedJson::array();
    for (const PlanLink& item : plan_.links) out["links"].push_back(link(item));
    return out;
  }

 private:
  [[nodiscard]] const std::string& name(NodeId node) const { return plan_.nodes.at(node.index()).name; }

  [[nodiscard]] OrderedJson names(const std::vector<NodeId>& nodes) const {
    OrderedJson out = OrderedJson::array();
    for (const NodeId node : nodes) out.push_back(name(node));
    return out;
  }

  [[nodiscard]] OrderedJson certificate() const {
    OrderedJson out;
    const std::optional<double>& level = plan_.certificate.level_bound_bps;
    out["level_bound_mbps"] = level.has_value() ? rate(*level) : OrderedJson(nullptr);
    out["cuts"] = OrderedJson::array();
    for (const PlanCut& cut : plan_.certificate.cuts) {
      out["cuts"].push_back({{"collective", id_text(cut.collective)},
                             {"source_side", names(cut.source_side)},
                             {"bound_mbps", rate(cut.bound_bps)}});
    }
    out["levels"] = OrderedJson::array();
    for (const PlanLevel& item : plan_.certificate.levels) out["levels"].push_back(level_of(item));
    out["cost_bound_usd_per_hour"] = number_or_null(plan_.certificate.cost_bound_usd_per_hour);
    return out;
  }

  [[nodiscard]] OrderedJson level_of(const PlanLevel& item) const {
    OrderedJson collectives = OrderedJson::array();
    for (const CollectiveId id : item.collectives) collectives.push_back(id_text(id));
    OrderedJson links = OrderedJson::array();
    for (const auto& [id, length] : item.links) {
      const PlanLink& link = plan_.links.at(id.index());
      links.push_back(OrderedJson::array({name(link.from), name(link.to), length}));
    }
    return {{"bound_mbps", rate(item.bound_bps)},
            {"collectives", std::move(collectives)},
            {"links", std::move(links)},
            {"egress", node_lengths(item.egress)},
            {"ingress", node_lengths(item.ingress)},
            {"budget", item.budget},
            {"packings", packings(item.packings)}};
  }

  [[nodiscard]] OrderedJson node_lengths(const std::vector<std::pair<NodeId, double>>& lengths) const {
    OrderedJson out = OrderedJson::array();
    for (const auto& [node, length] : lengths) out.push_back(OrderedJson::array({name(node), length}));
    return out;
  }

  // Often many sessions have the same cuts: neighbours in the list share one entry.
  [[nodiscard]] OrderedJson packings(const std::vector<PlanPacking>& items) const {
    OrderedJson out = OrderedJson::array();
    for (std::size_t p = 0; p < items.size(); ++p) {
      if (p > 0 && same_cuts(items[p - 1], items[p])) {
        out.back()["sessions"].push_back(id_text(items[p].session));
        continue;
      }
      OrderedJson cuts = OrderedJson::array();
      for (const PlanPacking::Cut& cut : items[p].cuts) {
        cuts.push_back({{"far_side", names(cut.far_side)}, {"length", cut.length}});
      }
      out.push_back(
          {{"sessions", OrderedJson::array({id_text(items[p].session)})}, {"cuts", std::move(cuts)}});
    }
    return out;
  }

  [[nodiscard]] static bool same_cuts(const PlanPacking& a, const PlanPacking& b) {
    return std::equal(a.cuts.begin(), a.cuts.end(), b.cuts.begin(), b.cuts.end(),
                      [](const PlanPacking::Cut& left, const PlanPacking::Cut& right) {
                        return left.length == right.length && left.far_side == right.far_side;
                      });
  }

  [[nodiscard]] OrderedJson headroom() const {
    if (!plan_.headroom.has_value()) return nullptr;
    return {{"deviations", plan_.headroom->deviations},
            {"nominal_min_rate_mbps", rate(plan_.headroom->nominal_min_rate_bps)},
            {"nominal_total_rate_mbps", rate(plan_.headroom->nominal_total_rate_bps)}};
  }

  [[nodiscard]] OrderedJson changes() const {
    if (!plan_.changes.has_value()) return nullptr;
    OrderedJson out = OrderedJson::array();
    for (const PlanChange& change : *plan_.changes) {
      out.push_back({{"collective", id_text(change.collective)},
                     {"kind", to_string(change.kind)},
                     {"rate_before_mbps", rate(change.rate_before_bps)},
                     {"rate_after_mbps", rate(change.rate_after_bps)}});
    }
    return out;
  }

  [[nodiscard]] static OrderedJson collective(const PlanCollective& item) {
    OrderedJson sessions = OrderedJson::array();
    for (const SessionId id : item.sessions) sessions.push_back(id_text(id));
    OrderedJson out = {{"id", id_text(item.id)},
                       {"tenant", item.tenant},
                       {"op", to_string(item.op)},
                       {"weight", item.weight},
                       {"bytes", item.size_bytes},
                       {"lp_rate_mbps", rate(item.lp_rate_bps)},
                       {"rate_mbps", rate(item.rate_bps)},
                       {"bound_mbps", rate(item.bound_bps)},
                       {"completion_seconds", finite_or_null(item.completion_seconds)},
                       {"cost_usd_per_hour", item.cost_usd_per_hour},
                       {"sessions", std::move(sessions)}};
    if (!item.group.empty()) out["group"] = item.group;
    return out;
  }

  [[nodiscard]] OrderedJson session(const PlanSession& item) const {
    OrderedJson paths = OrderedJson::array();
    for (const PlanPath& path : item.paths) {
      paths.push_back(
          {{"member", name(path.member)}, {"nodes", names(path.nodes)}, {"rate_mbps", rate(path.rate_bps)}});
    }
    OrderedJson streams = OrderedJson::array();
    for (const PlanStream& stream : item.streams) {
      OrderedJson links = OrderedJson::array();
      for (const auto& [from, to] : stream.links) links.push_back(OrderedJson::array({name(from), name(to)}));
      streams.push_back({{"links", std::move(links)},
                         {"rate_mbps", rate(stream.rate_bps)},
                         {"coded", stream.coded.has_value()}});
      if (stream.coded) write_part(*stream.coded, streams.back());
    }
    OrderedJson out = {
        {"id", id_text(item.id)},
        {"collective", id_text(item.collective)},
        {"kind", to_string(item.kind)},
        {"root", name(item.root)},
        {"members", names(item.members)},
        {"offset_bytes", item.offset_bytes},
        {"size_bytes", item.size_bytes},
        {"pair", item.pair.has_value() ? OrderedJson(id_text(*item.pair)) : OrderedJson(nullptr)},
        {"lp_rate_mbps", rate(item.lp_rate_bps)},
        {"rate_mbps", rate(item.rate_bps)},
        {"paths", std::move(paths)},
        {"streams", std::move(streams)}};
    for (const PlanCode& code : item.codes) out["codes"].push_back(written(code));
    for (const Duration bound : item.max_latency) {
      out["max_latency_ms"].push_back(bound == Duration::max() ? OrderedJson(nullptr)
                                                               : OrderedJson(milliseconds(bound)));
    }
    return out;
  }

  void write_part(const PlanCodePart& part, OrderedJson& stream) const {
    stream["code"] = part.code;
    stream["origin"] = name(part.origin);
    stream["adds"] = OrderedJson::array();
    for (const auto& [term, factor] : part.terms)
      stream["adds"].push_back(OrderedJson::array({term.value(), factor}));
    stream["row"] = part.row;
    if (part.byte_row.empty()) return;
    stream["byte_factors"] = part.byte_factors;
    stream["byte_row"] = part.byte_row;
  }

  [[nodiscard]] OrderedJson written(const PlanCode& code) const {
    OrderedJson sinks = OrderedJson::array();
    for (const PlanCode::Sink& sink : code.sinks) {
      OrderedJson streams = OrderedJson::array();
      for (const StreamIndex stream : sink.streams) streams.push_back(stream.value());
      sinks.push_back(
          {{"member", name(sink.member)}, {"streams", std::move(streams)}, {"inverse", sink.inverse}});
      if (!sink.byte_inverse.empty()) sinks.back()["byte_inverse"] = sink.byte_inverse;
    }
    OrderedJson out = {{"field", to_string(code.field)}, {"blocks", code.blocks}};
    if (code.redundancy > 0) out["redundancy"] = code.redundancy;
    out["rate_mbps"] = rate(code.rate_bps);
    out["sinks"] = std::move(sinks);
    return out;
  }

  [[nodiscard]] OrderedJson link(const PlanLink& item) const {
    OrderedJson out = {{"from", name(item.from)},
                       {"to", name(item.to)},
                       {"capacity_mbps", rate(item.capacity_bps)},
                       {"load_mbps", rate(item.load_bps)},
                       {"latency_ms", milliseconds(item.latency)},
                       {"price_usd_per_gb", item.price_usd_per_gb}};
    if (item.avoided) out["avoided"] = true;
    return out;
  }

  const Plan& plan_;
};

}  // namespace

std::string to_json(const Plan& plan) {
  // A name that is not UTF-8 must not throw: it comes out with replacement characters.
  return Writer(plan).write().dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace square
