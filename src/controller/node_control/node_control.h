// A node's side of control: what it says to its controller, and what it makes of what it hears.
#pragma once

#include <string>
#include <vector>

#include "controller/node_control/line.h"
#include "controller/node_control/registering.h"
#include "controller/node_control/regrouping.h"
#include "square/controller_client.h"

namespace square::controller {

// Decides all that ControllerClient does, without a wire or a clock of its own: the simulation runs it as it
// is. Of the node's strand, which runs nothing more when it goes; what its constructor is given must live
// longer.
class NodeControl {
 public:
  NodeControl(ControlWire& wire, const Clock& clock, const std::shared_ptr<Executor>& executor,
              const NodeControlOptions& options, ControlledNode& node);

  // As ControlLine::start().
  void start(std::function<void(Status)> settled) { line_.start(std::move(settled)); }

  // As ControllerClient has them, called at `begun`; `done` is called once.
  void register_group(GroupSpec group, TimePoint begun, Duration timeout, Registering::Done done);
  void regroup(RegroupRequest request, TimePoint begun, Duration timeout, Regrouping::Done done);
  void close_group(const std::string& group, std::uint64_t number) {
    registering_.close_group(group, number);
  }
  void report_broken_links(LinkTroubles troubles) { line_.report_broken_links(std::move(troubles)); }
  void report_sights(const std::vector<BlockSight>& sights) { line_.report_sights(sights); }
  // Fails what is asked and what will be with CANCELLED, and goes on as ControlLine::leave().
  void leave(const FinishedOperations& finished, std::function<void()> left);

  [[nodiscard]] bool is_welcome() const { return line_.is_welcome(); }
  [[nodiscard]] bool has_active_plan() const { return line_.has_active_plan(); }
  [[nodiscard]] const std::string& controller() const { return line_.controller(); }

 private:
  void look();

  Recollection recollection_;
  ControlLine line_;
  Calls calls_;
  Registering registering_;
  Regrouping regrouping_;
  bool has_left_ = false;
};

}  // namespace square::controller
