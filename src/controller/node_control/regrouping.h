// Members of a node that want to go on in a new group: asked for until the controller, or the next one, has
// answered.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "controller/node_control/calls.h"
#include "square/group.h"

namespace square::controller {

// The time left when the controller answers, if it can.
inline constexpr Duration kAnswerTime = std::chrono::milliseconds(500);

// Of the node's strand.
class Regrouping {
 public:
  using Done = std::function<void(Result<GroupSpec>)>;
  Regrouping(Calls& calls, const NodeControlOptions& options)
      : calls_(calls), node_(options.node_name), identity_(options.identity) {}

  // As ControllerClient::regroup(), called at `begun`; `done` is called once.
  void ask(RegroupRequest request, TimePoint begun, Duration timeout, Done done);
  // The line is not as it was.
  void look();
  // All fail with `reason`.
  void stop(const Status& reason);

 private:
  struct Asked {
    RegroupRequest request;
    Asker<GroupSpec> asker;
    Call call{};
  };
  using AskedPtr = std::shared_ptr<Asked>;

  void step(const AskedPtr& one);
  void answered(const AskedPtr& one, const Result<v1::RegroupResponse>& response);
  void rest(const AskedPtr& one);
  void end(const AskedPtr& one, Result<GroupSpec> result);
  void end_late(const AskedPtr& one);
  [[nodiscard]] v1::RegroupRequest question_of(const Asked& one) const;

  Calls& calls_;
  const std::string node_;
  const std::shared_ptr<Identity> identity_;
  std::set<AskedPtr> asked_;
};

}  // namespace square::controller
