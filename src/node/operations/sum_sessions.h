// The reduce sessions of one operation on one node.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "node/operations/operation.h"
#include "node/sums/sum_session.h"

namespace square {

// Part of an operation's work. Not thread-safe: used on the node's strand.
class SumSessions {
 public:
  struct Host {
    // A session may be done, or drained: with every block.
    std::function<void(SessionId session)> progress;
    // At a root: the sum of this block may be multicast in the session's pair.
    std::function<void(SessionId pair, std::size_t block)> on_sum;
  };
  SumSessions(Operation& operation, Host host) : operation_(operation), host_(std::move(host)) {}

  [[nodiscard]] std::shared_ptr<SumSession> find(SessionId session) const;
  // The node's part in a session of this plan: its root, or a forwarder.
  std::shared_ptr<SumSession> add(const std::shared_ptr<const InstalledCollective>& plan,
                                  const PlanSession& session, const SumShape& shape);

  // As in Operation.
  bool fill(const StreamKey& key) const;
  void shed(SessionId session) const;
  [[nodiscard]] bool runs_before(Epoch epoch) const;
  void hurry() const;
  void migrate(const std::shared_ptr<const InstalledCollective>& plan) const;

  [[nodiscard]] bool is_done(SessionId session) const;
  [[nodiscard]] bool has_results() const;
  // No sum is being made.
  [[nodiscard]] bool is_quiet() const;
  void cancel() const;
  // Begins anew: what is under way is of another cut.
  void drop();
  void abandon();
  // What is missing, in words, one for each session.
  [[nodiscard]] std::vector<std::string> unfinished() const;

 private:
  Operation& operation_;
  Host host_;
  std::map<SessionId, std::shared_ptr<SumSession>> sums_;
  std::vector<std::shared_ptr<SumSession>> former_;  // of another cut, perhaps not drained
};

}  // namespace square
