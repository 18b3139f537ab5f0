#include "node/operations/sum_layout.h"

#include <algorithm>

namespace square {
namespace {

// Of the session that tells, without bytes, that all have called: the first reduce of the plan that
// would carry bytes, or, where that is for nothing, that has a rate.
const PlanSession* telling_session(const InstalledCollective& collective) {
  const auto& sessions = collective.sessions();
  const bool is_for_nothing = collective.planned().size_bytes == 0;
  const auto tells = [&](const PlanSession& session) {
    const bool has_bytes = !session.pair || session.size_bytes > 0 || is_for_nothing;
    const PlanSession* pair = session.pair ? collective.session(*session.pair) : nullptr;
    const bool gets_back = !session.pair || (pair != nullptr && !pair->streams.empty());
    return session.kind == SessionKind::kReduce && !session.streams.empty() && has_bytes && gets_back;
  };
  const auto found = std::ranges::find_if(sessions, tells);
  return found == sessions.end() ? nullptr : &*found;
}

}  // namespace

SumLayout::SumLayout(const InstalledCollective& collective, const MemberOperation& call) {
  const std::size_t element = element_bytes(call.reduction.type);
  const auto& sessions = collective.sessions();
  is_local_ = sessions.empty();
  const PlanSession* telling = call.input.empty() ? telling_session(collective) : nullptr;
  for (const PlanSession& session : sessions) {
    if (session.streams.empty()) continue;
    const ByteRange elements = session_range(collective.planned(), session, call.input.size() / element);
    const bool tells = telling != nullptr && (telling == &session || telling->pair == session.id);
    if (elements.size_bytes == 0 && !tells) continue;
    shares_.push_back({&session,
                       session.pair ? collective.session(*session.pair) : nullptr,
                       {elements.offset_bytes * element, elements.size_bytes * element}});
  }
}

const SumLayout::Share* SumLayout::find(SessionId session) const {
  const auto is_this = [&](const Share& share) { return share.session->id == session; };
  const auto found = std::ranges::find_if(shares_, is_this);
  return found == shares_.end() ? nullptr : &*found;
}

}  // namespace square
