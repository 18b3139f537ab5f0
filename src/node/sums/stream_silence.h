// Which streams of a sum nothing comes through any more, as its root sees it.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "square/clock.h"
#include "square/ids.h"
#include "square/units.h"

namespace square {

// Who was asked on a stream for how far it is has so long to answer there.
inline constexpr Duration kLeastAnswerTime = std::chrono::seconds(1);
// Who has not answered for so long is in doubt: others are to show whether it lives.
inline constexpr Duration kDoubtTime = kLeastAnswerTime / 2;

// A contributor that does not answer on one stream and answers on another lives: what does not let its
// answers through is the stream, of which the root moves the blocks to others. One that is silent on all is
// waited for. Not thread-safe.
class StreamSilence {
 public:
  void clear() {
    waiting_.clear();
    heard_.clear();
  }
  // The contributors are asked on the stream.
  void on_question(StreamIndex stream, const std::vector<NodeId>& contributors, TimePoint now) {
    for (const NodeId contributor : contributors) waiting_[stream].try_emplace(contributor, now);
  }
  void on_answer(StreamIndex stream, NodeId contributor, TimePoint now) {
    waiting_[stream].erase(contributor);
    heard_[{stream, contributor}] = now;
  }
  // A part came on it: something moves there.
  void on_part(StreamIndex stream) { waiting_.erase(stream); }
  // Contributors that were asked on the stream and have not answered there.
  [[nodiscard]] std::vector<NodeId> awaited_on(StreamIndex stream) const {
    std::vector<NodeId> awaited;
    const auto found = waiting_.find(stream);
    if (found == waiting_.end()) return awaited;
    for (const auto& [contributor, asked_at] : found->second) awaited.push_back(contributor);
    return awaited;
  }
  [[nodiscard]] bool is_in_doubt(TimePoint now) const {
    return std::ranges::any_of(waiting_, [&](const auto& entry) {
      return std::ranges::any_of(entry.second,
                                 [&](const auto& asked) { return now - asked.second >= kDoubtTime; });
    });
  }

  // Of the streams those to be left, if on all others every contributor has answered since; else none.
  // `patience` has what each may take.
  [[nodiscard]] std::set<StreamIndex> find(const std::map<StreamIndex, Duration>& patience,
                                           const std::vector<NodeId>& contributors, TimePoint now) const {
    std::set<StreamIndex> silent;
    TimePoint since = now;
    for (const auto& [stream, waiting] : waiting_) {
      const auto longest = patience.find(stream);
      if (longest == patience.end()) continue;
      for (const auto& [contributor, asked_at] : waiting) {
        if (now - asked_at < longest->second) continue;
        silent.insert(stream);
        since = std::min(since, asked_at);
      }
    }
    const auto answers = [&](const auto& entry) {
      return silent.contains(entry.first) || std::ranges::all_of(contributors, [&](NodeId contributor) {
               const auto heard = heard_.find({entry.first, contributor});
               return heard != heard_.end() && heard->second >= since;
             });
    };
    if (silent.size() >= patience.size() || !std::ranges::all_of(patience, answers)) silent.clear();
    return silent;
  }

 private:
  std::map<StreamIndex, std::map<NodeId, TimePoint>> waiting_;  // since when
  std::map<std::pair<StreamIndex, NodeId>, TimePoint> heard_;
};

}  // namespace square
