// Words of a scenario file that stand for one of a few values.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "topology/text.h"

namespace square {

// The value of `word`. Errors: INVALID_ARGUMENT that lists the known words.
template <typename Value, std::size_t kSize>
Result<Value> find_word(const std::array<std::pair<std::string_view, Value>, kSize>& words,
                        std::string_view what, std::string_view word) {
  std::string known;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
  }
  return invalid_argument(quoted(fmt::format("unknown {}", what), word) +
                          fmt::format(": write one of {}", known));
}

template <typename Value, std::size_t kSize>
std::string_view word_for(const std::array<std::pair<std::string_view, Value>, kSize>& words, Value value) {
  for (const auto& [name, candidate] : words) {
    if (candidate == value) return name;
  }
  SQUARE_CHECK(false, "a value without a word");
  return {};
}

}  // namespace square
