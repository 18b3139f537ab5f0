#include "controller/measurements.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/log.h"

namespace square::controller {
namespace {

// Less is no measurement.
constexpr double kLeastMeasuredBps = 1;

// A capacity that is not off by more than this much is the same.
bool is_other(double bps, double than_bps) {
  if (bps == than_bps) return false;
  return std::abs(bps - than_bps) > kCapacityChange * std::min(bps, than_bps);
}

std::string in_words(double bps) {
  return bps == kUnlimited ? "unlimited" : fmt::format("{:.4g} Mbit/s", bps_to_mbps(bps));
}

// What plans are to take for the link; nothing: what the topology says.
std::optional<double> wanted(const LinkProperties& link, double measured_bps) {
  if (link.is_fixed || !(measured_bps > 0)) return std::nullopt;
  if (link.capacity_bps == kUnlimited) {
    return measured_bps > kMostMeasuredBps ? std::nullopt : std::optional(measured_bps);
  }
  const bool is_less = measured_bps < link.capacity_bps && is_other(measured_bps, link.capacity_bps);
  return is_less ? std::optional(measured_bps) : std::nullopt;
}

// A topology that says otherwise is the operator's to mend.
void tell(const Topology& topology, const TopologyLink& link, double measured_bps, double before_bps) {
  const std::string& from = topology.node(link.from).name;
  const std::string& to = topology.node(link.to).name;
  const double given = link.properties.capacity_bps;
  const LogFields place{.component = "controller", .node = from, .peer = to};
  if (measured_bps < given && given != kUnlimited) {
    log(LogLevel::kWarning, place,
        "link \"{}\" -> \"{}\" carries {}, and the topology says {}: plans with what was measured", from, to,
        in_words(measured_bps), in_words(given));
  } else {
    log(LogLevel::kInfo, place, "link \"{}\" -> \"{}\" carries {}, planned was {}: plans again", from, to,
        in_words(measured_bps), in_words(before_bps));
  }
}

std::int64_t system_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Where there is something to add. The store takes it with the next plan.
void keep_history(const Topology& topology, const TopologyLink& link, const Measurements::Estimate& estimate,
                  MeasuredCapacities& known) {
  const LinkEnds ends{link.from, link.to};
  v1::Past part;
  *part.add_links() = known.history_of(ends);
  v1::LinkHistory& history = *part.mutable_links(0);
  const auto planned = known.planned.find(ends);
  const double planned_bps = planned == known.planned.end() ? 0 : planned->second;
  const std::int64_t now = system_milliseconds();
  const bool is_first = history.points().empty();
  const auto* last = is_first ? nullptr : &history.points(history.points_size() - 1);
  constexpr auto kInterval = std::chrono::duration_cast<std::chrono::milliseconds>(kHistoryInterval).count();
  const bool is_point = is_first || is_other(estimate.capacity_bps, last->capacity_bps()) ||
                        now - last->milliseconds() >= kInterval;
  if (!is_point && history.planned_bps() == planned_bps) return;
  history.set_from(topology.node(link.from).name);
  history.set_to(topology.node(link.to).name);
  history.set_planned_bps(planned_bps);
  if (is_point) {
    v1::LinkHistory::Point& point = *history.add_points();
    point.set_milliseconds(now);
    point.set_capacity_bps(estimate.capacity_bps);
    point.set_is_probed(estimate.is_probed);
  }
  if (history.points_size() > kHistoryPoints)
    history.mutable_points()->DeleteSubrange(0, history.points_size() - kHistoryPoints);
  known.history[ends] = std::make_shared<const std::string>(part.SerializeAsString());
}

}  // namespace

void MeasuredCapacities::apply(Topology& topology) const {
  for (const auto& [ends, capacity_bps] : planned) {
    const auto link = topology.find_link(ends.first, ends.second);
    if (!link) continue;
    const Status set = topology.set_capacity(*link, capacity_bps);
    SQUARE_CHECK(set.is_ok(), "a capacity that was measured is one");
  }
}

void MeasuredCapacities::take_up(const v1::Past& past, const Topology& topology) {
  for (const v1::LinkHistory& link : past.links()) {
    const auto from = topology.find_node(link.from());
    const auto to = topology.find_node(link.to());
    if (!from || !to || !topology.find_link(*from, *to)) continue;
    v1::Past part;
    *part.add_links() = link;
    history[{*from, *to}] = std::make_shared<const std::string>(part.SerializeAsString());
    if (link.planned_bps() >= kLeastMeasuredBps && std::isfinite(link.planned_bps()))
      planned[{*from, *to}] = link.planned_bps();
  }
}

v1::LinkHistory MeasuredCapacities::history_of(const LinkEnds& ends) const {
  const auto found = history.find(ends);
  v1::Past part;
  if (found == history.end() || !part.ParseFromString(*found->second) || part.links().empty()) return {};
  return part.links(0);
}

bool Measurements::note(const std::string& node, const v1::Heartbeat& beat, const Topology& topology,
                        TimePoint now) {
  const auto from = topology.find_node(node);
  if (!from) return false;
  bool is_news = false;
  for (const v1::MeasuredLink& link : beat.links()) {
    const auto to = topology.find_node(link.peer());
    if (!to || !topology.find_link(*from, *to)) continue;
    Estimate& estimate = estimates_[{*from, *to}];
    estimate.round_trip = Duration(static_cast<Duration::rep>(
        std::min<std::uint64_t>(link.round_trip_nanoseconds(), Duration(std::chrono::hours(1)).count())));
    if (!(link.capacity_bps() >= kLeastMeasuredBps) || !std::isfinite(link.capacity_bps())) continue;
    is_news = is_news || link.capacity_bps() != estimate.capacity_bps;
    estimate.capacity_bps = link.capacity_bps();
    estimate.is_probed = link.is_probed();
    estimate.when = now - Duration(static_cast<Duration::rep>(std::min<std::uint64_t>(
                              link.age_nanoseconds(), Duration(std::chrono::hours(24)).count())));
  }
  is_news_ = is_news_ || is_news;
  return is_news && next_end(TimePoint::max()) <= now;
}

bool Measurements::absorb(const Topology& topology, MeasuredCapacities& known, TimePoint now) {
  if (next_end(TimePoint::max()) > now) return false;
  is_news_ = false;
  bool is_due = false;
  for (const auto& [ends, estimate] : estimates_) {
    const auto id = topology.find_link(ends.first, ends.second);
    if (!id || !(estimate.capacity_bps > 0)) continue;
    const TopologyLink& link = topology.link(*id);
    const auto planned = known.planned.find(ends);
    const double before = planned == known.planned.end() ? link.properties.capacity_bps : planned->second;
    const std::optional<double> capacity = wanted(link.properties, estimate.capacity_bps);
    if (is_other(capacity.value_or(link.properties.capacity_bps), before)) {
      tell(topology, link, estimate.capacity_bps, before);
      is_due = true;
      if (capacity) {
        known.planned[ends] = *capacity;
      } else {
        known.planned.erase(ends);
      }
    }
    keep_history(topology, link, estimate, known);
  }
  if (!is_due) return false;
  planned_at_ = now;
  moves_ = true;
  return true;
}

TimePoint Measurements::next_end(TimePoint latest) const {
  if (!is_news_) return latest;
  return planned_at_ ? std::min(latest, *planned_at_ + kMeasuredPlanInterval) : TimePoint{};
}

v1::ListLinksResponse Measurements::list(const Topology& topology, const MeasuredCapacities& known,
                                         TimePoint now) const {
  v1::ListLinksResponse response;
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const TopologyNode& node = topology.node(NodeId(static_cast<NodeId::value_type>(i)));
    v1::ListLinksResponse::Node& added = *response.add_nodes();
    added.set_name(node.name);
    added.set_egress_bps(node.egress_bps);
    added.set_ingress_bps(node.ingress_bps);
  }
  for (std::size_t i = 0; i < topology.link_count(); ++i) {
    const TopologyLink& link = topology.link(LinkId(static_cast<LinkId::value_type>(i)));
    const LinkEnds ends{link.from, link.to};
    v1::ListLinksResponse::Link& added = *response.add_links();
    added.set_from(topology.node(link.from).name);
    added.set_to(topology.node(link.to).name);
    added.set_capacity_bps(link.properties.capacity_bps);
    added.set_capacity_stddev_bps(link.properties.capacity_stddev_bps);
    added.set_latency_nanoseconds(static_cast<std::uint64_t>(link.properties.latency.count()));
    added.set_price_usd_per_gb(link.properties.price_usd_per_gb);
    added.set_is_fixed(link.properties.is_fixed);
    const auto planned = known.planned.find(ends);
    added.set_planned_bps(planned == known.planned.end() ? link.properties.capacity_bps : planned->second);
    *added.mutable_history() = known.history_of(ends);
    const auto found = estimates_.find(ends);
    if (found == estimates_.end()) continue;
    v1::MeasuredLink& measured = *added.mutable_measured();
    measured.set_capacity_bps(found->second.capacity_bps);
    measured.set_is_probed(found->second.is_probed);
    measured.set_round_trip_nanoseconds(static_cast<std::uint64_t>(found->second.round_trip.count()));
    measured.set_age_nanoseconds(
        static_cast<std::uint64_t>(std::max<Duration>(now - found->second.when, Duration(0)).count()));
  }
  return response;
}

}  // namespace square::controller
