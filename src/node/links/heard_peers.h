// The neighbours that a node hears, for who is not on its strand.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace square {

// Thread-safe.
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
  [[nodiscard]] std::vector<std::string> list() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> peers;
    for (const auto& [peer, count] : connections_) peers.push_back(peer);
    return peers;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> connections_;
};

}  // namespace square
