// Which instructions this processor has: the one place that asks it. Loops are compiled once for each
// set, and every kind of loop (sums, compression) has a table of them for each.
#pragma once

#include <string_view>
#include <vector>

namespace square {

enum class InstructionSet {
  kPortable,  // what every processor of this kind has
  kAvx2,      // AVX2 and F16C
  kGfni,      // those, and GFNI on their vectors
};

[[nodiscard]] std::string_view to_string(InstructionSet set);

// Those that the loops are compiled for and that this processor has, the slowest first; never empty.
// Thread-safe.
[[nodiscard]] const std::vector<InstructionSet>& available_instruction_sets();
// The last of them.
[[nodiscard]] InstructionSet fastest_instruction_set();

}  // namespace square
