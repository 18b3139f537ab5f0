// Links that were up and are down.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "node/plan/installed_collective.h"
#include "square/clock.h"
#include "square/transport.h"

namespace square {

// A link is no process: one that is lost is dialled again, and what runs waits for it. A neighbour is gone
// when its process is: only that ends operations, and only those that it is a member of.
class LostLinks {
 public:
  // `node` is this node's name.
  explicit LostLinks(std::string node) : node_(std::move(node)) {}

  // Whether a stream of the collective uses the link, of which this node is the `end`.
  static bool uses(const InstalledCollective& collective, LinkEnd end, const std::string& peer);

  // Links that have not been up yet are not lost.
  void note(LinkEnd end, const std::string& peer, const std::string& reason, TimePoint now) {
    lost_[{end, peer}] = {now, reason};
  }
  // Whether it was one.
  bool forget(LinkEnd end, const std::string& peer) { return lost_.erase({end, peer}) > 0; }
  // Those that the collective's streams here use, for who waits in vain: "; link ... is down ...". Empty
  // where there is none.
  [[nodiscard]] std::string describe(const InstalledCollective& collective, TimePoint now) const;

 private:
  struct Loss {
    TimePoint since;
    std::string reason;
  };

  std::string node_;
  std::map<std::pair<LinkEnd, std::string>, Loss> lost_;
};

}  // namespace square
