#include "element.h"

#include <array>
#include <bit>
#include <string_view>

namespace square::python {
namespace {

constexpr std::string_view kSigned = "bhilqn";
constexpr std::string_view kUnsigned = "BHILQN";

// By the logarithm of their size.
constexpr std::array kSignedTypes = {ElementType::kInt8, ElementType::kInt16, ElementType::kInt32,
                                     ElementType::kInt64};
constexpr std::array kUnsignedTypes = {ElementType::kUint8, ElementType::kUint16, ElementType::kUint32,
                                       ElementType::kUint64};

// One character says what an element is; one before it may say in which order its bytes are.
std::optional<ElementType> type_of(std::string_view format, py::ssize_t size) {
  constexpr char kOwnOrder = std::endian::native == std::endian::little ? '<' : '>';
  if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == kOwnOrder))
    format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  const char code = format[0];
  if (code == 'e' && size == 2) return ElementType::kFloat16;
  if (code == 'f' && size == 4) return ElementType::kFloat32;
  if (code == 'd' && size == 8) return ElementType::kFloat64;
  if (code == '?' && size == 1) return ElementType::kBool;
  if (size != 1 && size != 2 && size != 4 && size != 8) return std::nullopt;
  const auto place = static_cast<std::size_t>(std::countr_zero(static_cast<std::size_t>(size)));
  if (kSigned.find(code) != std::string_view::npos) return kSignedTypes[place];
  if (kUnsigned.find(code) != std::string_view::npos) return kUnsignedTypes[place];
  return std::nullopt;
}

}  // namespace

ElementType element_type(const py::buffer_info& view, const std::optional<std::string>& dtype) {
  if (!dtype) {
    if (const auto type = type_of(view.format, view.itemsize)) return *type;
    // With the names that there are.
    return check(parse_element_type(view.format));
  }
  const ElementType type = check(parse_element_type(*dtype));
  const auto size = static_cast<py::ssize_t>(element_bytes(type));
  if (view.itemsize != 1 && view.itemsize != size) {
    raise(invalid_argument("dtype " + *dtype + " has " + std::to_string(size) +
                           " bytes, the buffer's elements have " + std::to_string(view.itemsize)));
  }
  return type;
}

ElementType known_element_type(const py::buffer_info& view, const std::optional<std::string>& dtype) {
  if (dtype) return element_type(view, dtype);
  if (const auto type = type_of(view.format, view.itemsize)) return *type;
  const Result<ElementType> named = parse_element_type(view.format);
  return named.is_ok() ? *named : ElementType::kBytes;
}

Reduction reduction_of(const py::buffer_info& input, const std::string& op,
                       const std::optional<std::string>& dtype) {
  const Reduction reduction{element_type(input, dtype), check(parse_reduce_op(op))};
  check(check_reduction(reduction));
  return reduction;
}

}  // namespace square::python
