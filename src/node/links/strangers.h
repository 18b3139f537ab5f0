// Links of nodes that nobody has named.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "square/transport.h"

namespace square {

// Nodes that the controller has not named may be early: their links have a place among so many.
inline constexpr std::size_t kMaxStrangers = 64;

// Not thread-safe.
class Strangers {
 public:
  // The controller has.
  void name(const std::string& peer) {
    named_.insert(peer);
    std::erase_if(links_, [&](const auto& link) { return link.second == peer; });
  }
  // Whether a link that the peer has opened may be used.
  [[nodiscard]] bool admit(LinkHandle link, const std::string& peer) {
    if (named_.contains(peer)) return true;
    if (links_.size() >= kMaxStrangers) return false;
    return links_.emplace(link, peer).second;
  }
  void forget(LinkHandle link) { links_.erase(link); }

 private:
  std::set<std::string> named_;
  std::map<LinkHandle, std::string> links_;
};

}  // namespace square
