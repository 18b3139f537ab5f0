#include "square/reduction.h"

#include <fmt/format.h>

#include <array>

namespace square {
namespace {

struct Element {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array kElements = {
    Element{ElementType::kBytes, "bytes", 1},     Element{ElementType::kFloat32, "float32", 4},
    Element{ElementType::kFloat64, "float64", 8}, Element{ElementType::kInt32, "int32", 4},
    Element{ElementType::kInt64, "int64", 8},
};

const Element* find(ElementType type) {
  for (const Element& element : kElements) {
    if (element.type == type) return &element;
  }
  return nullptr;
}

}  // namespace

bool can_add(const Reduction& reduction) {
  return reduction.op == ReduceOp::kSum && reduction.type != ElementType::kBytes &&
         find(reduction.type) != nullptr;
}

std::size_t element_bytes(ElementType type) {
  const Element* element = find(type);
  return element == nullptr ? 1 : element->bytes;
}

std::string_view to_string(ElementType type) {
  const Element* element = find(type);
  return element == nullptr ? "unknown" : element->name;
}

Result<ElementType> parse_element_type(std::string_view name) {
  std::string names;
  for (const Element& element : kElements) {
    if (element.type == ElementType::kBytes) continue;
    if (element.name == name) return element.type;
    names += names.empty() ? "" : ", ";
    names += element.name;
  }
  return invalid_argument(fmt::format("elements of type \"{}\" cannot be added: use {}", name, names));
}

}  // namespace square
