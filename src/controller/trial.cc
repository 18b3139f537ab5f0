#include "controller/trial.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"

namespace square::controller {
namespace {

using Names = std::span<const std::string>;
using Planning = std::function<Status(const PlanningState&)>;

PlanningState with(const PlanningState& state, Names names, const Status& why) {
  PlanningState other = state;
  for (const std::string& name : names) other.registry.set_aside(name, why);
  return other;
}

// Takes back all that can be planned: all, or where that fails each half by itself.
void take_back(PlanningState& state, Names names, const Planning& plan) {
  PlanningState trial = with(state, names, Status::ok());
  const Status planned = plan(trial);
  if (planned.is_ok()) {
    state = std::move(trial);
  } else if (names.size() == 1) {
    state.registry.set_aside(names.front(), planned);
    log(LogLevel::kError, "controller",
        "group {} of tenant {} cannot be planned any more, and is set aside: {}", names.front(),
        state.registry.groups().at(names.front())->tenant, planned.to_string());
  } else {
    const std::size_t middle = names.size() / 2;
    take_back(state, names.first(middle), plan);
    take_back(state, names.subspan(middle), plan);
  }
}

struct Suspect {
  std::uint64_t newest = 0;        // number of a group
  std::vector<std::string> names;  // of its groups, the oldest first
};

// Groups that may be set aside, by tenant, and all of them together.
std::vector<Suspect> suspects_in(const GroupRegistry& registry) {
  std::map<std::uint64_t, std::string> by_number;
  for (const auto& [name, group] : registry.groups()) {
    if (!group->permanent && group->unplannable.is_ok()) by_number.emplace(group->number, name);
  }
  std::map<std::string, Suspect> tenants;
  Suspect all;
  for (const auto& [number, name] : by_number) {
    for (Suspect* suspect : {&tenants[registry.groups().at(name)->tenant], &all}) {
      suspect->newest = number;
      suspect->names.push_back(name);
    }
  }
  std::vector<Suspect> suspects;
  for (auto& [tenant, suspect] : tenants) suspects.push_back(std::move(suspect));
  std::ranges::sort(suspects, std::greater<>(), &Suspect::newest);
  suspects.resize(std::min(suspects.size(), kMostSuspects));
  suspects.push_back(std::move(all));
  return suspects;
}

}  // namespace

Status set_aside_unplannable(PlanningState& state, const Status& why, const Planning& plan) {
  for (const Suspect& suspect : suspects_in(state.registry)) {
    PlanningState rest = with(state, suspect.names, why);
    if (suspect.names.empty() || !plan(rest).is_ok()) continue;
    state = std::move(rest);
    take_back(state, suspect.names, plan);
    return Status::ok();
  }
  return why;
}

Status try_adopted(PlanningState& state, const Planning& plan) {
  const std::vector<std::string> names = state.registry.untried();
  PlanningState all = with(state, names, Status::ok());
  const Status whole = plan(all);
  if (whole.is_ok()) {
    state = std::move(all);
    return whole;
  }
  PlanningState rest = with(state, names, whole);
  if (!plan(rest).is_ok()) return whole;
  state = std::move(rest);
  if (names.size() == 1) {
    take_back(state, names, [&](const PlanningState&) { return whole; });
  } else {
    take_back(state, Names(names).first(names.size() / 2), plan);
    take_back(state, Names(names).subspan(names.size() / 2), plan);
  }
  return Status::ok();
}

}  // namespace square::controller
