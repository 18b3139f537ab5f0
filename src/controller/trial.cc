#include "controller/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/log.h"

namespace square::controller {
namespace {

using Names = std::span<const std::string>;

constexpr std::size_t kMaxReasonBytes = 512;

PlanningState with(const PlanningState& state, Names names, const Status& why) {
  PlanningState other = state;
  for (const std::string& name : names) other.registry.set_aside(name, why);
  return other;
}

// By the age of their tenants, that is of a tenant's oldest group, and then by their own.
std::vector<std::string> by_age(std::vector<std::string> names, const GroupRegistry& registry) {
  std::map<std::string, std::uint64_t> since;
  for (const auto& [name, group] : registry.groups()) {
    const auto [tenant, is_new] = since.emplace(group->tenant, group->number);
    if (!is_new) tenant->second = std::min(tenant->second, group->number);
  }
  const auto age = [&](const std::string& name) {
    const RegisteredGroup& group = *registry.groups().at(name);
    return std::tuple(since.at(group.tenant), group.number);
  };
  std::ranges::sort(names, {}, age);
  return names;
}

// What is planned and may go.
std::vector<std::string> planned_groups(const GroupRegistry& registry) {
  std::vector<std::string> names;
  for (const auto& [name, group] : registry.groups()) {
    if (!group->permanent && group->unplannable.is_ok()) names.push_back(name);
  }
  return names;
}

class Trials {
 public:
  Trials(PlanningState& state, const Planning& plan) : state_(state), plan_(plan) {}

  // Takes back all that can be planned: all, or where that fails for the reason `why` each half by itself.
  void divide(Names names, const Status& why) {
    if (names.size() == 1) return state_.registry.set_aside(names.front(), why);
    const std::size_t middle = names.size() / 2;
    take_back(names.first(middle));
    take_back(names.subspan(middle));
  }

 private:
  void take_back(Names names) {
    if (left_ == 0) return;
    --left_;
    PlanningState trial = with(state_, names, Status::ok());
    const Status planned = plan_(trial);
    if (!planned.is_ok()) return divide(names, planned);
    state_ = std::move(trial);
  }

  PlanningState& state_;
  const Planning& plan_;
  int left_ = kMostTrials;
};

// `names` cannot be planned together, for the reason `why`.
Status find_plannable(PlanningState& state, const std::vector<std::string>& names, const Status& why,
                      const Planning& plan) {
  PlanningState rest = with(state, names, why);
  if (!plan(rest).is_ok()) return why;
  state = std::move(rest);
  Trials(state, plan).divide(names, why);
  return Status::ok();
}

std::shared_ptr<const v1::ControllerEvent> unplanned_event(const std::string& name,
                                                           const RegisteredGroup& group) {
  auto event = std::make_shared<v1::ControllerEvent>();
  v1::Unplanned& unplanned = *event->mutable_unplanned();
  for (const RegisteredCollective& collective : group.collectives)
    unplanned.add_collectives(collective.id.value());
  unplanned.set_reason(fmt::format("group \"{}\" cannot be planned any more: {}; close it and make a new one",
                                   name, group.unplannable.message().substr(0, kMaxReasonBytes)));
  return event;
}

}  // namespace

Status try_adopted(PlanningState& state, const Planning& plan) {
  const std::vector<std::string> names = by_age(state.registry.untried(), state.registry);
  PlanningState all = with(state, names, Status::ok());
  const Status whole = plan(all);
  if (!whole.is_ok()) return find_plannable(state, names, whole, plan);
  state = std::move(all);
  return whole;
}

Status set_aside_unplannable(PlanningState& state, const Status& why, const Planning& plan) {
  const std::vector<std::string> names = by_age(planned_groups(state.registry), state.registry);
  return names.empty() ? why : find_plannable(state, names, why, plan);
}

void tell_set_aside(const GroupRegistry& before, const GroupRegistry& after, const Members& members) {
  for (const auto& [name, group] : after.groups()) {
    if (group->unplannable.is_ok()) continue;
    const auto known = before.groups().find(name);
    if (known != before.groups().end() && !known->second->unplannable.is_ok()) continue;
    log(LogLevel::kError, "controller",
        "group {} of tenant {} cannot be planned any more, and is set aside: {}", name, group->tenant,
        group->unplannable.to_string());
    const auto event = unplanned_event(name, *group);
    for (const std::string& node : group->nodes) {
      const Member* const member = members.find(node);
      if (member != nullptr && member->line != nullptr) member->line->send(event);
    }
  }
}

void Retrials::note_change(GroupRegistry& registry, TimePoint now) {
  const bool is_any = std::ranges::any_of(
      registry.groups(), [](const auto& entry) { return !entry.second->unplannable.is_ok(); });
  if (is_any && next_ && now >= *next_) registry.try_again();
  if (!is_any) {
    next_.reset();
  } else if (!next_ || now >= *next_) {
    next_ = now + kTrialRest;
  }
}

}  // namespace square::controller
