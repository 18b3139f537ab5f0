// The neighbours that a node hears, for who is not on its strand.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace square {

// Thread-safe. A neighbour that is suspected is not heard, whatever is connected; nor one whose link was lost
// then, until a frame comes from it or a link of it comes up.
class HeardPeers {
 public:
  // A connection with the peer is up; it is down again.
  void add(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    ++connections_[peer];
  }
  void remove(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(peer);
    if (found != connections_.end() && --found->second == 0) connections_.erase(found);
  }
  void set_suspected(const std::string& peer, bool is_suspected) {
    const std::lock_guard lock(mutex_);
    if (is_suspected) {
      suspected_.insert(peer);
    } else {
      suspected_.erase(peer);
    }
  }
  [[nodiscard]] std::vector<std::string> list() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> peers;
    for (const auto& [peer, count] : connections_) {
      if (!suspected_.contains(peer)) peers.push_back(peer);
    }
    return peers;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> connections_;
  std::set<std::string> suspected_;
};

}  // namespace square
