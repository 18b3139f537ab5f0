// Which neighbours differ about blocks that went between them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "square/v1/controller.pb.h"
#include "trust/block_audit.h"

namespace square::controller {

// Pairs that are remembered; the one that has differed the longest ago goes for one more.
inline constexpr std::size_t kMaxSuspicions = 1'024;

// Thread-safe.
class Suspicions {
 public:
  // What the node says that it has seen. Logs a pair that differs for the first time, and once a minute
  // again.
  void note(const std::string& node, const v1::Sights& sights);
  // The most frequent first.
  void list(v1::ExamineResponse& response) const;

 private:
  struct Pair {
    std::uint64_t count = 0;
    SessionId session;
    std::int64_t last_milliseconds = 0;
    std::int64_t logged_milliseconds = 0;
  };
  void note_difference(const trust::BlockDifference& difference, std::int64_t now);

  mutable std::mutex mutex_;
  trust::BlockAudit audit_;
  std::map<std::pair<std::string, std::string>, Pair> pairs_;
};

}  // namespace square::controller
