// Receives from any source that wait for messages to begin to come.
//
// Receives of one channel are served in the order in which they were called. Only the first of them listens,
// so that any number may wait; a message is watched for once, however many receives come to listen for it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "square/member_host.h"

namespace square {

// Thread-safe; held by a shared_ptr.
class Arrivals : public std::enable_shared_from_this<Arrivals> {
 public:
  struct Message {
    CollectiveId collective;
    OperationId operation;
    Rank source;
  };
  class Listener {
   public:
    virtual ~Listener() = default;
    [[nodiscard]] virtual bool is_waiting() const = 0;
    [[nodiscard]] virtual TimePoint deadline() const = 0;
    // It is the first of its channel: listens for every source until first_deadline().
    virtual void begin() = 0;
    // The group has failed.
    virtual void end(const Status& cause) = 0;
    // On the node's strand: see Node::watch(). A deadline may be another listener's.
    virtual void on_arrival(const Message& message, const Status& outcome) = 0;
  };

  // Waits behind those of the channel that were called before. Errors: RESOURCE_EXHAUSTED where as many wait
  // as may.
  Status enter(std::uint32_t channel, const std::shared_ptr<Listener>& listener, std::size_t max_waiting);
  // Those in front wait no more: the next one begins.
  void go_on(std::uint32_t channel);
  // When the first of those that wait in the channel is late.
  [[nodiscard]] TimePoint first_deadline(std::uint32_t channel);
  // All that wait in the channel, in order: they wait no more.
  std::vector<std::shared_ptr<Listener>> take(std::uint32_t channel);

  void listen(MemberHost& host, const Message& message, TimePoint deadline,
              std::shared_ptr<Listener> listener);

 private:
  struct Line {
    std::deque<std::shared_ptr<Listener>> listeners;
    std::multiset<TimePoint> deadlines;
  };
  using Key = std::pair<CollectiveId, OperationId>;
  struct Waiting {
    TimePoint deadline = TimePoint::max();  // of the watch that ends first
    std::vector<std::shared_ptr<Listener>> listeners;
  };
  void tell(const Message& message, const Status& outcome);

  std::mutex mutex_;
  std::map<std::uint32_t, Line> lines_;  // by channel
  std::map<Key, Waiting> waiting_;
};

}  // namespace square
