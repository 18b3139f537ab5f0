// What a statement is given in place of its parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace square::store {

// A number or bytes. Bytes must outlive it.
struct SqlValue {
  SqlValue(std::int64_t given) : number(given) {}       // NOLINT(google-explicit-constructor)
  SqlValue(std::string_view given) : bytes(given) {}    // NOLINT(google-explicit-constructor)
  SqlValue(const std::string& given) : bytes(given) {}  // NOLINT(google-explicit-constructor)
  std::int64_t number = 0;
  std::optional<std::string_view> bytes;
};

}  // namespace square::store
