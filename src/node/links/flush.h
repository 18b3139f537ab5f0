// When a node sends: once for all that it has to send.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "node/lifetime.h"
#include "node/plan/installed_collective.h"
#include "square/executor.h"

namespace square {

// Whoever has something to send says so, and sends nothing. One task on the strand, which is in the
// executor's queue while anything is due, then asks sources for blocks and hands frames to the
// transport, in turn, until neither has more to do. So nobody who queues a frame is called back from
// there, and what several events gave one link to send goes out together. Not thread-safe: used on
// the node's strand.
class Flush {
 public:
  // An end of a link.
  class Link {
   public:
    virtual ~Link() = default;
    // Hands over what may go now. A link that stops before that, to let sources put more in
    // line, is marked by itself again.
    virtual void send_due() = 0;

   protected:
    // It is to send.
    [[nodiscard]] bool is_marked() const { return is_due_; }

   private:
    friend class Flush;
    bool is_due_ = false;
  };
  // Lets the operations of a stream that starts here put blocks on it.
  using Fill = std::function<void(const StreamKey& key)>;

  Flush(Executor& executor, Fill fill) : executor_(executor), fill_(std::move(fill)) {}

  // The link may have something that can go out. It must be forgotten before it is destroyed.
  void mark(Link& link);
  // A stream that starts here has room for blocks, or its operations have more for it.
  void mark_room(const StreamKey& key);
  void forget(const Link& link);

 private:
  void post();
  void run();
  void fill_rooms();

  Executor& executor_;
  Fill fill_;
  std::deque<Link*> due_;  // in the order in which they were marked
  std::vector<StreamKey> rooms_;
  bool is_posted_ = false;  // or running
  Lifetime life_;
};

}  // namespace square
