// A plan as one node sees it. The node's part of it says the same as the whole.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/plan/installed_collective.h"
#include "node/plan/stream_windows.h"
#include "square/plan.h"

namespace square {

class InstalledPlan {
 public:
  using CollectivePointer = std::shared_ptr<const InstalledCollective>;

  // `window_bytes` is what all hops into this node may reserve together; two blocks a
  // stream are reserved even where that is more. What is as it is in `base`, the plan installed before, is
  // shared with it, and has this plan's windows from now on. So is what is as it is in one of `others`.
  InstalledPlan(std::shared_ptr<const Plan> plan, const std::string& self, std::size_t window_bytes,
                const InstalledPlan* base = nullptr, const std::vector<const InstalledPlan*>& others = {});
  InstalledPlan(const InstalledPlan&) = delete;
  InstalledPlan& operator=(const InstalledPlan&) = delete;

  [[nodiscard]] const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] Epoch epoch() const { return plan_->epoch; }
  // This node's number; nothing if the plan does not know it.
  [[nodiscard]] std::optional<NodeId> self() const { return self_; }

  // None if the plan does not know it.
  [[nodiscard]] CollectivePointer find(CollectiveId collective) const;
  // What is not shared with another plan, which may be none, by ascending numbers.
  void each_not_in(const InstalledPlan* other,
                   const std::function<void(const CollectivePointer& collective)>& act) const;
  [[nodiscard]] std::vector<const LocalStream*> streams() const;

  // What this node may send to `peer`, bits per second: the capacity, and where this node
  // or the peer has a limit no more than leaves the other links their planned load. Nothing for a link that
  // the plan does not know: it is down, or its peer is.
  [[nodiscard]] std::optional<double> pace_bps(const std::string& peer) const;
  // What `peer` may send to this node, by the same rule.
  [[nodiscard]] std::optional<double> pace_from_bps(const std::string& peer) const;
  [[nodiscard]] double egress_bps() const;
  // The most that one of the links which this node uses may carry; 0 if it uses none.
  [[nodiscard]] double fastest_link_bps() const { return fastest_link_bps_; }

 private:
  struct Part {
    CollectivePointer collective;
    std::shared_ptr<const std::vector<WindowNeed>> needs;
  };

  void share(const InstalledPlan* base, const std::vector<const InstalledPlan*>& others);
  void add_collectives();
  void note_links();
  void fit(std::size_t window_bytes, const InstalledPlan* base);
  [[nodiscard]] const Part* part_of(CollectiveId collective) const;
  [[nodiscard]] std::optional<double> pace_between(std::optional<NodeId> tail,
                                                   std::optional<NodeId> head) const;

  std::shared_ptr<const Plan> plan_;
  std::optional<NodeId> self_;
  NodeNames names_;
  double fastest_link_bps_ = 0;
  // Of the links that this node is an end of.
  std::map<std::pair<NodeId, NodeId>, double> paces_;
  LinksIn links_in_;
  std::vector<Part> parts_;  // by ascending numbers
};

}  // namespace square
