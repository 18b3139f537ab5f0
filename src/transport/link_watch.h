// How long a link's round trip takes, and whether its peer is suspected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "square/clock.h"
#include "square/units.h"

namespace square {

// A link in use is looked at so often. Its peer is asked when it has said nothing since the last look, and
// for the round trip at least every kRoundTripInterval.
inline constexpr Duration kWatchInterval = std::chrono::milliseconds(250);
inline constexpr Duration kRoundTripInterval = std::chrono::seconds(1);
// Nobody is suspected sooner.
inline constexpr Duration kMinSuspicionTime = std::chrono::seconds(1);

// At a link's tail. A peer is suspected when it owes an answer, and has said nothing and taken nothing for
// longer than max(kMinSuspicionTime, 4 round trips, the smoothed round trip and 4 of its deviations). That is
// no death: when it speaks, it is not suspected any more. A watcher that was kept from looking was kept from
// hearing, too: the time before a late look does not count. No round trip is learned from a ping that waited
// through a suspicion or a late look: the next silence would be noticed later. Not thread-safe.
class LinkWatch {
 public:
  static constexpr std::size_t kSamples = 60;
  // A look that comes this long after the one before it is late.
  static constexpr Duration kLateLook = 2 * kWatchInterval;
  // After this many pings in a row that waited about as long, that is taken for the round trip.
  static constexpr int kAlikeWaits = 6;
  // One sample moves the deviation by this many times the larger of the deviation and kLeastDeviation at the
  // most: one pause of the peer, too short for a suspicion, does not make the watcher patient.
  static constexpr int kMostDeviations = 4;
  static constexpr Duration kLeastDeviation = std::chrono::milliseconds(25);

  // Frames were sent: the peer will answer.
  void note_use() { in_use_ = owes_ = true; }
  // The peer has said something. True if it was suspected until now.
  bool note_heard();
  // The looks begin (again).
  void begin(TimePoint now) { looked_at_ = now; }
  // After every kWatchInterval, until it rests. `takes`: the peer has taken bytes since the last look, and
  // more is in line. True if it is suspected from now on.
  bool look(TimePoint now, bool takes);
  // Nothing is under way: no look is needed until the next use.
  [[nodiscard]] bool rests() const { return !in_use_ && !owes_ && !due_ && !under_way_; }
  // How long the peer may be silent.
  [[nodiscard]] Duration patience() const;

  [[nodiscard]] bool ping_is_due() const { return due_; }
  // A ping leaves now; its number.
  std::uint64_t ping(TimePoint now);
  // The new estimate, the least of the last kSamples: a ping that is answered late waited behind data.
  // Nothing for a number that was not asked for, and for a ping that waited through a suspicion or a late
  // look.
  std::optional<Duration> pong(std::uint64_t number, TimePoint now);

 private:
  [[nodiscard]] Duration least() const;
  void learn(Duration sample);
  void doubt(Duration sample);

  std::array<Duration, kSamples> samples_{};
  std::size_t taken_ = 0;
  Duration smoothed_{0};
  Duration deviation_{0};
  // Of pings that waited, where the round trip may really be so long: until one that is short is answered.
  Duration doubtful_{0};
  Duration waited_{0};  // the last ping that waited
  int alike_ = 0;       // so many in a row waited alike
  std::uint64_t number_ = 0;
  TimePoint left_at_{};
  TimePoint looked_at_{};
  Duration silence_{0};  // in whole steps in which it owed an answer
  bool is_suspected_ = false;
  bool due_ = true;  // the first measurement needs no use
  bool under_way_ = false;
  bool has_waited_ = false;  // the ping under way: through a suspicion, or a late look
  bool in_use_ = false;      // since the last ping
  bool owes_ = false;
  bool owed_ = false;        // at the last look
  bool has_spoken_ = false;  // since the last look
};

}  // namespace square
