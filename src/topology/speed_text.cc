#include "topology/speed_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "square/units.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr double kSonetBps = 51.84e6;  // OC-1; STM-1 is three of them
constexpr std::size_t kMaxSpeedBytes = 4'096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// How plainly a text is a speed.
enum class Form {
  kRate,    // a number with a unit for each second: "10 Gbit/s"
  kAmount,  // a number with another unit: "10 Gb", "10G", "10GE"
  kCode,    // a name that nothing else has: "OC-48"
  kName,    // a name that a link may have by chance: "T1", "GE"
};

struct Unit {
  double bps = 0;
  Form form = Form::kAmount;
};

struct Speed {
  double bps = 0;
  Form form = Form::kRate;
};

// What a prefix multiplies by. Without a base behind it, "m" is more likely metres than mega.
std::optional<double> prefix_factor(std::string_view prefix, bool has_base) {
  static constexpr std::array<std::pair<std::string_view, double>, 8> kShort = {
      {{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}}};
  static constexpr std::array<std::pair<std::string_view, double>, 8> kLong = {{{"kilo", 1e3},
                                                                                {"mega", 1e6},
                                                                                {"giga", 1e9},
                                                                                {"tera", 1e12},
                                                                                {"kibi", 0x1p10},
                                                                                {"mebi", 0x1p20},
                                                                                {"gibi", 0x1p30},
                                                                                {"tebi", 0x1p40}}};
  static constexpr std::array<std::pair<std::string_view, double>, 5> kBinary = {
      {{"Ki", 0x1p10}, {"ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}}};
  if (prefix.empty() && has_base) return 1.0;
  for (const auto& [name, factor] : kShort) {
    if (prefix == name && (has_base || name.front() == 'k' || name.front() <= 'Z')) return factor;
  }
  for (const auto& [name, factor] : kBinary) {
    if (prefix == name) return factor;
  }
  if (!has_base) {
    const std::string word = lower_case(prefix);
    if (word == "gig") return 1e9;
    if (word == "meg") return 1e6;
    return std::nullopt;
  }
  const std::string word = lower_case(prefix);
  for (const auto& [name, factor] : kLong) {
    if (word == name) return factor;
  }
  return std::nullopt;
}

// Takes `end` off the end of `word`, letters in any case.
bool take_end(std::string_view& word, std::string_view end) {
  if (word.size() < end.size() || lower_case(word.substr(word.size() - end.size())) != end) return false;
  word.remove_suffix(end.size());
  return true;
}

// A word such as "Mbps", "kbit", "GB", "Mebibytes", "G" or "GE".
std::optional<Unit> unit_of_word(std::string_view word, bool bytes_are_bits) {
  const std::string plain = lower_case(word);
  if (plain == "ge" || plain == "gbe" || plain == "gige") return Unit{1e9, Form::kAmount};
  const bool is_loud = word.size() > 2 && word.ends_with("PS");
  const bool per_second = word.size() > 2 && take_end(word, "ps");
  double bits = 0;
  if (take_end(word, "bits") || take_end(word, "bit")) bits = 1;
  if (bits == 0 && (take_end(word, "bytes") || take_end(word, "byte"))) bits = kBitsPerByte;
  if (bits == 0 && !word.empty() && (word.back() == 'b' || word.back() == 'B')) {
    // "MBPS" may be either.
    if (word.back() == 'B' && is_loud && !bytes_are_bits) return std::nullopt;
    bits = word.back() == 'b' ? 1 : kBitsPerByte;
    word.remove_suffix(1);
  }
  if (bits == 0 && per_second) return std::nullopt;
  const auto factor = prefix_factor(word, bits > 0);
  if (!factor) return std::nullopt;
  const double scale = bits == 0 || bytes_are_bits ? 1.0 : bits;
  return Unit{*factor * scale, per_second ? Form::kRate : Form::kAmount};
}

// Reads speeds off a text, from left to right. Non-breaking spaces and times signs have been replaced.
class SpeedScanner {
 public:
  SpeedScanner(std::string_view text, bool bytes_are_bits, bool ranges)
      : text_(text), bytes_are_bits_(bytes_are_bits), ranges_(ranges) {}

  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] bool saw_comma() const { return saw_comma_; }
  void skip_spaces() {
    while (!at_end() && text_[position_] == ' ') ++position_;
  }
  void skip_word() {
    if (!at_end() && !is_word(text_[position_])) {
      ++position_;
      return;
    }
    while (!at_end() && is_word(text_[position_])) ++position_;
  }
  bool take(char c) {
    if (at_end() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  // "2 x 10 Gbit/s", "10GE x 4", "STM-64": stays where it is if there is none.
  std::optional<Speed> speed() {
    const std::size_t begin = position_;
    if (const auto count = number(); count && take_times()) {
      if (auto one = speed()) {
        one->bps *= *count;
        return one;
      }
    }
    position_ = begin;
    auto one = is_at_digit() ? number_with_unit() : name();
    if (one) {
      const std::size_t end = position_;
      if (take_times()) {
        if (const auto count = number())
          one->bps *= *count;
        else
          position_ = end;
      }
      if (at_end() || !is_word(text_[position_])) return one;
    }
    position_ = begin;
    return std::nullopt;
  }

  // "Gbit/s", "MB per second", "M".
  std::optional<Unit> unit() {
    const std::size_t begin = position_;
    std::size_t end = begin;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    // In "10GEx4" the x belongs to the number.
    if (end - begin > 1 && text_[end - 1] == 'x' && end < text_.size() && is_digit(text_[end])) --end;
    auto unit = unit_of_word(text_.substr(begin, end - begin), bytes_are_bits_);
    if (!unit) return std::nullopt;
    position_ = end;
    const PerSecond said = unit->form == Form::kRate ? PerSecond::kNotSaid : per_second();
    if (said == PerSecond::kYes) unit->form = Form::kRate;
    // "10b" without a prefix is more likely a name than a speed.
    const bool is_name = unit->form != Form::kRate && unit->bps < 1e3;
    if (said != PerSecond::kSomethingElse && !is_name) return unit;
    position_ = begin;
    return std::nullopt;
  }

 private:
  enum class PerSecond { kNotSaid, kYes, kSomethingElse };

  static bool is_word(char c) { return is_letter(c) || is_digit(c); }
  [[nodiscard]] bool is_at_digit() const {
    if (at_end()) return false;
    if (is_digit(text_[position_])) return true;
    return text_[position_] == '.' && position_ + 1 < text_.size() && is_digit(text_[position_ + 1]);
  }

  std::optional<double> number() {
    if (!is_at_digit()) return std::nullopt;
    double value = 0;
    const char* const begin = text_.data() + position_;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    position_ += static_cast<std::size_t>(stop - begin);
    if (position_ + 1 < text_.size() && text_[position_] == ',' && is_digit(text_[position_ + 1])) {
      saw_comma_ = true;
      return std::nullopt;
    }
    return value;
  }

  // "x", "*", with spaces around them or none.
  bool take_times() {
    const std::size_t begin = position_;
    skip_spaces();
    if (!at_end() && (text_[position_] == 'x' || text_[position_] == '*')) {
      ++position_;
      skip_spaces();
      return true;
    }
    position_ = begin;
    return false;
  }

  std::optional<Speed> number_with_unit() {
    auto value = number();
    if (!value) return std::nullopt;
    const std::size_t behind = position_;
    if (ranges_ && take('-')) {
      const auto upper = number();
      if (upper)
        value = std::min(*value, *upper);
      else
        position_ = behind;
    }
    skip_spaces();
    const auto one = unit();
    if (!one) return std::nullopt;
    return Speed{*value * one->bps, one->form};
  }

  PerSecond per_second() {
    const std::size_t begin = position_;
    skip_spaces();
    bool is_said = take('/');
    if (!is_said && lower_case(text_.substr(position_, 4)) == "per ") {
      position_ += 4;
      is_said = true;
    }
    if (!is_said) {
      position_ = begin;
      return PerSecond::kNotSaid;
    }
    skip_spaces();
    std::size_t end = position_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string word = lower_case(text_.substr(position_, end - position_));
    if (word.empty()) {
      position_ = begin;
      return PerSecond::kNotSaid;
    }
    if (word != "s" && word != "sec" && word != "second") return PerSecond::kSomethingElse;
    position_ = end;
    return PerSecond::kYes;
  }

  // The name of a standard.
  std::optional<Speed> name() {
    std::size_t end = position_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string word = lower_case(text_.substr(position_, end - position_));
    if (word == "ge" || word == "gbe" || word == "gige") return named(end, 1e9, Form::kName);
    if (word == "fe") return named(end, 100e6, Form::kName);
    if (end < text_.size() && (text_[end] == '-' || text_[end] == ' ')) ++end;
    const std::size_t digits = end;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    unsigned level = 0;
    const auto [stop, error] = std::from_chars(text_.data() + digits, text_.data() + end, level);
    if (end == digits || error != std::errc{}) return std::nullopt;
    if (word == "oc" && level > 0) {
      if (end < text_.size() && text_[end] == 'c') ++end;  // concatenated
      return named(end, level * kSonetBps, Form::kCode);
    }
    if (word == "stm") return named(end, level == 0 ? kSonetBps : 3 * level * kSonetBps, Form::kCode);
    for (const auto& [standard, number, bps] : kLines) {
      if (word == standard && level == number) return named(end, bps, Form::kName);
    }
    return std::nullopt;
  }

  std::optional<Speed> named(std::size_t end, double bps, Form form) {
    position_ = end;
    return Speed{bps, form};
  }

  struct Line {
    std::string_view name;
    unsigned level;
    double bps;
  };
  // ITU-T G.702.
  static constexpr std::array<Line, 11> kLines = {{{"ds", 0, 64e3},
                                                   {"ds", 1, 1.544e6},
                                                   {"ds", 2, 6.312e6},
                                                   {"ds", 3, 44.736e6},
                                                   {"t", 1, 1.544e6},
                                                   {"t", 2, 6.312e6},
                                                   {"t", 3, 44.736e6},
                                                   {"e", 1, 2.048e6},
                                                   {"e", 2, 8.448e6},
                                                   {"e", 3, 34.368e6},
                                                   {"e", 4, 139.264e6}}};

  std::string_view text_;
  std::size_t position_ = 0;
  bool bytes_are_bits_;
  bool ranges_;
  bool saw_comma_ = false;
};

// With plain spaces, hyphens and times signs.
std::string plain_signs(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 7> kSigns = {
      {{"\xC2\xA0", ' '},      // no-break space
       {"\xE2\x80\xAF", ' '},  // narrow no-break space
       {"\xE2\x80\x93", '-'},  // en dash
       {"\xC3\x97", 'x'},      // times
       {"\t", ' '},
       {"\r", ' '},
       {"\n", ' '}}};
  std::string plain;
  text = trim(text.substr(0, kMaxSpeedBytes));
  while (!text.empty()) {
    const auto sign = std::ranges::find_if(kSigns, [&](const auto& s) { return text.starts_with(s.first); });
    plain += sign == kSigns.end() ? text.front() : sign->second;
    text.remove_prefix(sign == kSigns.end() ? 1 : sign->first.size());
  }
  return plain;
}

// A remark in brackets at the end is no part of a speed: "45 Mbps (T3)".
std::string_view without_remark(std::string_view text) {
  if (!text.ends_with(')')) return text;
  const std::size_t open = text.find('(');
  return open == 0 || open == std::string_view::npos ? text : trim(text.substr(0, open));
}

bool says_none(std::string_view text) {
  static constexpr std::array<std::string_view, 10> kNone = {"",     "?",   "-",  "unknown",   "none",
                                                             "null", "n/a", "na", "unlimited", "unmeasured"};
  return std::ranges::find(kNone, lower_case(text)) != kNone.end();
}

Status comma_in(std::string_view text) {
  return invalid_argument(
      fmt::format("\"{}\": a comma in a number may be of the decimals or of the thousands: write 2.5 or 2500",
                  excerpt(text)));
}

// Whole speeds with a plus between.
Result<std::optional<double>> whole_speed(std::string_view text) {
  SpeedScanner scanner(text, false, false);
  double sum = 0;
  do {
    scanner.skip_spaces();
    const auto one = scanner.speed();
    if (scanner.saw_comma()) return comma_in(text);
    if (!one) return std::optional<double>();
    sum += one->bps;
    scanner.skip_spaces();
  } while (scanner.take('+'));
  return scanner.at_end() ? std::optional(sum) : std::optional<double>();
}

bool is_telling(Form form, LabelKind kind, bool is_whole) {
  if (kind == LabelKind::kZoo || form == Form::kRate) return true;
  return is_whole && form != Form::kName;
}

// Of one part of a label between two plus signs.
Result<std::optional<double>> lowest_in(std::string_view part, LabelKind kind, bool is_label) {
  SpeedScanner scanner(part, kind == LabelKind::kZoo, true);
  std::optional<Speed> lowest;
  bool is_first = true;
  while (scanner.skip_spaces(), !scanner.at_end()) {
    const auto one = scanner.speed();
    if (scanner.saw_comma()) return comma_in(part);
    const bool is_whole = is_label && is_first && scanner.at_end();
    is_first = false;
    if (!one) {
      scanner.skip_word();
      continue;
    }
    if (!is_telling(one->form, kind, is_whole)) continue;
    // In "155 Mbps OC-3" the number is what is meant.
    const bool is_name = one->form == Form::kName || one->form == Form::kCode;
    const bool was_name = lowest && (lowest->form == Form::kName || lowest->form == Form::kCode);
    if (!lowest || (was_name && !is_name) || (was_name == is_name && one->bps < lowest->bps)) lowest = one;
  }
  return lowest ? std::optional(lowest->bps) : std::nullopt;
}

}  // namespace

Result<std::optional<WrittenSpeed>> parse_speed(std::string_view text) {
  const std::string plain = plain_signs(text);
  if (says_none(plain)) return std::optional<WrittenSpeed>();
  WrittenSpeed speed;
  if (const auto number = parse_number(plain)) {
    speed.value = *number;
  } else {
    SQUARE_ASSIGN_OR_RETURN(const auto written, whole_speed(without_remark(plain)));
    if (!written) {
      return invalid_argument(fmt::format(
          "must be a speed with its unit, such as \"155 Mbps\", \"1.5 Gbit/s\" or \"100 MB/s\", or "
          "\"unknown\", not \"{}\"",
          excerpt(text)));
    }
    speed = {*written, true};
  }
  if (!std::isfinite(speed.value) || speed.value <= 0) {
    return invalid_argument(fmt::format("must be above 0 and finite, not {}", excerpt(trim(text))));
  }
  return std::optional(speed);
}

Result<std::optional<double>> speed_in_label(std::string_view label, LabelKind kind) {
  const std::string plain = plain_signs(label);
  std::optional<double> sum;
  for (std::size_t begin = 0; begin <= plain.size();) {
    const std::size_t end = std::min(plain.find('+', begin), plain.size());
    const bool is_label = begin == 0 && end == plain.size();
    SQUARE_ASSIGN_OR_RETURN(const auto part,
                            lowest_in(std::string_view(plain).substr(begin, end - begin), kind, is_label));
    if (part) sum = sum.value_or(0) + *part;
    begin = end + 1;
  }
  if (sum && !(std::isfinite(*sum) && *sum > 0)) return std::optional<double>();
  return sum;
}

std::optional<double> unit_bps(std::string_view unit) {
  const std::string plain = plain_signs(unit);
  SpeedScanner scanner(plain, false, false);
  const auto read = scanner.unit();
  if (!read || !scanner.at_end()) return std::nullopt;
  return read->bps;
}

}  // namespace square
