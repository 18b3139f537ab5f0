// Which process has a neighbour's name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace square {

// Used on the node's strand.
class Incarnations {
 public:
  // `incarnation` is that of the process that has the name now; 0: nobody knows. Whether another had it
  // before.
  bool note(const std::string& peer, std::uint64_t incarnation) {
    if (incarnation == 0) return false;
    const auto known = known_.try_emplace(peer, incarnation).first;
    return std::exchange(known->second, incarnation) != incarnation;
  }

 private:
  std::map<std::string, std::uint64_t> known_;
};

}  // namespace square
