// Members of a node that want to go on in a new group: asked for until the controller, or the next one, has
// answered.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/node_control/line.h"
#include "controller/node_control/wire.h"
#include "square/executor.h"
#include "square/group.h"

namespace square::controller {

// The time left when the controller answers, if it can.
inline constexpr Duration kAnswerTime = std::chrono::milliseconds(500);

// Of the node's strand.
class Regrouping {
 public:
  using Done = std::function<void(Result<GroupSpec>)>;
  // All must live longer.
  struct Surroundings {
    ControlWire& wire;
    const Clock& clock;
    Executor& executor;
    ControlLine& line;
    std::function<ControlWire::Number()> number;  // the next one
  };
  Regrouping(Surroundings surroundings, const NodeControlOptions& options)
      : by_(std::move(surroundings)), node_(options.node), identity_(options.identity) {}

  // As ControllerClient::regroup(), called at `begun`; `done` is called once.
  void ask(RegroupRequest request, TimePoint begun, Duration timeout, Done done);
  // The line is not as it was.
  void look();
  // All fail with `reason`.
  void stop(const Status& reason);

 private:
  struct Asked {
    RegroupRequest request;
    TimePoint begun;
    TimePoint end;
    Done done;
    ControlWire::Number call = 0;
    std::uint64_t losses = 0;  // of the line, when it was asked
    bool rests = false;
    std::vector<Executor::TimerId> timers{};
  };
  using AskedPtr = std::shared_ptr<Asked>;

  void step(const AskedPtr& one);
  void answered(const AskedPtr& one, const Result<v1::RegroupResponse>& response);
  void rest(const AskedPtr& one);
  void end(const AskedPtr& one, Result<GroupSpec> result);
  void end_late(const AskedPtr& one);
  [[nodiscard]] v1::RegroupRequest question_of(const Asked& one) const;

  const Surroundings by_;
  const std::string node_;
  const std::shared_ptr<Identity> identity_;
  std::set<AskedPtr> asked_;
};

}  // namespace square::controller
