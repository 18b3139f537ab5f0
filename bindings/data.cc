#include "data.h"

#include <cstring>
#include <string>
#include <vector>

#include "dlpack.h"

namespace square::python {
namespace {

namespace dl = dlpack;

// A tensor that its owner keeps until this is gone.
struct Held {
  dl::Tensor tensor{};
  bool is_read_only = false;
  std::shared_ptr<void> owner;
};

template <typename Owner>
std::shared_ptr<void> keep(Owner* owner) {
  return {owner, [](Owner* gone) {
            if (gone->deleter != nullptr) gone->deleter(gone);
          }};
}

Held take(py::capsule capsule) {
  const char* const name = capsule.name();
  if (name != nullptr && std::strcmp(name, "dltensor_versioned") == 0) {
    auto* const managed = capsule.get_pointer<dl::VersionedManaged>();
    if (managed->version.major != dl::kMajorVersion) {
      raise(invalid_argument("the tensor comes with version " + std::to_string(managed->version.major) +
                             " of DLPack; this release knows 0 and 1"));
    }
    capsule.set_name("used_dltensor_versioned");
    return {managed->tensor, (managed->flags & dl::kReadOnly) != 0, keep(managed)};
  }
  if (name != nullptr && std::strcmp(name, "dltensor") == 0) {
    auto* const managed = capsule.get_pointer<dl::Managed>();
    capsule.set_name("used_dltensor");
    return {managed->tensor, false, keep(managed)};
  }
  raise(invalid_argument("__dlpack__() returned no capsule of a tensor"));
}

// Asks for version 1, which knows read-only tensors, then as one asked before there was a version.
py::object export_of(const Data& data) {
  const py::object call = data.attr("__dlpack__");
  try {
    return call(py::arg("max_version") = py::make_tuple(1, 0));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return call();
}

void check_device(const Data& data) {
  const auto [type, id] = data.attr("__dlpack_device__")().cast<std::pair<std::int32_t, std::int32_t>>();
  if (type == dl::kCpu || type == dl::kCudaHost || type == dl::kRocmHost) return;
  raise(invalid_argument("the tensor is on DLPack's device " + std::to_string(type) + ":" +
                         std::to_string(id) +
                         ", not on the CPU: copy it there first, or use torch.distributed with the "
                         "backend square, which does"));
}

// As element_type() reads it.
std::string format_of(const dl::DataType& type) {
  const std::string bits = std::to_string(type.bits);
  switch (type.code) {
    case dl::TypeCode::kInt: return "int" + bits;
    case dl::TypeCode::kUint: return "uint" + bits;
    case dl::TypeCode::kFloat: return "float" + bits;
    case dl::TypeCode::kBfloat: return "bfloat" + bits;
    case dl::TypeCode::kComplex: return "complex" + bits;
    case dl::TypeCode::kBool: return "bool";
  }
  return "DLPack's type " + std::to_string(static_cast<int>(type.code)) + " of " + bits + " bits";
}

py::ssize_t element_bytes_of(const dl::DataType& type) {
  const int bits = type.bits * type.lanes;
  if (bits == 0 || bits % 8 != 0) {
    raise(invalid_argument("elements of " + std::to_string(bits) + " bits are not whole bytes"));
  }
  return bits / 8;
}

std::shared_ptr<py::buffer_info> view_of_tensor(const Data& data, bool writable) {
  struct Tensor {
    Held held;
    py::buffer_info view;
  };
  auto tensor = std::make_shared<Tensor>();
  tensor->held = take(py::reinterpret_borrow<py::object>(export_of(data)).cast<py::capsule>());
  if (writable && tensor->held.is_read_only) {
    raise(invalid_argument("the buffer of a result must be writable: the tensor is read-only"));
  }
  const dl::Tensor& from = tensor->held.tensor;
  const py::ssize_t item = element_bytes_of(from.type);
  const auto dimensions = static_cast<std::size_t>(from.dimensions);
  std::vector<py::ssize_t> shape(from.shape, from.shape + dimensions);
  std::vector<py::ssize_t> strides(dimensions);
  py::ssize_t contiguous = item;
  for (std::size_t i = dimensions; i-- > 0; contiguous *= shape[i]) {
    strides[i] = from.strides == nullptr ? contiguous : from.strides[i] * item;
  }
  auto* const begin = static_cast<std::byte*>(from.data);
  tensor->view =
      py::buffer_info(begin == nullptr ? nullptr : begin + from.byte_offset, item, format_of(from.type),
                      from.dimensions, std::move(shape), std::move(strides), tensor->held.is_read_only);
  return {tensor, &tensor->view};
}

}  // namespace

std::shared_ptr<py::buffer_info> view_of(const Data& data, bool writable) {
  try {
    if (PyObject_CheckBuffer(data.ptr()) != 0) {
      return std::make_shared<py::buffer_info>(py::reinterpret_borrow<py::buffer>(data).request(writable));
    }
    check_device(data);
    return view_of_tensor(data, writable);
  } catch (py::error_already_set& error) {
    // Our own have said it already.
    if (error.matches(py::module_::import("square.errors").attr("SquareError"))) throw;
    raise(invalid_argument(
        std::string(writable ? "the buffer of a result must be writable: " : "the buffer cannot be read: ") +
        py::cast<std::string>(py::str(error.value()))));
  }
}

}  // namespace square::python
