#include "controller/closed_parts.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace square::controller {

void ClosedParts::absorb(GroupRegistry& registry, const std::function<bool(const std::string&)>& is_there,
                         TimePoint now) {
  for (const Part& part : std::exchange(parts_, {})) {
    if (!registry.close(part.group, part.number, part.node, is_there)) continue;
    log(LogLevel::kInfo, "controller", "group {}: its members have closed it, it is no longer planned",
        part.group);
    if (!forget_at_) forget_at_ = now + kForgetTime;
  }
}

ClosedParts::TimePoint ClosedParts::next_end(TimePoint latest) const {
  return forget_at_ ? std::min(latest, *forget_at_) : latest;
}

}  // namespace square::controller
