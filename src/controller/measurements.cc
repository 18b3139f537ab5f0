#include "controller/measurements.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/log.h"

namespace square::controller {
namespace {

// Less is no measurement.
constexpr double kLeastMeasuredBps = 1;
// Of what the topology says.
constexpr double kNearlyAll = 0.97;
// What is sent at most, of what was measured: who never sends more than that never sees more.
constexpr double kMeasuredPace = 1.25;

// A capacity that is not off by more than this much is the same.
bool is_other(double bps, double than_bps) {
  if (bps == than_bps) return false;
  return std::abs(bps - than_bps) > kCapacityChange * std::min(bps, than_bps);
}

std::string in_words(double bps) {
  return bps == kUnlimited ? "unlimited" : fmt::format("{:.4g} Mbit/s", bps_to_mbps(bps));
}

// What plans are to take for the link; nothing: what the topology says. `before_bps` is what they take now:
// the topology's figure comes back when nearly all of it was seen, or plans would go to and fro.
std::optional<double> wanted(const LinkProperties& link, double measured_bps, double before_bps) {
  if (link.is_fixed || !(measured_bps > 0)) return std::nullopt;
  if (link.capacity_bps == kUnlimited) return std::min(measured_bps, kMostMeasuredBps);
  if (measured_bps >= kMostMeasuredBps) return std::nullopt;
  const bool was_less = before_bps < link.capacity_bps;
  const double enough = link.capacity_bps * (was_less ? kNearlyAll : 1 / (1 + kCapacityChange));
  return measured_bps < enough ? std::optional(measured_bps) : std::nullopt;
}

// A figure of before stands only where the topology still leaves it to what is measured.
bool counts(const LinkProperties& link, double planned_bps) {
  return !link.is_fixed && planned_bps < link.capacity_bps;
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

struct Change {
  const TopologyLink* link;
  double measured_bps;
  double before_bps;
};

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

bool MeasuredCapacities::distinguish(const Topology& topology) const {
  for (std::size_t i = 0; i < topology.link_count(); ++i) {
    if (topology.link(LinkId(static_cast<LinkId::value_type>(i))).properties.capacity_bps != kUnlimited)
      return true;
  }
  return std::ranges::any_of(planned, [](const auto& entry) { return entry.second < kMostMeasuredBps; });
}

void MeasuredCapacities::apply(Topology& topology) const {
  if (planned.empty() || !distinguish(topology)) return;
  for (const auto& [ends, capacity_bps] : planned) {
    const auto link = topology.find_link(ends.first, ends.second);
    if (!link) continue;
    const LinkProperties& given = topology.link(*link).properties;
    if (!counts(given, capacity_bps)) continue;
    const double most = capacity_bps < kMostMeasuredBps ? kMeasuredPace * capacity_bps : kUnlimited;
    const Status set = topology.set_measured(*link, capacity_bps, std::min(most, given.capacity_bps));
    SQUARE_CHECK(set.is_ok(), "a capacity that was measured is one");
  }
}

void MeasuredCapacities::take_up(const v1::Past& past, const Topology& topology) {
  for (const v1::LinkHistory& link : past.links()) {
    const auto from = topology.find_node(link.from());
    const auto to = topology.find_node(link.to());
    const auto known = from && to ? topology.find_link(*from, *to) : std::nullopt;
    if (!known) continue;
    v1::Past part;
    *part.add_links() = link;
    history[{*from, *to}] = std::make_shared<const std::string>(part.SerializeAsString());
    const double bps = link.planned_bps();
    if (bps >= kLeastMeasuredBps && counts(topology.link(*known).properties, bps))
      planned[{*from, *to}] = bps;
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
    if (!(link.capacity_bps() >= kLeastMeasuredBps)) continue;
    if (link.capacity_bps() != estimate.capacity_bps) {
      is_news = true;
      fresh_.insert({*from, *to});
    }
    estimate.capacity_bps = link.capacity_bps();
    estimate.is_probed = link.is_probed();
    estimate.when = now - Duration(static_cast<Duration::rep>(std::min<std::uint64_t>(
                              link.age_nanoseconds(), Duration(std::chrono::hours(24)).count())));
  }
  return is_news && next_end(TimePoint::max()) <= now;
}

bool Measurements::absorb(const Topology& topology, MeasuredCapacities& known, TimePoint now) {
  if (next_end(TimePoint::max()) > now) return false;
  absorbed_at_ = now;
  const bool did_distinguish = known.distinguish(topology);
  std::vector<Change> changes;
  for (const LinkEnds& ends : std::exchange(fresh_, {})) {
    const auto id = topology.find_link(ends.first, ends.second);
    if (!id) continue;
    const TopologyLink& link = topology.link(*id);
    const Estimate& estimate = estimates_.at(ends);
    const auto planned = known.planned.find(ends);
    const double before = planned == known.planned.end() ? link.properties.capacity_bps : planned->second;
    const std::optional<double> capacity = wanted(link.properties, estimate.capacity_bps, before);
    if (is_other(capacity.value_or(link.properties.capacity_bps), before)) {
      changes.push_back({&link, estimate.capacity_bps, before});
      if (capacity) {
        known.planned[ends] = *capacity;
      } else {
        known.planned.erase(ends);
      }
    }
    if (std::isfinite(estimate.capacity_bps)) keep_history(topology, link, estimate, known);
  }
  // Where all links are fast, or of one machine, plans take all for equal.
  if (changes.empty() || !(did_distinguish || known.distinguish(topology))) return false;
  for (const Change& change : changes) tell(topology, *change.link, change.measured_bps, change.before_bps);
  moves_ = true;
  return true;
}

TimePoint Measurements::next_end(TimePoint latest) const {
  if (fresh_.empty()) return latest;
  return absorbed_at_ ? std::min(latest, *absorbed_at_ + kMeasuredPlanInterval) : TimePoint{};
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
