#include "bindings.h"

namespace square::python {

void raise(const Status& status) {
  const py::object by_code = py::module_::import("square.errors").attr("BY_CODE");
  const py::object type = by_code[py::int_(static_cast<int>(status.code()))];
  PyErr_SetString(type.ptr(), status.message().c_str());
  throw py::error_already_set();
}

}  // namespace square::python
