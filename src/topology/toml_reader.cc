#include "topology/toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "topology/text.h"
#include "topology/toml_keys.h"
#include "topology/tomlplusplus.h"

namespace square {

struct TomlTable::Document {
  std::string source_name;
  toml::table root;
};

namespace {

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

// A TomlTable::Node stands for a toml::node, so that the header of toml++ stays out of ours.
const toml::node& real(const void* node) { return *static_cast<const toml::node*>(node); }

}  // namespace

TomlTable::TomlTable(std::shared_ptr<const Document> document, const Node* table, std::string path)
    : document_(std::move(document)), table_(table), path_(std::move(path)) {}

Result<TomlTable> TomlTable::parse(std::string_view text, std::string_view source_name) {
  if (text.size() > kMaxTomlBytes) {
    return resource_exhausted(
        fmt::format("{}: larger than {} bytes: put the links into a .csv file", source_name, kMaxTomlBytes));
  }
  SQUARE_ASSIGN_OR_RETURN(text, plain_text(text, source_name));
  SQUARE_RETURN_IF_ERROR(check_toml_keys(text, source_name));
  auto document = std::make_shared<Document>();
  document->source_name = std::string(source_name);
  try {
    document->root = toml::parse(text, source_name);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    return invalid_argument(
        fmt::format("{}:{}:{}: {}", source_name, begin.line, begin.column, error.description()));
  }
  const toml::node& root = document->root;
  return TomlTable(document, reinterpret_cast<const Node*>(&root), "");
}

const TomlTable::Node* TomlTable::find(std::string_view key) const {
  return reinterpret_cast<const Node*>(real(table_).as_table()->get(key));
}

std::string TomlTable::place(std::string_view key) const {
  const Node* const node = key.empty() ? nullptr : find(key);
  // The root table has no place of its own in the text.
  const auto line =
      std::max<toml::source_index>(1, real(node != nullptr ? node : table_).source().begin.line);
  const std::string_view dot = path_.empty() || key.empty() ? "" : ".";
  const std::string_view colon = path_.empty() && key.empty() ? "" : ": ";
  return fmt::format("{}:{}{}{}{}{}", document_->source_name, line, colon, path_, dot, key);
}

Status TomlTable::error(std::string_view key, std::string_view message) const {
  return invalid_argument(fmt::format("{}: {}", place(key), message));
}

Status TomlTable::at(std::string_view key, const Status& status) const {
  return status.with_context(place(key));
}

Status TomlTable::wrong_type(std::string_view key, std::string_view wanted) const {
  return error(key, fmt::format("must be {}, not {}", wanted, type_name(real(find(key)))));
}

Status TomlTable::allow_only(std::span<const std::string_view> known) const {
  for (const auto& [key, value] : *real(table_).as_table()) {
    if (std::ranges::find(known, key.str()) != known.end()) continue;
    const auto line = key.source().begin.line;
    const std::string_view dot = path_.empty() ? "" : ".";
    return invalid_argument(fmt::format("{}:{}: {}{}{}: unknown key; the nearest known one is \"{}\"",
                                        document_->source_name, line, path_, dot, excerpt(key.str()),
                                        nearest(key.str(), known)));
  }
  return {};
}

bool TomlTable::has(std::string_view key) const { return find(key) != nullptr; }

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : *real(table_).as_table()) names.emplace_back(key.str());
  return names;
}

bool TomlTable::is_table(std::string_view key) const { return has(key) && real(find(key)).is_table(); }
bool TomlTable::is_text(std::string_view key) const { return has(key) && real(find(key)).is_string(); }

Result<std::optional<std::string>> TomlTable::text(std::string_view key) const {
  if (!has(key)) return std::optional<std::string>();
  const auto value = real(find(key)).value_exact<std::string>();
  if (!value) return wrong_type(key, "a text");
  return value;
}

Result<std::optional<double>> TomlTable::number(std::string_view key) const {
  if (!has(key)) return std::optional<double>();
  const toml::node& node = real(find(key));
  if (!node.is_number()) return wrong_type(key, "a number");
  return node.value<double>();
}

Result<std::optional<std::int64_t>> TomlTable::integer(std::string_view key) const {
  if (!has(key)) return std::optional<std::int64_t>();
  const auto value = real(find(key)).value_exact<std::int64_t>();
  if (!value) return wrong_type(key, "a whole number");
  return value;
}

Result<std::optional<bool>> TomlTable::boolean(std::string_view key) const {
  if (!has(key)) return std::optional<bool>();
  const auto value = real(find(key)).value_exact<bool>();
  if (!value) return wrong_type(key, "true or false");
  return value;
}

Result<std::optional<std::vector<std::string>>> TomlTable::texts(std::string_view key) const {
  if (!has(key)) return std::optional<std::vector<std::string>>();
  const toml::array* const list = real(find(key)).as_array();
  if (list == nullptr) return wrong_type(key, "a list of texts");
  std::vector<std::string> values;
  for (const toml::node& node : *list) {
    const auto value = node.value_exact<std::string>();
    if (!value) return error(key, fmt::format("must be a list of texts, but holds {}", type_name(node)));
    values.push_back(*value);
  }
  return std::optional(std::move(values));
}

Result<std::optional<std::vector<std::vector<std::string>>>> TomlTable::text_lists(
    std::string_view key) const {
  if (!has(key)) return std::optional<std::vector<std::vector<std::string>>>();
  const toml::array* const lists = real(find(key)).as_array();
  if (lists == nullptr) return wrong_type(key, "a list of lists of texts");
  std::vector<std::vector<std::string>> values;
  for (const toml::node& list : *lists) {
    if (!list.is_array()) {
      return error(key, fmt::format("must be a list of lists of texts, but holds {}", type_name(list)));
    }
    std::vector<std::string>& texts = values.emplace_back();
    for (const toml::node& node : *list.as_array()) {
      const auto value = node.value_exact<std::string>();
      if (!value) {
        return error(key, fmt::format("must be a list of lists of texts, but one holds {}", type_name(node)));
      }
      texts.push_back(*value);
    }
  }
  return std::optional(std::move(values));
}

Result<std::optional<TomlTable>> TomlTable::table(std::string_view key) const {
  if (!has(key)) return std::optional<TomlTable>();
  if (!is_table(key)) return wrong_type(key, "a table");
  std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  return std::optional(TomlTable(document_, find(key), std::move(path)));
}

Result<std::vector<TomlTable>> TomlTable::tables(std::string_view key) const {
  std::vector<TomlTable> result;
  if (!has(key)) return result;
  const toml::array* const list = real(find(key)).as_array();
  if (list == nullptr) return wrong_type(key, fmt::format("a list of tables: write [[{}]]", key));
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  for (const toml::node& node : *list) {
    if (!node.is_table())
      return error(key, fmt::format("must be a list of tables, but holds {}", type_name(node)));
    result.push_back(TomlTable(document_, reinterpret_cast<const Node*>(&node), path));
  }
  return result;
}

Result<std::string> TomlTable::required_text(std::string_view key) const {
  SQUARE_ASSIGN_OR_RETURN(auto value, text(key));
  if (!value) return error(key, "is missing");
  if (value->empty()) return error(key, "must not be empty");
  return *std::move(value);
}

Result<std::optional<double>> TomlTable::positive(std::string_view key) const {
  SQUARE_ASSIGN_OR_RETURN(const auto value, number(key));
  if (value && !(std::isfinite(*value) && *value > 0)) {
    return error(key, fmt::format("must be above 0 and finite, not {}", *value));
  }
  return value;
}

Result<std::optional<double>> TomlTable::not_negative(std::string_view key) const {
  SQUARE_ASSIGN_OR_RETURN(const auto value, number(key));
  if (value && !(std::isfinite(*value) && *value >= 0)) {
    return error(key, fmt::format("must be 0 or above and finite, not {}", *value));
  }
  return value;
}

}  // namespace square
