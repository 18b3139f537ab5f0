// Names of the lines of the data flow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ps/master/members.h"

namespace square::ps {

// One line between a server's process and that of a worker, or of a server that takes over a part. What is
// left of a transfer that failed stays on its line, so the next one gets another.
class Lines {
 public:
  explicit Lines(const Desk& desk) : desk_(desk) {}

  // Everything of a transfer but its ticket, shard and version.
  [[nodiscard]] v1::PsTransfer transfer(const MemberEntry& worker, const ServerEntry& server) const;
  void note_failure(const MemberEntry& worker, const ServerEntry& server);

 private:
  static std::string key(const MemberEntry& worker, const ServerEntry& server);

  const Desk& desk_;
  std::map<std::string, std::uint64_t> failures_;
  // Bounds the map: once it is full it is emptied, and the generation keeps names from being used again.
  static constexpr std::size_t kMostFailures = 65'536;
  std::uint64_t generation_ = 0;
};

}  // namespace square::ps
