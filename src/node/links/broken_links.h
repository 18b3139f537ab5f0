// Which links from this node are broken, as the controller is to know: plans go around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "node/context.h"
#include "node/lifetime.h"
#include "square/clock.h"
#include "square/link_report.h"

namespace square {

// A link that is lost is reported unless it is back by then, and four of its round trips: most are.
inline constexpr Duration kLostGrace = std::chrono::milliseconds(200);
// One to a suspect unless that speaks by then.
inline constexpr Duration kSuspectGrace = std::chrono::milliseconds(100);
// One that has not been up yet: processes take time to start.
inline constexpr Duration kFirstGrace = std::chrono::seconds(3);
// A link that was reported must be well for so long before that is taken back. Each time that it breaks
// again within kFlapTime doubles that.
inline constexpr Duration kMinTrial = std::chrono::seconds(1);
inline constexpr Duration kMaxTrial = std::chrono::seconds(30);
inline constexpr Duration kFlapTime = std::chrono::seconds(60);
// More are not reported.
inline constexpr std::size_t kMaxBrokenLinks = 256;

// The tail of a link reports it, for the tail looks and knows first. A link that is reported is dialled also
// when no plan needs it any more, for only so it can be used again. With them the controller hears of
// neighbours whose hosts refuse connections, and of lossy relays. Used on the node's strand.
class BrokenLinks {
 public:
  // All that is wrong, whenever that changes.
  using Report = std::function<void(LinkTroubles troubles)>;
  // Whether a controller is connected that hears it.
  using HasController = std::function<bool()>;
  // Whether a plan needs the link, and its peer's process may be there: else there is nothing to avoid.
  using IsWanted = std::function<bool(const std::string& peer)>;

  BrokenLinks(NodeContext& node, IsWanted is_wanted);
  ~BrokenLinks() { node_.lossy.set_changed(nullptr); }
  BrokenLinks(const BrokenLinks&) = delete;
  BrokenLinks& operator=(const BrokenLinks&) = delete;

  // Called at once if there is anything to report.
  void set_report(Report report, HasController has_controller);
  [[nodiscard]] bool has_controller() const { return has_controller_ && has_controller_(); }
  // It has one, and no line to it now.
  [[nodiscard]] bool lacks_controller() const { return has_controller_ && !has_controller_(); }
  // The link to it is down, or the peer silent. It is reported if it is still so after `grace`.
  void note_bad(const std::string& peer, Duration grace);
  // Its host has refused connections since then: a bad link is reported now. Returns whether that is news.
  bool note_refused(const std::string& peer, TimePoint since, bool is_heard);
  // Its host does not any more.
  void note_not_refused(const std::string& peer);
  [[nodiscard]] bool is_refused(const std::string& peer) const { return refused_.contains(peer); }
  // It is up, and the peer speaks.
  void note_well(const std::string& peer);
  // It is not the same process any more, or gone.
  void forget(const std::string& peer);
  // It was reported, and that was not taken back.
  [[nodiscard]] bool contains(const std::string& peer) const;
  [[nodiscard]] LinkTroubles troubles() const;

 private:
  struct Link {
    bool is_bad = false;
    bool is_reported = false;
    Duration trial = kMinTrial;
    std::optional<TimePoint> taken_back_at{};
    std::uint64_t change = 0;  // what was to follow an earlier one does not any more
  };
  using Step = void (BrokenLinks::*)(const std::string& peer);

  void after(const std::string& peer, Duration time, Step step);
  void report(const std::string& peer);
  void take_back(const std::string& peer);
  void drop(const std::string& peer) { links_.erase(peer); }
  void tell() const;
  [[nodiscard]] std::vector<std::string> reported() const;

  NodeContext& node_;
  IsWanted is_wanted_;
  Report report_;
  HasController has_controller_;
  std::map<std::string, Link> links_;
  std::map<std::string, RefusedPeer> refused_;
  std::uint64_t changes_ = 0;
  Lifetime life_;
};

}  // namespace square
