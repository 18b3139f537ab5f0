// The topology and the policy as a store keeps them.
#pragma once

#include <memory>
#include <string>

#include "controller/admission.h"

namespace square::controller {

// Equal states have equal records. An open overlay's topology is made of the nodes that join and not kept.
std::shared_ptr<const std::string> record_of_overlay(const PlanningState& state, bool is_open);

// Sets what the record says. Errors: DATA_LOSS for a record that cannot be understood.
Status restore_overlay(const std::string& record, PlanningState& state, bool is_open);

}  // namespace square::controller
