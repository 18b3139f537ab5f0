// Receives from any source that wait for messages to begin to come.
//
// A message is watched for once, however many receives wait for it: those that another source
// has served meanwhile go when the next one comes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
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
    // On the node's strand: see Node::watch(). A deadline may be another listener's.
    virtual void on_arrival(const Message& message, const Status& outcome) = 0;
  };

  void listen(MemberHost& host, const Message& message, Duration timeout, std::shared_ptr<Listener> listener);

 private:
  using Key = std::pair<CollectiveId, OperationId>;
  struct Waiting {
    TimePoint deadline = TimePoint::max();  // of the watch that ends first
    std::vector<std::shared_ptr<Listener>> listeners;
  };
  void tell(const Message& message, const Status& outcome);

  std::mutex mutex_;
  std::map<Key, Waiting> waiting_;
};

}  // namespace square
