// Typed access to a TOML table, with errors that name file, line and key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "square/status.h"

namespace square {

// A longer text is refused before it is read: its tables take many times its size.
inline constexpr std::size_t kMaxTomlBytes = std::size_t{1} << 27U;

// One table of a TOML text. A view that keeps the whole text alive; cheap to copy.
// Getters return nothing for a missing key and INVALID_ARGUMENT for another type.
class TomlTable {
 public:
  // Errors: INVALID_ARGUMENT with file, line and column for text that is not TOML;
  // RESOURCE_EXHAUSTED past kMaxTomlBytes.
  static Result<TomlTable> parse(std::string_view text, std::string_view source_name);

  // INVALID_ARGUMENT for a key that is not in `known`, with the nearest one that is.
  [[nodiscard]] Status allow_only(std::span<const std::string_view> known) const;
  [[nodiscard]] Status allow_only(std::initializer_list<std::string_view> known) const {
    return allow_only(std::span(known.begin(), known.size()));
  }
  [[nodiscard]] bool has(std::string_view key) const;
  // Every key of the table, by the alphabet: for tables whose keys are names.
  [[nodiscard]] std::vector<std::string> keys() const;

  [[nodiscard]] Result<std::optional<std::string>> text(std::string_view key) const;
  [[nodiscard]] Result<std::optional<double>> number(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::vector<std::string>>> texts(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::vector<std::vector<std::string>>>> text_lists(
      std::string_view key) const;
  [[nodiscard]] Result<std::optional<TomlTable>> table(std::string_view key) const;
  // The [[key]] tables in order; none if there are none.
  [[nodiscard]] Result<std::vector<TomlTable>> tables(std::string_view key) const;
  [[nodiscard]] bool is_table(std::string_view key) const;
  [[nodiscard]] bool is_text(std::string_view key) const;

  // The same for keys that must be there and hold something.
  [[nodiscard]] Result<std::string> required_text(std::string_view key) const;
  // A number above 0 and finite.
  [[nodiscard]] Result<std::optional<double>> positive(std::string_view key) const;
  // A number that is 0 or above and finite.
  [[nodiscard]] Result<std::optional<double>> not_negative(std::string_view key) const;

  // INVALID_ARGUMENT with "file:line: key: message"; the line of the table where `key` is missing or empty.
  [[nodiscard]] Status error(std::string_view key, std::string_view message) const;
  // `status` with the place in front; OK stays OK.
  [[nodiscard]] Status at(std::string_view key, const Status& status) const;

 private:
  struct Document;
  struct Node;  // a toml::node, named here only
  TomlTable(std::shared_ptr<const Document> document, const Node* table, std::string path);
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] std::string place(std::string_view key) const;
  [[nodiscard]] Status wrong_type(std::string_view key, std::string_view wanted) const;

  std::shared_ptr<const Document> document_;
  const Node* table_;
  std::string path_;  // of the table, for example "overlay.link"
};

}  // namespace square
