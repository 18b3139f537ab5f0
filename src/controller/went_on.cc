#include "controller/went_on.h"

#include <algorithm>
#include <utility>

namespace square::controller {

void WentOn::note(const GroupSpec& next) {
  std::deque<GroupSpec> list = *list_;
  list.push_back({next.name, next.tenant, {}, {}});
  list.back().origin = next.origin;
  if (list.size() > kMaxWentOn) list.pop_front();
  list_ = std::make_shared<const std::deque<GroupSpec>>(std::move(list));
}

std::optional<GroupSpec> WentOn::find(const std::string& group, std::uint64_t number) const {
  const auto is_next = [&](const GroupSpec& one) {
    return one.origin.group == group && one.origin.number == number;
  };
  const auto found = std::ranges::find_if(*list_, is_next);
  return found == list_->end() ? std::nullopt : std::optional(*found);
}

}  // namespace square::controller
