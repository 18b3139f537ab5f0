#include "square/compression.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace square {
namespace {

constexpr std::string_view kTexts =
    "use none, bf16, int8, int8:BLOCK or top-k:FRACTION; behind that :feedback or :no-feedback";
constexpr std::string_view kFeedback = "feedback";
constexpr std::string_view kNoFeedback = "no-feedback";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t colon = text.find(':');
    words.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return words;
    text.remove_prefix(colon + 1);
  }
}

template <typename Number>
bool read(std::string_view word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

std::string feedback_word(const Compression& compression, bool usual) {
  if (compression.error_feedback == usual) return "";
  return fmt::format(":{}", compression.error_feedback ? kFeedback : kNoFeedback);
}

}  // namespace

Status check_compression(const Compression& compression) {
  switch (compression.kind) {
    case CompressionKind::kNone:
    case CompressionKind::kBfloat16:
      if (!compression.error_feedback) return Status::ok();
      return invalid_argument(fmt::format("{} has no error feedback: use int8 or top-k",
                                          compression.kind == CompressionKind::kNone ? "none" : "bf16"));
    case CompressionKind::kInt8:
      if (compression.block >= Compression::kLeastBlock && compression.block <= Compression::kLargestBlock)
        return Status::ok();
      return invalid_argument(fmt::format("int8 with blocks of {} elements: use {} to {}", compression.block,
                                          Compression::kLeastBlock, Compression::kLargestBlock));
    case CompressionKind::kTopK:
      if (compression.fraction > 0 && compression.fraction <= 1) return Status::ok();
      return invalid_argument(
          fmt::format("top-k of a fraction of {}: use one above 0, at most 1", compression.fraction));
  }
  return invalid_argument(
      fmt::format("there is no kind of compression {}", static_cast<unsigned>(compression.kind)));
}

Result<Compression> parse_compression(std::string_view text) {
  const auto unknown = [&] {
    return invalid_argument(fmt::format("\"{}\" names no compression: {}", text, kTexts));
  };
  std::vector<std::string_view> words = words_of(text);
  Compression made;
  const std::string_view kind = words.front();
  if (kind == "none") {
    made.kind = CompressionKind::kNone;
  } else if (kind == "bf16") {
    made = Compression::bfloat16();
  } else if (kind == "int8") {
    made = Compression::int8();
  } else if (kind == "top-k") {
    made = Compression::top_k();
  } else {
    return unknown();
  }
  if (words.size() > 1 && (words.back() == kFeedback || words.back() == kNoFeedback)) {
    made.error_feedback = words.back() == kFeedback;
    words.pop_back();
  }
  if (words.size() > 2) return unknown();
  if (words.size() == 2) {
    const bool is_read = (made.kind == CompressionKind::kInt8 && read(words[1], made.block)) ||
                         (made.kind == CompressionKind::kTopK && read(words[1], made.fraction));
    if (!is_read) return unknown();
  }
  SQUARE_RETURN_IF_ERROR(check_compression(made));
  return made;
}

std::string to_string(const Compression& compression) {
  switch (compression.kind) {
    case CompressionKind::kNone: return "none";
    case CompressionKind::kBfloat16: return "bf16";
    case CompressionKind::kInt8:
      return fmt::format("int8:{}{}", compression.block, feedback_word(compression, false));
    case CompressionKind::kTopK:
      return fmt::format("top-k:{}{}", compression.fraction, feedback_word(compression, true));
  }
  return "unknown";
}

double CompressionReport::ratio() const {
  return bytes_after == 0 ? 1.0 : static_cast<double>(bytes_before) / static_cast<double>(bytes_after);
}

double CompressionReport::relative_error() const {
  return squared_error == 0 ? 0.0 : std::sqrt(squared_error / squared_norm);
}

CompressionReport& CompressionReport::operator+=(const CompressionReport& other) {
  calls += other.calls;
  bytes_before += other.bytes_before;
  bytes_after += other.bytes_after;
  squared_norm += other.squared_norm;
  squared_error += other.squared_error;
  return *this;
}

}  // namespace square
