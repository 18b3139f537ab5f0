// The words of a GML file (Himsolt's Graph Modelling Language).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square {

enum class GmlTokenKind { kWord, kNumber, kString, kOpen, kClose, kEnd };

struct GmlToken {
  GmlTokenKind kind = GmlTokenKind::kEnd;
  // As written; of a string what stands between the quotes.
  std::string_view text;
  std::size_t line = 1;
};

// Cuts a text into tokens; comments run from '#' to the end of the line.
class GmlTokens {
 public:
  GmlTokens(std::string_view text, std::string_view source_name) : text_(text), source_name_(source_name) {}

  // Errors: INVALID_ARGUMENT with file and line for a character that begins nothing, a string without end.
  Result<GmlToken> next();

  [[nodiscard]] Status error(std::size_t line, std::string_view message) const;

 private:
  void skip_space();

  std::string_view text_;
  std::string_view source_name_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
};

// A string's text as UTF-8, its entities (&amp; &#233; &#xE9; &eacute;) decoded; unknown ones stay.
std::string decode_gml_string(std::string_view text);

}  // namespace square
