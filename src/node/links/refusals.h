// Neighbours whose hosts refuse connections.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/broken_links.h"
#include "square/clock.h"
#include "square/status.h"

namespace square {

// A neighbour whose host refuses this many attempts in a row is reported as refused: the controller asks
// others whether they hear it.
inline constexpr int kAttemptsOfRefused = 2;
// Where no controller is connected that could ask, a neighbour is gone when its host has refused it for this
// long.
inline constexpr Duration kLongestRefusal = std::chrono::seconds(3);

// A neighbour's process may be no more, its address may be wrong, or something on the way refuses connections
// in its name. Used on the node's strand.
class Refusals {
 public:
  struct Host {
    // A link of the neighbour is up.
    std::function<bool(const std::string& peer)> is_up;
    // It is gone already, or has said goodbye: nobody need judge.
    std::function<bool(const std::string& peer)> has_left;
    std::function<void(const std::string& peer, const std::string& reason)> set_gone;
  };
  Refusals(NodeContext& node, BrokenLinks& broken, Host host)
      : node_(node), broken_(broken), host_(std::move(host)) {}

  // Its host has refused an attempt to connect.
  void note(const std::string& peer, const std::string& address, const Status& reason);
  // Its host does not refuse any more, or it has another address.
  void forget(const std::string& peer);
  // The neighbour is dialled, whether or not a plan needs it, until something is known of it.
  void seek(const std::string& peer) { sought_.insert(peer); }
  void end_seeking(const std::string& peer) { sought_.erase(peer); }
  // It is to be dialled on.
  [[nodiscard]] bool is_dialled(const std::string& peer) const {
    return broken_.is_refused(peer) || sought_.contains(peer);
  }

 private:
  struct Refused {
    int attempts = 0;  // in a row
    TimePoint since{};
  };

  void judge(const std::string& peer, const std::string& address);

  NodeContext& node_;
  BrokenLinks& broken_;
  const Host host_;
  std::map<std::string, Refused> refused_;
  std::set<std::string> sought_;
  Lifetime life_;
};

}  // namespace square
