// Plans are signed by the controller that sends them, where an authority says who may be one: what a node
// runs is whose certificate says so, whatever the line that brought it has ended in.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "square/identity.h"
#include "square/v1/controller.pb.h"
#include "trust/signature.h"

namespace square::controller {

// The controller's end. Thread-safe; reads files, once in Identity::kWatchInterval at most.
class PlanSigner {
 public:
  using EventPtr = std::shared_ptr<const v1::ControllerEvent>;

  explicit PlanSigner(std::shared_ptr<Identity> identity) : identity_(std::move(identity)) {}

  // The event with the part of the plan in it signed, for `node` alone; other events as they are. Errors:
  // those of reading the identity's files where that never succeeded, INTERNAL.
  Result<EventPtr> sign(const std::string& node, EventPtr event);

 private:
  using Clock = std::chrono::steady_clock;
  Status read(Clock::time_point now);

  const std::shared_ptr<Identity> identity_;
  std::mutex mutex_;
  std::optional<trust::Signer> signer_;
  Clock::time_point next_read_{};
};

// Null where no authority says who may be a controller.
std::shared_ptr<PlanSigner> signer_of(const std::shared_ptr<Identity>& identity);
// Whether plans that come to a node with this identity have to be signed.
bool expects_signed_plans(const std::shared_ptr<Identity>& identity);

// The node's end: its part of a plan that a controller of its domain has signed for it. Reads the authority's
// file. Errors: UNAUTHENTICATED and PERMISSION_DENIED for another signer, or another node's part,
// INVALID_ARGUMENT for what is none.
Result<v1::PlanPart> open_plan(const v1::SignedPlan& plan, const std::string& node, const Identity& identity);

}  // namespace square::controller
