#include "square/reduction.h"

#include <fmt/format.h>

#include <array>

namespace square {
namespace {

enum class Kind : std::uint8_t { kBytes, kFloat, kInteger };

struct Element {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
  Kind kind;
};

struct Operation {
  ReduceOp op;
  std::string_view name;
};

constexpr std::array kElements = {
    Element{ElementType::kBytes, "bytes", 1, Kind::kBytes},
    Element{ElementType::kFloat16, "float16", 2, Kind::kFloat},
    Element{ElementType::kBfloat16, "bfloat16", 2, Kind::kFloat},
    Element{ElementType::kFloat32, "float32", 4, Kind::kFloat},
    Element{ElementType::kFloat64, "float64", 8, Kind::kFloat},
    Element{ElementType::kInt8, "int8", 1, Kind::kInteger},
    Element{ElementType::kUint8, "uint8", 1, Kind::kInteger},
    Element{ElementType::kInt16, "int16", 2, Kind::kInteger},
    Element{ElementType::kUint16, "uint16", 2, Kind::kInteger},
    Element{ElementType::kInt32, "int32", 4, Kind::kInteger},
    Element{ElementType::kUint32, "uint32", 4, Kind::kInteger},
    Element{ElementType::kInt64, "int64", 8, Kind::kInteger},
    Element{ElementType::kUint64, "uint64", 8, Kind::kInteger},
    Element{ElementType::kBool, "bool", 1, Kind::kInteger},
};

constexpr std::array kOperations = {
    Operation{ReduceOp::kNone, "none"},       Operation{ReduceOp::kSum, "sum"},
    Operation{ReduceOp::kProduct, "product"}, Operation{ReduceOp::kMin, "min"},
    Operation{ReduceOp::kMax, "max"},         Operation{ReduceOp::kAverage, "average"},
    Operation{ReduceOp::kBitwiseAnd, "and"},  Operation{ReduceOp::kBitwiseOr, "or"},
    Operation{ReduceOp::kBitwiseXor, "xor"},
};

const Element* find(ElementType type) {
  for (const Element& element : kElements) {
    if (element.type == type) return &element;
  }
  return nullptr;
}

const Operation* find(ReduceOp op) {
  for (const Operation& operation : kOperations) {
    if (operation.op == op) return &operation;
  }
  return nullptr;
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBitwiseAnd || op == ReduceOp::kBitwiseOr || op == ReduceOp::kBitwiseXor;
}

// Of all but the first entry, which stands for none.
template <typename Table>
std::string names_of(const Table& table) {
  std::string names;
  for (std::size_t i = 1; i < table.size(); ++i) {
    if (i > 1) names += ", ";
    names += table[i].name;
  }
  return names;
}

}  // namespace

Status check_reduction(const Reduction& reduction) {
  const Element* element = find(reduction.type);
  if (element == nullptr || find(reduction.op) == nullptr) {
    return invalid_argument(fmt::format("element type {} with operation {} is unknown here",
                                        static_cast<int>(reduction.type), static_cast<int>(reduction.op)));
  }
  if (reduction.op == ReduceOp::kNone) {
    return invalid_argument(fmt::format("an operation is missing: use {}", names_of(kOperations)));
  }
  if (element->kind == Kind::kBytes) {
    return invalid_argument(fmt::format("{}: bytes cannot be added: name the type of the elements, one of {}",
                                        to_string(reduction), names_of(kElements)));
  }
  if (reduction.op == ReduceOp::kAverage && element->kind != Kind::kFloat) {
    return invalid_argument(fmt::format(
        "{}: only floating point elements have an average; use \"sum\", and divide", to_string(reduction)));
  }
  if (is_bitwise(reduction.op) && element->kind != Kind::kInteger) {
    return invalid_argument(
        fmt::format("{}: bitwise operations are for integers and bool", to_string(reduction)));
  }
  return Status::ok();
}

std::size_t element_bytes(ElementType type) {
  const Element* element = find(type);
  return element == nullptr ? 1 : element->bytes;
}

std::string_view to_string(ElementType type) {
  const Element* element = find(type);
  return element == nullptr ? "unknown" : element->name;
}

std::string_view to_string(ReduceOp op) {
  const Operation* operation = find(op);
  return operation == nullptr ? "unknown" : operation->name;
}

std::string to_string(const Reduction& reduction) {
  return fmt::format("{} of {}", to_string(reduction.op), to_string(reduction.type));
}

Result<ElementType> parse_element_type(std::string_view name) {
  for (const Element& element : kElements) {
    if (element.kind != Kind::kBytes && element.name == name) return element.type;
  }
  return invalid_argument(
      fmt::format("elements of type \"{}\" cannot be added: use {}", name, names_of(kElements)));
}

Result<ReduceOp> parse_reduce_op(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (operation.op != ReduceOp::kNone && operation.name == name) return operation.op;
  }
  return invalid_argument(fmt::format("there is no operation \"{}\": use {}", name, names_of(kOperations)));
}

}  // namespace square
