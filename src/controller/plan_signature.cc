#include "controller/plan_signature.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace square::controller {
namespace {

// Nothing else that a certificate signs begins so. Names of nodes have no line feeds.
std::string signed_text(const std::string& node, const std::string& part) {
  return fmt::format("square plan 1\n{}\n", node) + part;
}

}  // namespace

Status PlanSigner::read(Clock::time_point now) {
  if (signer_ && now < next_read_) return {};
  auto signer = trust::read_signer(*identity_);
  // As it was: the file may be replaced just now.
  if (!signer.is_ok()) return signer_ ? Status::ok() : signer.status();
  signer_ = std::move(*signer);
  next_read_ = now + Identity::kWatchInterval;
  return {};
}

Result<PlanSigner::EventPtr> PlanSigner::sign(const std::string& node, EventPtr event) {
  if (!event->has_plan()) return event;
  auto made = std::make_shared<v1::ControllerEvent>();
  v1::SignedPlan& plan = *made->mutable_signed_plan();
  plan.set_part(event->plan().SerializeAsString());
  const std::lock_guard lock(mutex_);
  SQUARE_RETURN_IF_ERROR(read(Clock::now()));
  SQUARE_ASSIGN_OR_RETURN(std::string signature, trust::sign_as(signed_text(node, plan.part()), *signer_));
  plan.set_signature(std::move(signature));
  return EventPtr(std::move(made));
}

bool expects_signed_plans(const std::shared_ptr<Identity>& identity) { return identity && identity->name(); }

std::shared_ptr<PlanSigner> signer_of(const std::shared_ptr<Identity>& identity) {
  return expects_signed_plans(identity) ? std::make_shared<PlanSigner>(identity) : nullptr;
}

Result<v1::PlanPart> open_plan(const v1::SignedPlan& plan, const std::string& node,
                               const Identity& identity) {
  SQUARE_ASSIGN_OR_RETURN(const std::string authority, trust::authorities_of(identity));
  const auto signer = trust::check_signed(signed_text(node, plan.part()), plan.signature(), identity,
                                          {Role::kController}, authority);
  if (!signer.is_ok()) return signer.status().with_context("a plan came that no controller has signed");
  v1::PlanPart part;
  if (!part.ParseFromString(plan.part())) return invalid_argument("a signed plan is no plan");
  return part;
}

}  // namespace square::controller
