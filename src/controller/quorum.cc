#include "controller/quorum.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "controller/node_control/candidates.h"

namespace square::controller {

Status no_quorum() { return unavailable(kHearsTooFew); }

bool Quorum::look(TimePoint now, Deferred& deferred) {
  if (members_.has_quorum(now)) return std::exchange(next_round_, std::nullopt).has_value();
  if (!next_round_) next_round_ = now + kFirstLookAround;
  if (now < *next_round_) return false;
  next_round_ = now + kNextLookAround;
  for (const auto& [name, member] : members_) {
    if (!member.line) continue;
    log(LogLevel::kWarning, {.component = "controller", .node = name}, "{}: node {} looks", kHearsTooFew,
        name);
    deferred.push_back([line = member.line] { line->close(no_quorum(), false); });
  }
  return false;
}

TimePoint Quorum::next_end(TimePoint latest) const {
  return next_round_ ? std::min(latest, *next_round_) : latest;
}

}  // namespace square::controller
