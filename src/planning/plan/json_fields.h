// Reading JSON objects key by key, and saying where something is wrong.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "square/status.h"
#include "square/units.h"

namespace square::planning {

using Json = nlohmann::json;

// One JSON object and where it is. The first thing that is wrong is kept in `error`, and
// everything read after it is a default.
class Fields {
 public:
  Fields(const Json& object, std::string where, Status& error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (!object_.is_object()) fail("", "is not an object");
  }

  void fail(std::string_view key, std::string_view what) const {
    if (!error_.is_ok()) return;
    error_ = invalid_argument(fmt::format("plan: {} {}", key.empty() ? where_ : place(key), what));
  }

  // Whether the key is there: older releases do not write all.
  [[nodiscard]] bool has(std::string_view key) const { return object_.is_object() && object_.contains(key); }

  // Null where the key is missing, or null itself.
  [[nodiscard]] const Json* find_optional(std::string_view key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[nodiscard]] const Json* find(std::string_view key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) {
      fail(key, "is missing");
      return nullptr;
    }
    return &*found;
  }

  [[nodiscard]] std::string text(std::string_view key) const {
    return value_of<std::string>(find(key), key, &Json::is_string, "is not a string");
  }
  [[nodiscard]] bool flag(std::string_view key) const {
    return value_of<bool>(find(key), key, &Json::is_boolean, "is not true or false");
  }
  [[nodiscard]] double number(std::string_view key) const {
    return value_of<double>(find(key), key, &Json::is_number, "is not a number");
  }
  // A number, or null for infinite.
  [[nodiscard]] double open_number(std::string_view key) const {
    const Json* value = find(key);
    if (value != nullptr && value->is_null()) return kUnlimited;
    return value_of<double>(value, key, &Json::is_number, "is neither a number nor null");
  }
  [[nodiscard]] std::uint64_t count(std::string_view key) const {
    return value_of<std::uint64_t>(find(key), key, &Json::is_number_unsigned,
                                   "is not a whole number of at least 0");
  }

  // Every entry of the array, with its place.
  template <typename Use>
  void each(std::string_view key, Use use) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) {
      fail(key, "is not an array");
      return;
    }
    for (std::size_t i = 0; i < value->size() && error_.is_ok(); ++i) use((*value)[i], place(key, i));
  }

  [[nodiscard]] std::string place(std::string_view key) const {
    return fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", key);
  }
  [[nodiscard]] std::string place(std::string_view key, std::size_t i) const {
    return fmt::format("{}{}{}[{}]", where_, where_.empty() ? "" : ".", key, i);
  }

 private:
  template <typename T>
  T value_of(const Json* value, std::string_view key, bool (Json::*is_one)() const noexcept,
             std::string_view otherwise) const {
    if (value == nullptr) return {};
    if ((value->*is_one)()) return value->get<T>();
    fail(key, otherwise);
    return {};
  }

  const Json& object_;
  std::string where_;
  Status& error_;
};

}  // namespace square::planning
