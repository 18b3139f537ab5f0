#include "controller/went_on.h"

#include <algorithm>
#include <utility>

namespace square::controller {

void WentOn::note(const std::string& next, const std::string& tenant, const GroupOrigin& origin) {
  if (!origin.group.empty()) note({origin.group, origin.number, tenant, next});
}

void WentOn::note(const Continuation& one) {
  if (find(one.group, one.number)) return;
  std::deque<Continuation> list = *list_;
  list.push_back(one);
  if (list.size() > kMaxWentOn) list.pop_front();
  list_ = std::make_shared<const std::deque<Continuation>>(std::move(list));
  ++count_;
}

std::optional<Continuation> WentOn::find(const std::string& group, std::uint64_t number) const {
  const auto found = std::ranges::find_if(
      *list_, [&](const Continuation& one) { return one.group == group && one.number == number; });
  return found == list_->end() ? std::nullopt : std::optional(*found);
}

}  // namespace square::controller
