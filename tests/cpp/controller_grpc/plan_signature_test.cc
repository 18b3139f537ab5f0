// Plans that no controller has signed, or that were signed for somebody else.
#include "controller/plan_signature.h"

#include <doctest/doctest.h>

#include "../trust/issued.h"

using namespace square;
using namespace square::controller;
using square::testing::Issuer;

namespace {

PlanSigner::EventPtr plan_of(std::uint32_t epoch) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_plan()->set_epoch(epoch);
  return event;
}

v1::SignedPlan signed_by(const std::shared_ptr<Identity>& identity, const std::string& node) {
  const auto event = PlanSigner(identity).sign(node, plan_of(7)).value();
  REQUIRE(event->has_signed_plan());
  return event->signed_plan();
}

}  // namespace

TEST_CASE("a node runs what a controller of its authority has signed for it, and nothing else") {
  const Issuer issuer;
  const auto controller = issuer.identity(Role::kController, "ctl");
  const auto node = issuer.node("a");
  v1::SignedPlan plan = signed_by(controller, "a");
  CHECK(open_plan(plan, "a", *node).value().epoch() == 7);
  SUBCASE("another node's part") { plan = signed_by(controller, "b"); }
  SUBCASE("another plan under the same signature") { plan.set_part(plan_of(8)->plan().SerializeAsString()); }
  SUBCASE("a node that calls itself a controller") { plan = signed_by(issuer.node("b"), "a"); }
  SUBCASE("a controller of another authority") {
    plan = signed_by(Issuer().identity(Role::kController, "ctl"), "a");
  }
  SUBCASE("a controller of another domain") {
    plan = signed_by(Issuer("other.test").identity(Role::kController, "ctl"), "a");
  }
  SUBCASE("without a signature") { plan.clear_signature(); }
  const Status refused = open_plan(plan, "a", *node).status();
  CHECK_FALSE(refused.is_ok());
  CHECK(refused.message().find("no controller has signed") != std::string::npos);
}

TEST_CASE("a certificate that is renewed signs from then on") {
  const Issuer issuer;
  PlanSigner signer(issuer.identity(Role::kController, "ctl"));
  const auto node = issuer.node("a");
  REQUIRE(open_plan(signer.sign("a", plan_of(1)).value()->signed_plan(), "a", *node).is_ok());
  issuer.issue(Role::kController, "ctl");
  CHECK(open_plan(signer.sign("a", plan_of(2)).value()->signed_plan(), "a", *node).is_ok());
}

TEST_CASE("what is no plan goes as it is, and who has no authority signs nothing") {
  const Issuer issuer;
  auto welcome = std::make_shared<v1::ControllerEvent>();
  welcome->mutable_welcome()->set_lease_nanoseconds(1);
  CHECK(PlanSigner(issuer.identity(Role::kController, "ctl")).sign("a", welcome).value() == welcome);
  CHECK(signer_of(nullptr) == nullptr);
  CHECK(signer_of(Identity::make_own().value()) == nullptr);
}
