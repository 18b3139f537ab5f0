#include "base/net/percent.h"

#include <fmt/format.h>

namespace square::net {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

// Enough of a stranger's text for a message.
constexpr std::size_t kMaxQuotedBytes = 100;

}  // namespace

std::string percent_encode(std::string_view text, bool (*is_kept)(char)) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c != '%' && is_kept(c)) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kHexDigits[byte >> 4U];
      encoded += kHexDigits[byte & 0xfU];
    }
  }
  return encoded;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::size_t high = i + 1 < text.size() ? kHexDigits.find(text[i + 1]) : std::string_view::npos;
    const std::size_t low = i + 2 < text.size() ? kHexDigits.find(text[i + 2]) : std::string_view::npos;
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return invalid_argument(fmt::format("\"{}\" is not percent-encoded", text.substr(0, kMaxQuotedBytes)));
    }
    decoded += static_cast<char>(high << 4U | low);
    i += 2;
  }
  return decoded;
}

}  // namespace square::net
