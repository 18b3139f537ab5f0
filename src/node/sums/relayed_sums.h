// Partial sums that pass through a node with no member in their group.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "node/sums/sum_forwarder.h"

namespace square {

// Sums that may be under way through a node at once. One more takes the place of another of the session that
// has most: of the one that nothing was heard of for longest. What was there of that its root asks for again.
inline constexpr std::size_t kMaxRelayedSums = 4'096;
// Ended ones that are remembered, so that a late block does not open them again.
inline constexpr std::size_t kMaxEndedSums = 4'096;

// Not thread-safe: used on the node's strand.
class RelayedSums {
 public:
  struct Host {
    // To every parent of the stream.
    std::function<void(const LocalStream& stream, const Frame& frame)> answer;
    std::function<void(CollectiveId collective, OperationId operation, const Status& cause)> fail;
  };
  RelayedSums(std::shared_ptr<NodeContext> node, SumForwarder::Links& links, Host host)
      : node_(std::move(node)), links_(links), host_(std::move(host)) {}
  // What is being added then touches no link any more.
  ~RelayedSums();

  void on_block(Arrival arrival);
  void on_request(const Arrival& arrival);
  void on_report(Arrival arrival);

  // What was under way is over: of one operation, of a session, of a collective as no
  // live plan has it any more.
  void drop(SessionId session, OperationId operation);
  void drop_session(SessionId session);
  void drop_closed(const InstalledCollective& collective);

 private:
  using Key = std::pair<SessionId, OperationId>;
  struct UnderWay {
    std::shared_ptr<SumForwarder> sum;
    std::uint64_t heard = 0;  // the higher, the later
  };
  using Sums = std::map<Key, UnderWay>;
  SumForwarder* find(const Key& key);
  SumForwarder* open(const Arrival& arrival);
  void make_room();
  Sums::iterator forget(Sums::iterator sum);
  void end(const Key& key);
  void shed_after(const Key& key);
  void check(const Status& outcome, const LocalStream& stream, const FrameHeader& header);
  // Do the contributors say that they called the same?
  static Status check_call(const SumForwarder& sum, const Arrival& arrival);

  std::shared_ptr<NodeContext> node_;
  SumForwarder::Links& links_;
  Host host_;
  Sums sums_;
  std::map<SessionId, std::size_t> count_;  // of sums, by session
  std::uint64_t heard_ = 0;
  std::set<Key> ended_;
  std::deque<Key> ended_order_;  // oldest first
};

}  // namespace square
