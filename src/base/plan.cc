#include "square/plan.h"

#include <algorithm>

#include "base/mix.h"

namespace square {

std::string_view to_string(SessionKind kind) {
  switch (kind) {
    case SessionKind::kMulticast: return "multicast";
    case SessionKind::kReduce: return "reduce";
    case SessionKind::kUnicast: return "unicast";
  }
  return "unknown";
}

std::string_view to_string(PlanChange::Kind kind) {
  switch (kind) {
    case PlanChange::Kind::kJoined: return "joined";
    case PlanChange::Kind::kLeft: return "left";
    case PlanChange::Kind::kFaster: return "faster";
    case PlanChange::Kind::kSlower: return "slower";
    case PlanChange::Kind::kRerouted: return "rerouted";
  }
  return "unknown";
}

OriginTag tag_of(const PlanOrigin& origin) {
  if (origin == PlanOrigin{}) return {};
  return OriginTag(static_cast<std::uint32_t>(mix(mix(origin.store) + origin.term)));
}

std::optional<std::uint32_t> plain_block(const PlanCodePart& part) {
  const auto one = std::ranges::find(part.row, 1.0);
  const bool is_unit = one != part.row.end() && std::ranges::count(part.row, 0.0) + 1 == std::ssize(part.row);
  if (!part.terms.empty() || !is_unit) return std::nullopt;
  return static_cast<std::uint32_t>(one - part.row.begin());
}

double carried_bps(const PlanSession& session) {
  double sum = 0;
  for (const PlanStream& stream : session.streams) sum += stream.coded ? 0 : stream.rate_bps;
  for (const PlanCode& code : session.codes) sum += code.rate_bps;
  return sum;
}

const PlanCollective* Plan::find_collective(CollectiveId id) const {
  // The planner sorts them; plans from elsewhere need not.
  const auto sorted = std::ranges::lower_bound(collectives, id, {}, &PlanCollective::id);
  if (sorted != collectives.end() && sorted->id == id) return &*sorted;
  const auto found = std::find_if(collectives.begin(), collectives.end(),
                                  [&](const PlanCollective& collective) { return collective.id == id; });
  return found == collectives.end() ? nullptr : &*found;
}

const PlanSession* Plan::find_session(SessionId id) const {
  // The planner numbers sessions by position; plans from elsewhere need not.
  if (id.index() < sessions.size() && sessions[id.index()].id == id) return &sessions[id.index()];
  const auto sorted = std::ranges::lower_bound(sessions, id, {}, &PlanSession::id);
  if (sorted != sessions.end() && sorted->id == id) return &*sorted;
  const auto found = std::find_if(sessions.begin(), sessions.end(),
                                  [&](const PlanSession& session) { return session.id == id; });
  return found == sessions.end() ? nullptr : &*found;
}

std::optional<NodeId> Plan::find_node(std::string_view name) const {
  for (std::size_t v = 0; v < nodes.size(); ++v) {
    if (nodes[v].name == name) return NodeId(static_cast<std::uint32_t>(v));
  }
  return std::nullopt;
}

double jain_index(const std::vector<double>& values) {
  double sum = 0.0;
  double squares = 0.0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  // All zero is even as well.
  if (squares == 0.0) return 1.0;
  return sum * sum / (static_cast<double>(values.size()) * squares);
}

}  // namespace square
