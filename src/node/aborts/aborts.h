// Why operations ended: told to each neighbour of a session once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "node/plan/installed_collective.h"
#include "square/clock.h"
#include "square/frame.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// Aborted operations that a node remembers, so that each abort is passed on once.
inline constexpr std::size_t kMaxRememberedAborts = 1'024;
// Of those, how many a neighbour hears again when its link comes up.
inline constexpr std::size_t kRepeatedAborts = 64;
// The most aborts of one session that are passed on within kAbortWindow. Later ones say nothing that the
// first did not, and nodes in a circle would pass on for ever what they have forgotten meanwhile.
inline constexpr std::size_t kMaxHeardAborts = 16;
inline constexpr Duration kAbortWindow = std::chrono::seconds(60);
// In an abort: whatever runs in the session.
inline constexpr OperationId kEveryOperation{~std::uint64_t{0}};

struct Abort {
  SessionId session;
  OperationId operation;
  std::uint64_t number = 0;  // only for kEveryOperation, then not 0
  Status cause;
  std::uint16_t call = 0;  // of the group, that failed: as in a frame's header; 0: not said
};

// Used on the node's strand.
class Aborts {
 public:
  // Whose session it is, in each way in which a live plan has it.
  using WaysOf = std::function<std::vector<std::shared_ptr<const InstalledCollective>>(SessionId session)>;
  // How a frame goes to a neighbour.
  struct Ways {
    std::function<void(const std::string& peer, Frame frame)> to_parent;
    std::function<void(const std::string& peer, Frame frame)> to_child;
  };
  // `node` is this node's name.
  Aborts(const std::string& node, Ways ways);

  // False if it is known already.
  [[nodiscard]] bool remember(const Abort& abort);
  // The same of one that a neighbour tells: false also if there have been many of its session of late.
  [[nodiscard]] bool hear(const Abort& abort, TimePoint now);
  // Of whatever runs in the session; remembered. Its number is this node's own.
  Abort end_session(SessionId session, const Status& cause);
  // To the session's neighbours in its collective: all but `except`.
  void pass_on(const InstalledCollective& collective, const Abort& abort,
               const std::string& except = "") const;
  // A neighbour that was out of reach may have missed why its operations will not end.
  void repeat(const WaysOf& ways_of, const std::string& peer) const;

 private:
  void tell(const InstalledCollective& collective, const Abort& abort,
            const std::function<bool(const std::string& peer)>& hears) const;

  Ways ways_;
  std::uint64_t own_;         // this node's part of a number
  std::uint64_t count_ = 0;   // of sessions that were ended
  std::deque<Abort> aborts_;  // oldest first
  TimePoint window_begin_{};
  std::map<SessionId, std::size_t> heard_;  // in the window
};

}  // namespace square
