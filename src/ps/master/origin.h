// A master that begins anew looks for the version to go on from among those that servers hold.
#pragma once

#include <string>

#include "ps/master/members.h"

namespace square::ps {

struct Origin {
  // As the first server of its layout has it; null: there is none to go on from.
  const v1::PsRecord* record = nullptr;
  const v1::PsModel* model = nullptr;
  // Why training cannot go on yet, in words that follow "waits for"; empty: it can.
  std::string trouble;
};

// The newest version that all servers of its layout have. Neither a record nor trouble: training may begin.
Origin find_origin(const Members& members);

// A server outside the committed version's layout may get a new shard, which replaces its snapshots. Errors:
// FAILED_PRECONDITION where these are of another training, or keep a part of this one; it says what an
// operator can do.
Status check_standby(const ServerEntry& server, const v1::PsRecord& committed);

}  // namespace square::ps
