#include "collective/examination/links.h"

#include <cmath>

#include "square/units.h"

namespace square::examination {
namespace {

Json rate_or_null(double bps) { return std::isfinite(bps) ? Json(bps) : Json(nullptr); }

}  // namespace

Json describe_links(const NodeMetrics& metrics) {
  Json links = Json::array();
  for (const LinkMetrics& metered : metrics.links) {
    if (metered.direction != LinkDirection::kOut) continue;
    Json link;
    link["peer"] = metered.peer;
    link["is_up"] = metered.is_up;
    link["capacity_bps"] = rate_or_null(metered.capacity_bps);
    link["planned_bps"] = rate_or_null(metered.planned_bps);
    link["pace_bps"] = rate_or_null(metered.pace_bps);
    link["round_trip_seconds"] = metered.round_trip ? Json(to_seconds(*metered.round_trip)) : Json();
    link["channels"] = metered.channels;
    links.push_back(std::move(link));
  }
  return links;
}

Json describe_troubles(const LinkTroubles& troubles) {
  Json json;
  json["broken"] = troubles.broken;
  json["refused"] = Json::array();
  for (const RefusedPeer& refused : troubles.refused) json["refused"].push_back(refused.peer);
  json["lossy"] = Json::array();
  for (const LossyRelay& lossy : troubles.lossy)
    json["lossy"].push_back({{"relay", lossy.relay}, {"is_way", lossy.is_way}, {"seen", lossy.seen}});
  return json;
}

}  // namespace square::examination
