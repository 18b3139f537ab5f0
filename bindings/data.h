// What operations take for the memory of a call: buffers of Python, and tensors that speak DLPack.
#pragma once

#include "bindings.h"

namespace square::python {

inline bool is_data(PyObject* object) {
  return PyObject_CheckBuffer(object) != 0 || PyObject_HasAttrString(object, "__dlpack__") != 0;
}

// An object with either protocol.
class Data : public py::object {
 public:
  PYBIND11_OBJECT_DEFAULT(Data, py::object, is_data)
};

// A view of its memory with what its elements are, by `format` of the struct module or by square's
// names. It keeps the memory. The buffer protocol comes first, as it tells what is read-only.
//
// Raises InvalidArgumentError for memory of another device than the CPU, elements that are not whole
// bytes, and for a read-only object where `writable` is asked.
std::shared_ptr<py::buffer_info> view_of(const Data& data, bool writable);

}  // namespace square::python

template <>
struct pybind11::detail::handle_type_name<square::python::Data> {
  static constexpr auto name = const_name("square.data.Data");
};
