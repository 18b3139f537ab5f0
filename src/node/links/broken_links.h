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

// By their tails: who sends on a link knows first, and looks. A link that is reported is dialled also when no
// plan needs it any more, for only so it can be used again. Used on the node's strand.
class BrokenLinks {
 public:
  // Those at the other ends, by name, whenever they change.
  using Report = std::function<void(std::vector<std::string> peers)>;
  // Whether a plan needs the link, and its peer's process may be there: else there is nothing to avoid.
  using IsWanted = std::function<bool(const std::string& peer)>;

  BrokenLinks(NodeContext& node, IsWanted is_wanted) : node_(node), is_wanted_(std::move(is_wanted)) {}

  // Called at once if there are any.
  void set_report(Report report);
  // The link to it is down, or the peer silent. It is reported if it is still so after `grace`.
  void note_bad(const std::string& peer, Duration grace);
  // It is up, and the peer speaks.
  void note_well(const std::string& peer);
  // It is not the same process any more, or gone.
  void forget(const std::string& peer);
  // It was reported, and that was not taken back.
  [[nodiscard]] bool contains(const std::string& peer) const;

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
  std::map<std::string, Link> links_;
  std::uint64_t changes_ = 0;
  Lifetime life_;
};

}  // namespace square
