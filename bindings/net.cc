#include "base/net/address.h"
#include "bindings.h"

namespace square::python {

void bind_net(py::module_& module) {
  module.def(
      "is_loopback", &net::is_loopback, py::arg("address"), py::call_guard<py::gil_scoped_release>(),
      "Whether only this machine reaches a host, or host:port: whatever the system finds under it is a "
      "loopback address. False for a name that it does not know.");
}

}  // namespace square::python
