#include "controller/grpc/suspicions.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/log.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

constexpr std::int64_t kLogMilliseconds = 60'000;

std::int64_t wall_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Suspicions::note(const std::string& node, const v1::Sights& sights) {
  const std::int64_t now = wall_milliseconds();
  const std::lock_guard lock(mutex_);
  for (const BlockSight& sight : from_message(sights)) {
    for (const trust::BlockDifference& difference : audit_.note(node, sight))
      note_difference(difference, now);
  }
}

void Suspicions::note_difference(const trust::BlockDifference& difference, std::int64_t now) {
  Pair& pair = pairs_[{difference.from, difference.to}];
  ++pair.count;
  pair.session = difference.session;
  pair.last_milliseconds = now;
  if (pair.count == 1 || now - pair.logged_milliseconds >= kLogMilliseconds) {
    pair.logged_milliseconds = now;
    log(LogLevel::kError, {.component = "controller"},
        "nodes \"{}\" and \"{}\" differ about what went from the one to the other ({} blocks so far, of "
        "session {} "
        "now): one of them changes blocks, or lies; revoke it with `square ca revoke`, or plan around it",
        difference.from, difference.to, pair.count, difference.session.value());
  }
  if (pairs_.size() <= kMaxSuspicions) return;
  pairs_.erase(
      std::ranges::min_element(pairs_, {}, [](const auto& one) { return one.second.last_milliseconds; }));
}

void Suspicions::list(v1::ExamineResponse& response) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [nodes, pair] : pairs_) {
    v1::Suspicion& added = *response.add_suspicions();
    added.set_from(nodes.first);
    added.set_to(nodes.second);
    added.set_count(pair.count);
    added.set_session(pair.session.value());
    added.set_milliseconds(pair.last_milliseconds);
  }
  std::sort(response.mutable_suspicions()->begin(), response.mutable_suspicions()->end(),
            [](const v1::Suspicion& one, const v1::Suspicion& other) { return one.count() > other.count(); });
}

}  // namespace square::controller
