#include "controller/trial.h"

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
        "group {} of an earlier controller cannot be planned any more, and is set aside: {}", names.front(),
        planned.to_string());
  } else {
    const std::size_t middle = names.size() / 2;
    take_back(state, names.first(middle), plan);
    take_back(state, names.subspan(middle), plan);
  }
}

}  // namespace

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
