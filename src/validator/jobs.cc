// Which collectives follow one another.
#include <map>
#include <string_view>
#include <utility>

#include "validator/checks.h"

namespace square::validation {

std::vector<std::size_t> number_jobs(const Plan& plan) {
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> groups;
  std::vector<std::size_t> job;
  std::size_t count = 0;
  for (const PlanCollective& collective : plan.collectives) {
    if (collective.group.empty()) {
      job.push_back(count++);
      continue;
    }
    const auto [known, is_new] = groups.try_emplace({collective.tenant, collective.group}, count);
    if (is_new) ++count;
    job.push_back(known->second);
  }
  return job;
}

}  // namespace square::validation
