#include "topology/toml_keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {
namespace {

constexpr std::size_t kMaxKeyParts = 64;

// Where the string that begins at `begin` ends: behind its closing quotes, or where TOML gives up.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool long_string = text.substr(begin).starts_with(three);
  std::size_t i = begin + (long_string ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (long_string ? text.substr(i).starts_with(three) : text[i] == quote) {
      return i + (long_string ? 3 : 1);
    } else if (!long_string && text[i] == '\n') {
      return i;
    }
  }
  return text.size();
}

}  // namespace

Status check_toml_keys(std::string_view text, std::string_view source_name) {
  std::size_t parts = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i);
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '.' && ++parts > kMaxKeyParts) {
      return invalid_argument(fmt::format("{}:{}: a key of more than {} parts", source_name,
                                          1 + std::ranges::count(text.substr(0, i), '\n'), kMaxKeyParts));
    }
    if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) parts = 1;
    ++i;
  }
  return {};
}

}  // namespace square
