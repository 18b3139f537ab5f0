// Which bytes of the members' buffers each session of a sum carries.
#pragma once

#include <vector>

#include "node/plan/installed_collective.h"
#include "square/data_plane.h"

namespace square {

// A buffer cut by a plan into the shares of its roots. Keeps pointers into the collective.
class SumLayout {
 public:
  struct Share {
    const PlanSession* session = nullptr;
    const PlanSession* pair = nullptr;  // of an all-reduce: the other half
    ByteRange range;
  };

  // `call` is a member's: all have buffers of the same size and elements.
  SumLayout(const InstalledCollective& collective, const MemberOperation& call);

  // The sessions that carry something, in the plan's order. An operation without bytes still tells
  // everybody that all have called it: in one reduce, and its pair.
  [[nodiscard]] const std::vector<Share>& shares() const { return shares_; }
  // The session's share, or nothing if it carries nothing.
  [[nodiscard]] const Share* find(SessionId session) const;
  // The plan has no session for this collective: all members live here.
  [[nodiscard]] bool is_local() const { return is_local_; }

 private:
  bool is_local_ = false;
  std::vector<Share> shares_;
};

}  // namespace square
