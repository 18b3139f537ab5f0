// Which nodes are gone, as nodes say whose connections are refused there.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/members.h"
#include "square/clock.h"

namespace square::controller {

// A refused connection is no death: an address may be wrong, and something on the way may refuse in the
// node's name. A node is gone when its line broke, no other node hears it, and this many nodes say that its
// host refuses them.
inline constexpr std::size_t kRefusalWitnesses = 2;
// Where one says so, this many others are asked to dial it. Where none of them can say anything, the node is
// gone once it has been refused for this long.
inline constexpr std::size_t kMaxAskedToLook = 3;
inline constexpr Duration kLongestRefusal = std::chrono::seconds(3);
// While such a node's line is broken, it is judged again this often.
inline constexpr Duration kJudgeAgain = std::chrono::milliseconds(250);
// What a node said of those that it hears is believed for this long.
inline constexpr Duration kFreshWord = std::chrono::milliseconds(2'500);
// Of one node no more are believed.
inline constexpr int kMaxRefused = 1'000;

// Not thread-safe.
class RefusedNodes {
 public:
  using TimePoint = Members::TimePoint;

  // All that the reporter has to say, in the place of what it said before. Whether unreachable() changes.
  bool note(const std::string& reporter, const v1::BrokenLinks& report, const Members& members,
            TimePoint now);
  // This process was refused itself: that is no witness, for it may run beside one, but time passes from then
  // on. Not of nodes that are no members.
  void note_own(const std::string& node, const Members& members, TimePoint now);
  // It has left, or is another process: it reports nothing, and nothing that was said of it counts.
  void forget(const std::string& node);
  // Takes those that are gone from the members, and asks others to look for those that may be. The names of
  // the former.
  std::vector<std::string> judge(Members& members, TimePoint now);
  struct Gone {
    std::string node;
    std::string address;
    TimePoint since;
  };
  [[nodiscard]] std::vector<Gone> find_gone(const Members& members, TimePoint now);
  // Pairs of a node to ask, once, and the node that it is to look for.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> take_questions(const Members& members,
                                                                                TimePoint now);
  // When find_gone() is due; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(const Members& members, TimePoint now, TimePoint latest) const;
  // Nodes that are connected and that kRefusalWitnesses others cannot reach: as relays they are of no use.
  [[nodiscard]] std::set<std::string> unreachable(const Members& members) const;

 private:
  struct Refusal {
    TimePoint since{};
    bool is_heard = false;  // by the reporter
  };
  struct Refused {
    std::map<std::string, Refusal> reporters{};  // by name; kOwn for this process
    std::set<std::string> asked{};
  };

  static constexpr const char* kOwn = "";

  [[nodiscard]] static bool is_connected(const Members& members, const std::string& node);
  [[nodiscard]] bool is_heard(const std::string& node, const Members& members, TimePoint now) const;

  std::map<std::string, Refused> refused_;
};

}  // namespace square::controller
