// Neighbours that are said to be gone, while that is not to be believed yet.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "square/clock.h"

namespace square {

class Farewells {
 public:
  // Why; not to be believed before `grace_end`. What was said first stays.
  void note(const std::string& peer, const std::string& reason, TimePoint grace_end) {
    told_.emplace(peer, Told{reason, grace_end});
  }
  void forget(const std::string& peer) { told_.erase(peer); }
  [[nodiscard]] bool contains(const std::string& peer) const { return told_.contains(peer); }
  // It has a grace, which is not over.
  [[nodiscard]] bool has_grace(const std::string& peer, TimePoint now) const {
    const auto told = told_.find(peer);
    return told != told_.end() && now < told->second.grace_end;
  }
  // Why it is gone, once: nothing while its grace lasts, or nobody has said it.
  std::optional<std::string> take(const std::string& peer, TimePoint now) {
    if (!contains(peer) || has_grace(peer, now)) return std::nullopt;
    return std::move(told_.extract(peer).mapped().reason);
  }

 private:
  struct Told {
    std::string reason;
    TimePoint grace_end;
  };
  std::map<std::string, Told> told_;
};

}  // namespace square
