#include "topology/gml_tokens.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "topology/text.h"

namespace square {
namespace {

constexpr std::size_t kMaxEntityBytes = 12;
constexpr char32_t kFirstLatin1 = 160;
// The entities of ISO 8859-1 from 160 on, which GML takes from HTML.
constexpr std::array<std::string_view, 96> kLatin1 = {
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",    "copy",
    "ordf",   "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn", "sup2",   "sup3",
    "acute",  "micro",  "para",   "middot", "cedil",  "sup1",   "ordm",   "raquo",  "frac14", "frac12",
    "frac34", "iquest", "Agrave", "Aacute", "Acirc",  "Atilde", "Auml",   "Aring",  "AElig",  "Ccedil",
    "Egrave", "Eacute", "Ecirc",  "Euml",   "Igrave", "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde",
    "Ograve", "Oacute", "Ocirc",  "Otilde", "Ouml",   "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",
    "Uuml",   "Yacute", "THORN",  "szlig",  "agrave", "aacute", "acirc",  "atilde", "auml",   "aring",
    "aelig",  "ccedil", "egrave", "eacute", "ecirc",  "euml",   "igrave", "iacute", "icirc",  "iuml",
    "eth",    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide", "oslash", "ugrave",
    "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

// The character that an entity stands for, given what is between '&' and ';'.
std::optional<char32_t> entity_character(std::string_view name) {
  if (name == "amp") return U'&';
  if (name == "lt") return U'<';
  if (name == "gt") return U'>';
  if (name == "quot") return U'"';
  if (name == "apos") return U'\'';
  if (!name.starts_with('#')) {
    for (std::size_t i = 0; i < kLatin1.size(); ++i) {
      if (kLatin1[i] == name) return kFirstLatin1 + static_cast<char32_t>(i);
    }
    return std::nullopt;
  }
  name.remove_prefix(1);
  const bool hexadecimal = name.starts_with('x') || name.starts_with('X');
  if (hexadecimal) name.remove_prefix(1);
  std::uint32_t value = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, value, hexadecimal ? 16 : 10);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (error != std::errc{} || stop != end || value == 0 || value > 0x10FFFF || surrogate) return std::nullopt;
  return static_cast<char32_t>(value);
}

}  // namespace

Status GmlTokens::error(std::size_t line, std::string_view message) const {
  return invalid_argument(fmt::format("{}:{}: {}", source_name_, line, message));
}

void GmlTokens::skip_space() {
  bool comment = false;
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      comment = false;
    } else if (c == '#') {
      comment = true;
    } else if (!comment && !is_space(c)) {
      return;
    }
  }
}

Result<GmlToken> GmlTokens::next() {
  skip_space();
  GmlToken token;
  token.line = line_;
  if (position_ >= text_.size()) return token;
  const std::size_t begin = position_;
  const char first = text_[position_++];
  if (first == '[' || first == ']') {
    token.kind = first == '[' ? GmlTokenKind::kOpen : GmlTokenKind::kClose;
    token.text = text_.substr(begin, 1);
    return token;
  }
  if (first == '"') {
    const std::size_t end = text_.find('"', position_);
    if (end == std::string_view::npos) return error(line_, "a text in quotes does not end");
    token.kind = GmlTokenKind::kString;
    token.text = text_.substr(position_, end - position_);
    for (const char c : token.text) line_ += c == '\n' ? 1 : 0;
    position_ = end + 1;
    return token;
  }
  const bool number = is_digit(first) || first == '-' || first == '+' || first == '.';
  if (!number && !is_letter(first)) return error(line_, "a character that GML does not know here");
  while (position_ < text_.size() && !is_space(text_[position_]) && text_[position_] != '[' &&
         text_[position_] != ']' && text_[position_] != '"' && text_[position_] != '#') {
    ++position_;
  }
  token.kind = number ? GmlTokenKind::kNumber : GmlTokenKind::kWord;
  token.text = text_.substr(begin, position_ - begin);
  return token;
}

std::string decode_gml_string(std::string_view text) {
  // Old files are in ISO 8859-1, newer ones in UTF-8.
  std::string source = is_utf8(text) ? std::string(text) : latin1_to_utf8(text);
  std::string result;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::size_t end = source[i] == '&' ? source.find(';', i) : std::string::npos;
    if (end != std::string::npos && end - i <= kMaxEntityBytes) {
      if (const auto character = entity_character(std::string_view(source).substr(i + 1, end - i - 1))) {
        append_utf8(result, *character);
        i = end;
        continue;
      }
    }
    result += source[i];
  }
  return result;
}

}  // namespace square
