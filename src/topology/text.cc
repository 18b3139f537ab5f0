#include "topology/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <vector>

namespace square {
namespace {

constexpr std::size_t kMaxQuotedBytes = 80;
constexpr std::size_t kMaxComparedBytes = 64;  // nobody mistypes a longer word
constexpr std::size_t kReadBytes = std::size_t{1} << 16U;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool continues(std::string_view text, std::size_t index) {
  return index < text.size() && (static_cast<unsigned char>(text[index]) & 0xC0U) == 0x80U;
}

// The bytes of the character that begins at `index`, or 0 if none does (RFC 3629).
std::size_t character_bytes(std::string_view text, std::size_t index) {
  const auto lead = static_cast<unsigned char>(text[index]);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, index + i)) return 0;
  }
  if (length < 3) return length;
  const auto second = static_cast<unsigned char>(text[index + 1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::string quoted(std::string_view what, std::string_view name) {
  return fmt::format("{} \"{}\"", what, excerpt(name));
}

std::string excerpt(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_bytes(text, i);
    if (i + length > kMaxQuotedBytes) return result + "...";
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      result += '?';
    } else {
      result += text.substr(i, length);
    }
    i += std::max<std::size_t>(1, length);
  }
  return result;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_bytes(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

void append_utf8(std::string& text, char32_t character) {
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | ((character >> shift) & 0x3FU));
  };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xC0U | (character >> 6U));
    tail(0);
  } else if (character < 0x10000) {
    text += static_cast<char>(0xE0U | (character >> 12U));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | (character >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string latin1_to_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) append_utf8(result, static_cast<unsigned char>(c));
  return result;
}

std::optional<double> parse_number(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMaxComparedBytes);
  b = b.substr(0, kMaxComparedBytes);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  if (known.empty()) return {};
  // "deadline" for "deadline_seconds" is nearer than any change of letters.
  const auto longer = std::ranges::find_if(known, [&](std::string_view k) {
    return !word.empty() && k.size() > word.size() && k.starts_with(word) && k[word.size()] == '_';
  });
  if (longer != known.end()) return *longer;
  return *std::ranges::min_element(known, {}, [&](std::string_view k) { return edit_distance(word, k); });
}

Result<std::string_view> plain_text(std::string_view text, std::string_view source_name) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return invalid_argument(fmt::format("{}:1: the text is UTF-16: save it as UTF-8", source_name));
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return invalid_argument(fmt::format("{}:{}: a zero byte: this is not a text file", source_name,
                                        1 + std::ranges::count(text.substr(0, zero), '\n')));
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

Result<std::string> read_text_file(const std::filesystem::path& file, std::size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return not_found(fmt::format("{}: there is no such file", file.string()));
  }
  if (error) return invalid_argument(fmt::format("{}: cannot be read: {}", file.string(), error.message()));
  if (std::filesystem::is_directory(status)) {
    return invalid_argument(fmt::format("{}: is a folder, not a file", file.string()));
  }
  const auto too_large = [&] {
    return resource_exhausted(fmt::format("{}: larger than {} bytes", file.string(), max_bytes));
  };
  std::string text;
  // Pipes have no size that is known before; what grows while it is read is found below.
  if (const auto size = std::filesystem::file_size(file, error); !error) {
    if (size > max_bytes) return too_large();
    text.reserve(size + kReadBytes);
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return invalid_argument(fmt::format("{}: cannot be opened: check its permissions", file.string()));
  std::vector<char> chunk(kReadBytes);
  while (stream) {
    stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    const auto count = static_cast<std::size_t>(stream.gcount());
    if (text.size() + count > max_bytes) return too_large();
    text.append(chunk.data(), count);
  }
  if (stream.bad()) return invalid_argument(fmt::format("{}: reading failed midway", file.string()));
  return text;
}

}  // namespace square
