#include <cmath>
#include <nlohmann/json.hpp>

#include "square/plan.h"
#include "square/units.h"

namespace square {
namespace {

// Keeps keys in the order in which they are written: people read plans, too.
using Json = nlohmann::ordered_json;

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json rate(double bps) { return finite_or_null(bps_to_mbps(bps)); }

template <typename IdType>
std::string id_text(IdType id) {
  return std::to_string(id.value());
}

class Writer {
 public:
  explicit Writer(const Plan& plan) : plan_(plan) {}

  [[nodiscard]] Json write() const {
    Json out;
    out["format"] = kPlanFormat;
    out["epoch"] = plan_.epoch.value();
    out["policy"] = plan_.policy;
    out["solve_seconds"] = plan_.solve_seconds;
    out["min_rate_mbps"] = rate(plan_.min_rate_bps);
    out["total_rate_mbps"] = rate(plan_.total_rate_bps);
    out["jain"] = plan_.jain;
    out["tenants"] = Json::array();
    for (const PlanTenant& tenant : plan_.tenants) {
      out["tenants"].push_back(
          {{"name", tenant.name}, {"weight", tenant.weight}, {"rate_mbps", rate(tenant.rate_bps)}});
    }
    out["certificate"] = certificate();
    out["collectives"] = Json::array();
    for (const PlanCollective& item : plan_.collectives) out["collectives"].push_back(collective(item));
    out["sessions"] = Json::array();
    for (const PlanSession& item : plan_.sessions) out["sessions"].push_back(session(item));
    out["nodes"] = Json::array();
    for (const PlanNode& node : plan_.nodes) {
      out["nodes"].push_back({{"name", node.name},
                              {"egress_mbps", rate(node.egress_bps)},
                              {"ingress_mbps", rate(node.ingress_bps)}});
    }
    out["links"] = Json::array();
    for (const PlanLink& item : plan_.links) out["links"].push_back(link(item));
    return out;
  }

 private:
  [[nodiscard]] const std::string& name(NodeId node) const { return plan_.nodes.at(node.index()).name; }

  [[nodiscard]] Json names(const std::vector<NodeId>& nodes) const {
    Json out = Json::array();
    for (const NodeId node : nodes) out.push_back(name(node));
    return out;
  }

  [[nodiscard]] Json certificate() const {
    Json out;
    const std::optional<double>& level = plan_.certificate.level_bound_bps;
    out["level_bound_mbps"] = level.has_value() ? rate(*level) : Json(nullptr);
    out["cuts"] = Json::array();
    for (const PlanCut& cut : plan_.certificate.cuts) {
      out["cuts"].push_back({{"collective", id_text(cut.collective)},
                             {"source_side", names(cut.source_side)},
                             {"bound_mbps", rate(cut.bound_bps)}});
    }
    return out;
  }

  [[nodiscard]] static Json collective(const PlanCollective& item) {
    Json sessions = Json::array();
    for (const SessionId id : item.sessions) sessions.push_back(id_text(id));
    return {{"id", id_text(item.id)},
            {"tenant", item.tenant},
            {"op", to_string(item.op)},
            {"weight", item.weight},
            {"bytes", item.size_bytes},
            {"rate_mbps", rate(item.rate_bps)},
            {"bound_mbps", rate(item.bound_bps)},
            {"completion_seconds", finite_or_null(item.completion_seconds)},
            {"sessions", std::move(sessions)}};
  }

  [[nodiscard]] Json session(const PlanSession& item) const {
    Json paths = Json::array();
    for (const PlanPath& path : item.paths) {
      paths.push_back(
          {{"member", name(path.member)}, {"nodes", names(path.nodes)}, {"rate_mbps", rate(path.rate_bps)}});
    }
    Json streams = Json::array();
    for (const PlanStream& stream : item.streams) {
      Json links = Json::array();
      for (const auto& [from, to] : stream.links) links.push_back(Json::array({name(from), name(to)}));
      streams.push_back(
          {{"links", std::move(links)}, {"rate_mbps", rate(stream.rate_bps)}, {"coded", stream.coded}});
    }
    return {{"id", id_text(item.id)},
            {"collective", id_text(item.collective)},
            {"kind", to_string(item.kind)},
            {"root", name(item.root)},
            {"members", names(item.members)},
            {"offset_bytes", item.offset_bytes},
            {"size_bytes", item.size_bytes},
            {"pair", item.pair.has_value() ? Json(id_text(*item.pair)) : Json(nullptr)},
            {"lp_rate_mbps", rate(item.lp_rate_bps)},
            {"rate_mbps", rate(item.rate_bps)},
            {"paths", std::move(paths)},
            {"streams", std::move(streams)}};
  }

  [[nodiscard]] Json link(const PlanLink& item) const {
    return {{"from", name(item.from)},
            {"to", name(item.to)},
            {"capacity_mbps", rate(item.capacity_bps)},
            {"load_mbps", rate(item.load_bps)},
            {"latency_ms", to_seconds(item.latency) * 1e3}};
  }

  const Plan& plan_;
};

}  // namespace

std::string to_json(const Plan& plan) {
  // A name that is not UTF-8 must not throw: it comes out with replacement characters.
  return Writer(plan).write().dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace square
