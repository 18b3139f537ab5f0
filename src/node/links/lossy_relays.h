// Which relays lose what they are to pass on, as sources and roots of sums on this node see it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "node/lifetime.h"
#include "node/plan/installed_collective.h"
#include "square/clock.h"
#include "square/executor.h"
#include "square/link_report.h"

namespace square {

// The nodes between a source, or the root of a sum, and a member. Only a relay is ever blamed, never the
// member itself, which may only be slow.
struct RelayOnWay {
  std::string first;        // the one next to this node
  bool has_others = false;  // behind it
  friend bool operator==(const RelayOnWay&, const RelayOnWay&) = default;
};

// Of a stream of a multicast or a sum whose root is on this node: to the member. Nothing where no relay is on
// the way.
std::optional<RelayOnWay> relay_to(const InstalledCollective& collective, const PlanSession& session,
                                   const PlanStream& stream, NodeId member);
// Of a stream of a sum whose root is on this node: what comes over the root's neighbour `last`. Nothing where
// that adds nothing of other nodes.
std::optional<RelayOnWay> relay_from(const InstalledCollective& collective, const PlanStream& stream,
                                     const std::string& last);

// Evidence counts when it was seen within this time.
inline constexpr Duration kEvidenceTime = std::chrono::seconds(10);
// A relay is blamed when two operations, or one for this long, found that nothing came through it while other
// ways moved;
inline constexpr Duration kLeastSilenceOfRelay = std::chrono::seconds(1);
// or that it gave no credit for this long, while others did;
inline constexpr Duration kLongestLackOfCredit = std::chrono::seconds(2);
// or when at least this many blocks, this share of all, were lost in at least this many spells: a link behind
// the relay that breaks loses many at once, and no more.
inline constexpr std::size_t kLeastLostBlocks = 8;
inline constexpr double kLeastLostShare = 0.02;
inline constexpr int kLeastSpells = 4;
inline constexpr Duration kSpell = std::chrono::milliseconds(250);
// Plans avoid a relay that was blamed for the first time, then use it again. Each time that it is blamed
// within kBlameMemory of the time before doubles that.
inline constexpr Duration kFirstAvoidance = std::chrono::minutes(1);
inline constexpr Duration kLongestAvoidance = std::chrono::minutes(32);
inline constexpr Duration kBlameMemory = std::chrono::hours(1);
// At the same time.
inline constexpr std::size_t kMaxLossyRelays = 8;

// Used on the node's strand.
class LossyRelays {
 public:
  LossyRelays(std::string node, const Clock& clock, Executor& executor)
      : node_(std::move(node)), clock_(clock), executor_(executor) {}

  // Called when list() has changed.
  void set_changed(std::function<void()> changed) { changed_ = std::move(changed); }
  // Nothing has come over it although it was to, while other ways moved.
  void note_silence(const RelayOnWay& relay);
  // It has only been slow.
  void note_moves(const RelayOnWay& relay);
  // Of blocks that were to come over it, this many were lost and this many came.
  void note_blocks(const RelayOnWay& relay, std::size_t lost, std::size_t passed);
  // Another process has its name, or it is gone.
  void forget(const std::string& relay);
  // Those to be avoided.
  [[nodiscard]] std::vector<LossyRelay> list() const;

 private:
  struct Record {
    bool is_way = false;
    int silences = 0;
    TimePoint first_silence{};
    TimePoint last_silence{};
    std::size_t lost = 0;
    std::size_t passed = 0;
    int spells = 0;
    TimePoint first_lost{};
    TimePoint last_spell{};
    bool is_blamed = false;
    std::string seen{};
    Duration avoidance{0};
    TimePoint blamed_at{};
    [[nodiscard]] bool is_way_of(const RelayOnWay& relay) const { return is_way || relay.has_others; }
  };

  Record* record_of(const RelayOnWay& relay);
  void blame(const std::string& relay, Record& record, std::string seen);
  void end_avoidance(const std::string& relay);

  const std::string node_;
  const Clock& clock_;
  Executor& executor_;
  std::function<void()> changed_;
  std::map<std::string, Record> records_;
  Lifetime life_;
};

}  // namespace square
