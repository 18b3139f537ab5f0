#include "square/planner.h"

#include "bindings.h"

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

}  // namespace

void bind_planner(py::module_& module) {
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
  py::class_<PlanResultView>(module, "PlanResult")
      .def_readonly("plan", &PlanResultView::plan)
      .def_readonly("shots", &PlanResultView::shots);
  module.def(
      "make_plan",
      [](const Scenario& scenario) {
        PlanResult result = check(unlocked([&] { return make_plan(scenario); }));
        return PlanResultView{std::make_shared<Plan>(std::move(result.plan)), std::move(result.shots)};
      },
      py::arg("scenario"), "Plans a scenario: see square/planner.h.");
  module.def("policy_names", &policy_names);
}

}  // namespace square::python
