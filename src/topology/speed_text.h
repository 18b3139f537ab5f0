// Speeds as people write them: "155 Mbps", "1.5 Gbit/s", "100 MB/s", "2x10Gb/s", "OC-48".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square {

// A text that is meant as a speed and nothing else.
struct WrittenSpeed {
  double value = 0;
  bool has_unit = false;  // yes: `value` is in bits per second
};

// Nothing for a word that says that there is no speed, such as "unknown" or "?". docs/scenario.md has the
// table of what is read. Errors: INVALID_ARGUMENT for any other text, and for a speed that is not above 0
// and finite.
Result<std::optional<WrittenSpeed>> parse_speed(std::string_view text);

// Where the words around a speed come from.
enum class LabelKind {
  kDrawn,  // a label in a drawing: only numbers with a unit are speeds, for "E1" may be a name
  kZoo,    // LinkLabel of the Topology Zoo: names of standards too; "1 GB/s" are gigabits there
};
// The speed that a label states in bits per second: the lowest of several, and of a range the lower end;
// speeds joined by a plus add up. Nothing if it states none. Errors: INVALID_ARGUMENT for a number with a
// comma, which may be of the decimals or of the thousands.
Result<std::optional<double>> speed_in_label(std::string_view label, LabelKind kind);

// The bits per second of one of a unit: "Mbit/s", "MB/s", "G". Nothing if it is no unit of a speed.
std::optional<double> unit_bps(std::string_view unit);

}  // namespace square
