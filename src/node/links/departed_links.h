// Links to neighbours that have left in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/outgoing_link.h"
#include "square/clock.h"
#include "square/plan.h"

namespace square {

// Operations that a departed node had finished fail, too, if no plan leads around it for this long.
inline constexpr Duration kLeaveGrace = std::chrono::seconds(5);

// A stream that leads to a departed node, and no farther, must not wait for it: once the plan says that the
// node relays nothing, what is put in line for it is dropped. Not thread-safe: used on the node's strand.
class DepartedLinks {
 public:
  using Links = std::map<std::string, std::unique_ptr<OutgoingLink>>;

  // `give_up` hears of a neighbour that what it had finished cannot end without.
  DepartedLinks(NodeContext& node, Links& links, std::function<void(const std::string&)> give_up)
      : node_(node), links_(links), give_up_(std::move(give_up)) {}

  // The newest plan that is installed here.
  void set_plan(std::shared_ptr<const Plan> plan);
  // The neighbour has left in order.
  void begin(const std::string& peer);
  // It is there again, or another process has its name.
  void forget(const std::string& peer);

 private:
  [[nodiscard]] bool takes_nothing(const std::string& peer) const;
  void look_at(const std::string& peer, Executor::TimerId& grace);
  void end_grace(const std::string& peer);

  NodeContext& node_;
  Links& links_;
  std::function<void(const std::string&)> give_up_;
  std::shared_ptr<const Plan> plan_;
  std::map<std::string, Executor::TimerId> departed_;  // and the end of their grace; 0: a plan leads around
  Lifetime life_;
};

}  // namespace square
