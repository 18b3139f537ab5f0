#include "controller/absences.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"

namespace square::controller {
namespace {

// Who relays nothing under a plan of the state.
std::set<std::string> avoided_in(const PlanningState& state, const std::set<std::string>& gone) {
  std::set<std::string> nodes = state.left_out();
  nodes.merge(state.no_relays());
  nodes.insert(gone.begin(), gone.end());
  return nodes;
}

}  // namespace

void Absences::note_line(const std::string& node, bool has_plan) {
  fading_.erase(node);
  departed_.erase(node);
  if (!has_plan) away_.erase(node);
}

bool Absences::note_away(const std::string& node) {
  fading_.erase(node);
  return away_.insert(node).second;
}

void Absences::forget(const std::string& node) {
  fading_.erase(node);
  away_.erase(node);
  departed_.erase(node);
}

bool Absences::fade(TimePoint now) {
  std::vector<std::string> over;
  for (const auto& [node, until] : fading_) {
    if (until <= now) over.push_back(node);
  }
  bool is_news = false;
  for (const std::string& node : over) is_news = note_away(node) || is_news;
  return is_news;
}

Absences::TimePoint Absences::next_end(TimePoint latest) const {
  for (const auto& [node, until] : fading_) latest = std::min(latest, until);
  return latest;
}

bool Absences::absorb(PlanningState& state, const Nodes& gone) {
  std::erase_if(departed_, [&](const std::string& node) { return !state.registry.uses(node); });
  if (state.away == away_ && state.departed == departed_) return false;
  const Nodes before = avoided_in(state, gone);
  state.away = away_;
  state.departed = departed_;
  const Nodes now = avoided_in(state, gone);
  if (now == before) return false;
  log(LogLevel::kInfo, "controller", "plans without nodes that are away: {}",
      now.empty() ? "none" : fmt::format("{}", fmt::join(now, ", ")));
  return !state.registry.is_empty();
}

bool Absences::note_published(const PlanningState& state, const Nodes& gone, bool is_whole) {
  const Nodes before = std::exchange(avoided_, is_whole ? Nodes{} : avoided_in(state, gone));
  return !std::ranges::includes(before, avoided_);
}

}  // namespace square::controller
