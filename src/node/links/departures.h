// Nodes that have left the overlay or died, and those that are said to have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "node/plan/installed_collective.h"
#include "square/finished_operations.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// A node that is gone ends the operations that it is a member of. One that left in order has said how many
// operations of each collective it had finished: these come to their end without it. Not thread-safe: used on
// the node's strand.
class Departures {
 public:
  // `finished` of a node that left in order. Not believed yet; what is said first stays.
  void announce(const std::string& peer, std::string reason, std::optional<FinishedOperations> finished) {
    announced_.try_emplace(peer, Departure{std::move(reason), std::move(finished)});
  }
  [[nodiscard]] bool is_announced(const std::string& peer) const { return announced_.contains(peer); }
  // It is gone: as it was announced, or for this reason.
  void confirm(const std::string& peer, std::string reason) {
    announce(peer, std::move(reason), std::nullopt);
    gone_.insert(announced_.extract(peer));
  }
  // It is there, or another process has its name.
  void forget(const std::string& peer);
  // What it had finished cannot come to its end without it.
  void end_grace(const std::string& peer);

  [[nodiscard]] bool is_empty() const { return gone_.empty(); }
  [[nodiscard]] bool is_gone(const std::string& peer) const { return gone_.contains(peer); }
  [[nodiscard]] bool is_said_to_be_gone(const std::string& peer) const {
    return is_gone(peer) || is_announced(peer);
  }
  // It left in order, or is said to.
  [[nodiscard]] bool has_said_goodbye(const std::string& peer) const;
  [[nodiscard]] bool left_in_order(const std::string& peer) const;
  // It left after its members had this operation's result.
  [[nodiscard]] bool has_finished(const std::string& peer, CollectiveId collective,
                                  OperationId operation) const;
  // UNAVAILABLE with the name of a member of the session, or of one of the collective's, that is gone and
  // had not finished the operation.
  [[nodiscard]] Status check(const InstalledCollective& collective, const PlanSession& session,
                             OperationId operation) const;
  [[nodiscard]] Status check(const InstalledCollective& collective, OperationId operation) const;

 private:
  struct Departure {
    std::string reason;
    std::optional<FinishedOperations> finished;
  };
  std::map<std::string, Departure> announced_;
  std::map<std::string, Departure> gone_;
};

}  // namespace square
