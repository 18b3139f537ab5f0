// Plans in JSON and scenarios in TOML: whatever the text, an answer or an error, and a plan that is taken is
// written and read alike, and validated. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/plan.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "square/plan.h"
#include "square/planner.h"
#include "square/scenario.h"
#include "square/validator.h"

namespace {

using namespace square;

void require(bool holds) {
  if (!holds) std::abort();
}

void parse_plan(std::string_view text) {
  const auto plan = plan_from_json(text);
  if (!plan.is_ok()) return;
  const std::string written = to_json(*plan);
  const auto again = plan_from_json(written);
  require(again.is_ok() && to_json(*again) == written);
  (void)validate(*plan);
}

// A scenario may name a file, anywhere: those are not for a fuzzer.
void parse_scenario_alone(std::string_view text) {
  if (text.find("topology") != std::string_view::npos || text.find('\\') != std::string_view::npos) return;
  const auto scenario = parse_scenario(text, "input", "/nonexistent");
  if (!scenario.is_ok()) require(scenario.status().message().find("input") != std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? parse_plan(text) : parse_scenario_alone(text);
  return 0;
}
