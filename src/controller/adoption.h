// Takes over what an earlier controller of the overlay had given.
#pragma once

#include "controller/admission.h"
#include "controller/session_numbers.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Whether the past that `teller` brings can go on here, beside what is there; of nobody ("") it is the
// store's. `has_plan`: nodes have their numbers already; `is_own`: it is of this controller's store. Errors:
// FAILED_PRECONDITION where a number was given to something else here; INVALID_ARGUMENT for what no
// controller can have given; PERMISSION_DENIED for groups that the teller has no part in.
Status check_past(const v1::Past& past, const std::string& teller, const PlanningState& state, bool has_plan,
                  bool is_own);

// The last epoch, and the numbers after the last of the others.
struct GivenNumbers {
  std::uint64_t epoch = 0;
  std::uint64_t collective = 0;
  std::uint64_t session = 0;
  std::uint64_t group = 0;
};
bool exceeds(const v1::Past& past, const GivenNumbers& given);
// Without groups that have gone on here, and their sessions: a member that was away still tells of them.
v1::Past without_gone_on(const v1::Past& past, const GroupRegistry& registry);
// Without groups whose names others have had since, and their sessions.
v1::Past without_ended(const v1::Past& past, const GroupRegistry& registry);
// Without groups that are not known here, and their sessions.
v1::Past known_part(const v1::Past& past, const GroupRegistry& registry);

// Adds the past's groups with the numbers that they have, and gives none of its numbers again. Groups that
// are there already stay. In an open overlay (`is_open`) nodes keep their numbers, and those that have not
// come yet are expected. Returns whether that is news. Errors: INVALID_ARGUMENT for a group that the topology
// has no place for, naming it; RESOURCE_EXHAUSTED for too many. Precondition: check_past() is OK.
Result<bool> adopt(const v1::Past& past, const std::string& teller, PlanningState& state, bool is_open);

// Of a state that has adopted the past; those that the teller, if there is one, has a part in. Returns
// whether any has another number than it had here.
bool adopt_sessions(const v1::Past& past, const std::string& teller, const PlanningState& state,
                    SessionNumbers& numbers);

}  // namespace square::controller
