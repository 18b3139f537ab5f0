// A plan's structs as messages for nodes, by the lists of base/plan/fields.h. A message that lacks a field of
// its list does not compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "base/plan/field_visits.h"

namespace square::controller {

template <typename Part, typename Record>
inline constexpr bool kMayLack = std::invocable<decltype(Part::has), const Record&>;

// How protobuf says a value.
template <typename T>
auto wire_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::uint32_t>(value);
  } else {
    return value;
  }
}
inline std::int64_t wire_value(Duration value) { return value.count(); }
template <typename Tag, typename Number>
Number wire_value(Id<Tag, Number> value) {
  return value.value();
}

// Writes what a node is sent of a struct.
class PartWriter {
 public:
  template <plan_fields::Listed Struct, typename Record>
  static void write(const Struct& value, Record& record) {
    plan_fields::for_each<Struct>(
        [&](const auto& field) { write_field(value.*field.member, field.part, record); });
  }

 private:
  template <typename T, typename Record>
  static void write_field(const T&, plan_fields::Nowhere, Record&) {}
  template <typename T, typename Record>
  static void write_field(const T& value, plan_fields::Inline, Record& record) {
    write(value, record);
  }
  template <typename T, typename Record>
  static void write_field(const std::optional<T>& value, plan_fields::Inline, Record& record) {
    if (value) write(*value, record);
  }
  template <typename A, typename B, typename First, typename Second, typename Record>
  static void write_field(const std::vector<std::pair<A, B>>& values,
                          const plan_fields::PartPair<First, Second>& part, Record& record) {
    for (const auto& [first, second] : values) {
      part.first.mutable_of(record)->Add(wire_value(first));
      part.second.mutable_of(record)->Add(wire_value(second));
    }
  }
  template <typename T, typename... Call, typename Record>
  static void write_field(const T& value, const plan_fields::PartName<Call...>& part, Record& record) {
    put(value, part, record);
  }

  template <typename T, typename Part, typename Record>
  static void put(const std::optional<T>& value, const Part& part, Record& record) {
    if (value) put(*value, part, record);
  }
  template <typename T, typename Part, typename Record>
  static void put(const std::vector<T>& values, const Part& part, Record& record) {
    add_all(values, *part.mutable_of(record));
  }
  template <typename T, typename Part, typename Record>
  static void put(const T& value, const Part& part, Record& record) {
    if constexpr (plan_fields::Listed<T>) {
      write(value, *part.mutable_of(record));
    } else if constexpr (std::is_same_v<T, std::uint64_t> && kMayLack<Part, Record>) {
      if (value != Quota::kNone) part.set(record, value);
    } else {
      part.set(record, wire_value(value));
    }
  }

  // Pairs and rows follow one another in one repeated field.
  template <typename T, typename Repeated>
  static void add_all(const std::vector<T>& values, Repeated& out) {
    for (const T& value : values) {
      if constexpr (plan_fields::Listed<T>) {
        write(value, *out.Add());
      } else {
        add(value, out);
      }
    }
  }
  template <typename T, typename Repeated>
  static void add(const T& value, Repeated& out) {
    out.Add(wire_value(value));
  }
  template <typename T, typename Repeated>
  static void add(const std::vector<T>& row, Repeated& out) {
    out.Add(row.begin(), row.end());
  }
  template <typename Repeated>
  static void add(const std::pair<NodeId, NodeId>& ends, Repeated& out) {
    out.Add(ends.first.value());
    out.Add(ends.second.value());
  }
};

}  // namespace square::controller
