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
    const std::string_view dot = where_.empty() || key.empty() ? "" : ".";
    error_ = invalid_argument(fmt::format("plan: {}{}{} {}", where_, dot, key, what));
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
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) {
      fail(key, "is not a string");
      return {};
    }
    return value->get<std::string>();
  }

  [[nodiscard]] bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(key, "is not true or false");
    return value->is_boolean() && value->get<bool>();
  }

  [[nodiscard]] double number(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0.0;
    if (!value->is_number()) fail(key, "is not a number");
    return value->is_number() ? value->get<double>() : 0.0;
  }

  // A number, or null for infinite.
  [[nodiscard]] double open_number(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0.0;
    if (value->is_null()) return kUnlimited;
    if (!value->is_number()) fail(key, "is neither a number nor null");
    return value->is_number() ? value->get<double>() : 0.0;
  }
  [[nodiscard]] double rate(std::string_view key) const { return mbps_to_bps(open_number(key)); }

  [[nodiscard]] double number_or(std::string_view key, double missing) const {
    return has(key) ? number(key) : missing;
  }
  [[nodiscard]] double rate_or(std::string_view key, double missing) const {
    return has(key) ? rate(key) : missing;
  }
  [[nodiscard]] bool flag_or(std::string_view key, bool missing) const {
    return has(key) ? flag(key) : missing;
  }
  [[nodiscard]] std::optional<double> optional_number(std::string_view key) const {
    return find_optional(key) == nullptr ? std::nullopt : std::optional(number(key));
  }

  [[nodiscard]] std::uint64_t count(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) fail(key, "is not a whole number of at least 0");
    return value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
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

  [[nodiscard]] std::string place(std::string_view key, std::size_t i) const {
    return fmt::format("{}{}{}[{}]", where_, where_.empty() ? "" : ".", key, i);
  }

 private:
  const Json& object_;
  std::string where_;
  Status& error_;
};

}  // namespace square::planning
