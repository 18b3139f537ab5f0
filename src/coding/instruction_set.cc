#include "coding/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace square {
namespace {

bool has_avx2_and_f16c() {
#if defined(__x86_64__)
  // Not every compiler knows F16C by name; where there is AVX2, the system keeps its registers.
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
#else
  return false;
#endif
}

bool has_gfni() {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & bit_GFNI) != 0;
#else
  return false;
#endif
}

std::vector<InstructionSet> find_instruction_sets() {
  std::vector<InstructionSet> found{InstructionSet::kPortable};
  if (has_avx2_and_f16c()) found.push_back(InstructionSet::kAvx2);
  if (has_avx2_and_f16c() && has_gfni()) found.push_back(InstructionSet::kGfni);
  return found;
}

}  // namespace

std::string_view to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable: return "portable";
    case InstructionSet::kAvx2: return "AVX2";
    case InstructionSet::kGfni: return "GFNI";
  }
  return "?";
}

const std::vector<InstructionSet>& available_instruction_sets() {
  static const std::vector<InstructionSet> found = find_instruction_sets();
  return found;
}

InstructionSet fastest_instruction_set() { return available_instruction_sets().back(); }

}  // namespace square
