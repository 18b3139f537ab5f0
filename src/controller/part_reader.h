// A node's end of plans: puts together what it is sent of each.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "square/plan.h"
#include "square/status.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// So many plans are kept to be told differences against: the active one, those on their way, and one more.
inline constexpr std::size_t kKeptParts = 4;

// Of one connection: another one begins with whole parts. Not thread-safe.
class PartReader {
 public:
  explicit PartReader(std::string node) : node_(std::move(node)) {}

  // It is told against a plan that is not here.
  [[nodiscard]] bool lacks_base(const v1::PlanPart& part) const;
  // The node's part of the plan: Plan::part. Errors: INVALID_ARGUMENT for what no plan can be;
  // FAILED_PRECONDITION where lacks_base(). Takes memory in proportion to the message and its base.
  Result<std::shared_ptr<const Plan>> read(const v1::PlanPart& part);

 private:
  [[nodiscard]] const Plan* base_of(const v1::PlanPart& part) const;

  std::string node_;
  std::deque<std::shared_ptr<const Plan>> kept_;  // oldest first
};

}  // namespace square::controller
