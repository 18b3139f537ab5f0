#include "topology/edge_speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "topology/text.h"

namespace square {
namespace {

constexpr std::string_view kRawKey = "LinkSpeedRaw";
// Two statements of one speed may be rounded, as 155 and 155.52 Mbit/s.
constexpr double kSameSpeed = 0.05;
constexpr std::size_t kMaxKeyBytes = 64;

constexpr std::array<std::string_view, 9> kSpeedWords = {
    "bandwidth", "capacity", "throughput", "datarate", "data_rate", "bitrate", "bit_rate", "speed", "bw"};
constexpr std::array<std::string_view, 6> kWordsBefore = {"link",    "edge",    "max",
                                                          "maximum", "nominal", "total"};

bool is_between(char c) { return c == '_' || c == '-' || c == ' ' || c == '.' || c == ':'; }

// Takes a leading `word` off `key`, letters in any case, and what is between words.
bool take_word(std::string_view& key, std::string_view word) {
  if (lower_case(key.substr(0, word.size())) != word) return false;
  key.remove_prefix(word.size());
  while (!key.empty() && is_between(key.front())) key.remove_prefix(1);
  return true;
}

// "Mbps", "(Gbit/s)", "[in kbps]", "mbit_s": what follows the word in a key.
std::optional<double> unit_in_key(std::string_view rest) {
  std::string unit(rest);
  std::erase_if(unit, [](char c) { return c == '(' || c == ')' || c == '[' || c == ']'; });
  std::string_view text = trim(unit);
  if (text.starts_with("in ") || text.starts_with("in_")) text.remove_prefix(3);
  if (const auto bps = unit_bps(text)) return bps;
  std::string spelled(text);
  for (const std::string_view per : {"_per_", "_p_", "_"}) {
    const std::size_t at = spelled.find(per);
    if (at != std::string::npos) return unit_bps(spelled.replace(at, per.size(), "/"));
  }
  return std::nullopt;
}

Status add_directed(Topology& topology, NodeId from, NodeId to, std::optional<double> capacity_bps) {
  if (const auto existing = topology.find_link(from, to)) {
    const bool has_speed = std::isfinite(topology.link(*existing).properties.capacity_bps);
    // Of parallel edges those without a speed are not known to add anything to those that have one.
    if (has_speed && !capacity_bps) return {};
    if (!has_speed && capacity_bps) return topology.set_capacity(*existing, *capacity_bps);
  }
  return topology.add_link(from, to, {.capacity_bps = capacity_bps.value_or(kUnlimited)}).status();
}

}  // namespace

std::optional<SpeedKey> speed_key(std::string_view key) {
  if (key.size() > kMaxKeyBytes) return std::nullopt;
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view word : kSpeedWords) {
      std::string_view rest = key;
      if (!take_word(rest, word)) continue;
      if (rest.empty()) return SpeedKey{};
      if (const auto bps = unit_in_key(rest)) return SpeedKey{bps};
    }
    for (const std::string_view word : kWordsBefore) more = more || take_word(key, word);
  }
  return std::nullopt;
}

void EdgeSpeeds::Numbers::add(double value, std::size_t at) {
  ++count;
  if (value <= largest) return;
  largest = value;
  place = at;
}

std::optional<double> EdgeSpeeds::by_option(double value) const {
  if (options_.unit_bps == 0.0) return std::nullopt;
  return value * options_.unit_bps.value_or(1.0);
}

Result<std::optional<double>> EdgeSpeeds::read_value(const SpeedKey& key, std::string_view value,
                                                     std::size_t place) {
  SQUARE_ASSIGN_OR_RETURN(const auto written, parse_speed(value));
  if (!written) return std::optional<double>();
  if (written->has_unit) return std::optional(written->value);
  if (!key.unit_bps) unknown_.add(written->value, place);
  const auto bps = key.unit_bps ? std::optional(written->value * *key.unit_bps) : by_option(written->value);
  if (bps && std::isinf(*bps)) return invalid_argument(fmt::format("{} is too large", written->value));
  return bps;
}

Status EdgeSpeeds::read(std::string_view key, std::string_view value, std::size_t place, EdgeSpeed& speed) {
  if (key == "LinkSpeed") {
    speed.link_speed = std::string(value);
  } else if (key == "LinkSpeedUnits") {
    speed.link_speed_units = std::string(value);
  } else if (key == kRawKey) {
    SQUARE_ASSIGN_OR_RETURN(const auto written, parse_speed(value));
    if (written && !written->has_unit) raw_.add(written->value, place);
    speed.raw_bps.reset();
    if (!written) return {};
    // Its unit is known, so that "none" does not concern it.
    const bool is_number = !written->has_unit && options_.unit_bps != 0.0;
    speed.raw_bps = is_number ? by_option(written->value) : written->value;
  } else if (key == "LinkLabel") {
    return read_label(value, LabelKind::kZoo, place, speed);
  } else if (key == "label") {
    return read_label(value, LabelKind::kDrawn, place, speed);
  } else if (const auto known = speed_key(key)) {
    SQUARE_ASSIGN_OR_RETURN(const auto bps, read_value(*known, value, place));
    if (!bps) {
      if (speed.field_key.empty()) speed.field_key = excerpt(key);
      return {};
    }
    if (speed.field_bps && std::abs(*bps - *speed.field_bps) > kSameSpeed * *bps) {
      return invalid_argument(fmt::format("{} Mbit/s, but \"{}\" says {} Mbit/s: leave out one of the two",
                                          bps_to_mbps(*bps), speed.field_key, bps_to_mbps(*speed.field_bps)));
    }
    speed.field_bps = bps;
    speed.field_key = excerpt(key);
  }
  return {};
}

Status EdgeSpeeds::read_label(std::string_view label, LabelKind kind, std::size_t place, EdgeSpeed& speed) {
  if (const auto number = parse_number(trim(label)); number && *number > 0 && std::isfinite(*number)) {
    if (options_.unit_bps)
      speed.label_bps = by_option(*number);
    else
      labels_.add(*number, place);
    return {};
  }
  SQUARE_ASSIGN_OR_RETURN(const auto bps, speed_in_label(label, kind));
  if (bps) speed.label_bps = std::min(speed.label_bps.value_or(kUnlimited), *bps);
  return {};
}

Result<std::optional<double>> EdgeSpeeds::capacity_bps(const EdgeSpeed& speed, std::size_t place) {
  std::optional<double> capacity = speed.raw_bps;
  if (!capacity && !speed.link_speed.empty()) {
    SpeedKey key;
    if (!trim(speed.link_speed_units).empty()) {
      key.unit_bps = unit_bps(speed.link_speed_units);
      if (!key.unit_bps) {
        return invalid_argument(
            fmt::format("edge.LinkSpeedUnits: \"{}\" is not a unit: write \"K\", \"M\", \"G\" or \"Mbit/s\"",
                        excerpt(speed.link_speed_units)));
      }
    }
    auto read = read_value(key, speed.link_speed, place);
    if (!read.is_ok()) return read.status().with_context("edge.LinkSpeed");
    capacity = *read;
  }
  if (!capacity) capacity = speed.field_bps;
  if (!capacity) capacity = speed.label_bps;
  has_speed_ = has_speed_ || capacity.has_value();
  return capacity;
}

std::optional<EdgeSpeeds::Complaint> EdgeSpeeds::complaint() const {
  if (options_.unit_bps) return std::nullopt;
  constexpr std::string_view kSay =
      "say the unit, by --units Mbit/s (in Python units=\"Mbit/s\", in a scenario units = \"Mbit/s\" in "
      "[overlay])";
  // A file whose LinkSpeedRaw is plausible has other numbers in bit/s, too.
  for (const auto& [numbers, least] :
       {std::pair(&unknown_, kLeastPlausibleBps), std::pair(&raw_, kLeastPlausibleRawBps)}) {
    if (numbers->count == 0 || std::max(numbers->largest, raw_.largest) >= least) continue;
    return Complaint{
        numbers->place,
        fmt::format("no speed of the file says its unit, and the fastest would be {} bit/s, which nobody "
                    "means: {}, or behind each number, as in \"{} Mbit/s\"",
                    numbers->largest, kSay, numbers->largest)};
  }
  if (labels_.count == 0 || has_speed_) return std::nullopt;
  return Complaint{labels_.place,
                   fmt::format("the label is the number {}, and no edge of the file has a speed: {}, or in "
                               "the label, as in \"{} Mbit/s\"; the unit \"none\" says that numbers are "
                               "no speeds",
                               labels_.largest, kSay, labels_.largest)};
}

Status add_edge(Topology& topology, NodeId source, NodeId target, bool directed,
                std::optional<double> capacity_bps) {
  if (source == target) return {};
  SQUARE_RETURN_IF_ERROR(add_directed(topology, source, target, capacity_bps));
  return directed ? Status() : add_directed(topology, target, source, capacity_bps);
}

}  // namespace square
