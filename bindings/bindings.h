// What the files of this folder share. One file for each public class or family.
#pragma once

#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "square/status.h"
#include "square/units.h"

namespace square::python {

namespace py = pybind11;

// Raises the class of square.errors that stands for the code. Needs the GIL.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.is_ok()) raise(status);
}

template <typename T>
T check(Result<T> result) {
  if (!result.is_ok()) raise(result.status());
  return std::move(result).value();
}

// Runs `function` without the GIL and returns what it returns.
template <typename Function>
auto unlocked(Function&& function) {
  const py::gil_scoped_release release;
  return function();
}

// How long something may take: seconds, or a datetime.timedelta.
using Time = std::variant<double, std::chrono::duration<double>>;
inline double seconds_of(const Time& time) {
  const auto* const seconds = std::get_if<double>(&time);
  return seconds != nullptr ? *seconds : std::get<std::chrono::duration<double>>(time).count();
}

// None stands for no limit.
inline double limit_or_unlimited(std::optional<double> limit) { return limit.value_or(kUnlimited); }

void bind_topology(py::module_& module);
void bind_scenario(py::module_& module);
void bind_plan(py::module_& module);
void bind_limits(py::module_& module);
void bind_planner(py::module_& module);
void bind_controller(py::module_& module);
void bind_identity(py::module_& module);
void bind_net(py::module_& module);
void bind_node(py::module_& module);
void bind_outer_optimizer(py::module_& module);
void bind_parameter_server(py::module_& module);
void bind_communicator(py::module_& module);
void bind_coding(py::module_& module);
void bind_compression(py::module_& module);
void bind_gateway(py::module_& module);

}  // namespace square::python
