#include "square/planner.h"

#include <future>
#include <mutex>

#include "bindings.h"
#include "square/plan_simulation.h"
#include "whole_number.h"

namespace square::python {
namespace {

std::vector<std::uint32_t> numbers_of(const std::vector<CollectiveId>& ids) {
  std::vector<std::uint32_t> numbers;
  for (const CollectiveId id : ids) numbers.push_back(id.value());
  return numbers;
}

struct PlanResultView {
  std::shared_ptr<Plan> plan;
  std::vector<ShotTrace> shots;
};

// How long planning goes on before somebody looks for Ctrl-C.
constexpr std::chrono::milliseconds kPlanSignalCheck{100};

// Plans on a thread of its own, within so many seconds; this one lets go of the interpreter lock and
// looks for Ctrl-C, which cancels.
template <typename Compute>
auto interruptible(const std::optional<Time>& timeout, Compute&& compute) {
  const Budget budget =
      timeout.has_value() ? Budget::within(from_seconds(seconds_of(*timeout))) : Budget::until_cancelled();
  auto running = std::async(std::launch::async, [&] { return compute(budget); });
  while (unlocked([&] { return running.wait_for(kPlanSignalCheck) != std::future_status::ready; })) {
    if (PyErr_CheckSignals() == 0) continue;
    budget.cancel();
    unlocked([&] { running.wait(); });
    throw py::error_already_set();
  }
  return check(running.get());
}

PlanResultView viewed(PlanResult result) {
  return {std::make_shared<Plan>(std::move(result.plan)), std::move(result.shots)};
}

// Scenarios are taken by value: another thread may change what Python holds while the lock of
// the interpreter is away.
PlanResultView plan_once(Scenario scenario, bool streams, std::optional<Time> timeout) {
  return viewed(interruptible(timeout, [&](const Budget& budget) {
    return make_plan(scenario, {.streams = streams, .budget = budget});
  }));
}

PlanResultView quick_plan(Scenario scenario) {
  return viewed(
      interruptible({}, [&](const Budget& budget) { return make_quick_plan(scenario, {.budget = budget}); }));
}

// Seconds by collective in the order of the scenario.
std::vector<double> simulate(Scenario scenario, const std::shared_ptr<Plan>& plan, Size<"seed"> seed,
                             std::optional<Time> timeout) {
  const PlanSimulation simulated = interruptible(timeout, [&](const Budget& budget) {
    return simulate_plan(scenario, *plan, {.seed = seed, .budget = budget});
  });
  std::vector<double> seconds;
  for (const SimulatedCompletion& completion : simulated.completions)
    seconds.push_back(to_seconds(completion.time));
  return seconds;
}

std::vector<FrontierPoint> frontier(Scenario scenario, WholeNumber<int, "points"> points,
                                    std::optional<Time> timeout) {
  return interruptible(timeout,
                       [&](const Budget& budget) { return cost_frontier(scenario, points, budget); });
}

// A planner whose callers wait for one another.
class SharedPlanner {
 public:
  std::shared_ptr<Plan> plan(Scenario scenario, bool streams, std::optional<Time> timeout) {
    PlanResult result = interruptible(timeout, [&](const Budget& budget) {
      const std::lock_guard lock(mutex_);
      return planner_.plan(scenario, {.streams = streams, .budget = budget});
    });
    return std::make_shared<Plan>(std::move(result.plan));
  }

 private:
  std::mutex mutex_;
  Planner planner_;
};

void bind_shot_trace(py::module_& module) {
  py::class_<ShotTrace>(module, "ShotTrace", "One linear program of a plan, as it was solved.")
      .def_property_readonly("objective",
                             [](const ShotTrace& self) {
                               return self.objective == ShotTrace::Objective::kMaxMin ? "max-min"
                                                                                      : "throughput";
                             })
      .def_readonly("optimum_bps", &ShotTrace::optimum_bps)
      .def_property_readonly("active", [](const ShotTrace& self) { return numbers_of(self.active); })
      .def_property_readonly("dropped", [](const ShotTrace& self) { return numbers_of(self.dropped); })
      .def_readonly("residual_capacity_bps", &ShotTrace::residual_capacity_bps)
      .def_readonly("residual_egress_bps", &ShotTrace::residual_egress_bps)
      .def_readonly("residual_ingress_bps", &ShotTrace::residual_ingress_bps);
}

}  // namespace

void bind_planner(py::module_& module) {
  bind_shot_trace(module);
  py::class_<PlanResultView>(module, "PlanResult")
      .def_readonly("plan", &PlanResultView::plan)
      .def_readonly("shots", &PlanResultView::shots);
  module.def("make_plan", &plan_once, py::arg("scenario"), py::arg("streams") = true,
             py::arg("timeout") = py::none(),
             "Plans a scenario: see square/planner.h. Without streams only lp rates and their certificate. "
             "Raises DeadlineExceededError after ``timeout``, seconds or a timedelta. Ctrl-C ends it.");
  module.def("make_quick_plan", &quick_plan, py::arg("scenario"),
             "A plan that fits, in milliseconds, with nothing proven: see square/planner.h.");
  module.def(
      "simulate_plan", &simulate, py::arg("scenario"), py::arg("plan"), py::arg("seed") = 1,
      py::arg("timeout") = py::none(),
      "Seconds that each collective takes by the plan, in virtual time: see square/plan_simulation.h.");
  py::class_<SharedPlanner>(
      module, "Planner",
      "Plans one scenario after another, each from where the plan before ended. What is other is found by "
      "comparison: nodes by name, collectives by id. Threads may share one; they wait for one another.")
      .def(py::init<>())
      .def("plan", &SharedPlanner::plan, py::arg("scenario"), py::arg("streams") = true,
           py::arg("timeout") = py::none(),
           "Plans the scenario as it is now; ``Plan.changes`` says what is other than in the plan before. "
           "After an error the planner goes on from the last plan that it made. Raises what ``square.plan`` "
           "raises; lets go of the interpreter lock while it computes.");
  py::class_<FrontierPoint>(module, "FrontierPoint",
                            "No plan that costs less than the bound gives every collective this much.")
      .def_readonly("level_bps", &FrontierPoint::level_bps)
      .def_readonly("cost_usd_per_hour", &FrontierPoint::cost_usd_per_hour)
      .def_readonly("cost_bound_usd_per_hour", &FrontierPoint::cost_bound_usd_per_hour);
  module.def("cost_frontier", &frontier, py::arg("scenario"), py::arg("points"),
             py::arg("timeout") = py::none(),
             "Plans with levels evenly spaced up to the largest, as cheap as can be: see square/planner.h.");
  module.def("policy_names", &policy_names);
}

}  // namespace square::python
