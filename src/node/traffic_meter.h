// Counts what a node carries, by link, session and tenant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "square/metrics.h"
#include "square/plan.h"

namespace square {

// Counters by key. Those whose key left are remembered for a while, within a bound, so that
// they go on where they were when it comes back. Who counts often keeps the counters themselves.
template <typename Key, typename Tally>
class Ledger {
 public:
  struct Entry {
    std::shared_ptr<Tally> tally = std::make_shared<Tally>();
    std::optional<std::uint64_t> left;  // how many left before; nothing while it is here
  };

  std::shared_ptr<Tally> operator[](const Key& key) { return entries_[key].tally; }
  [[nodiscard]] std::shared_ptr<Tally> find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.tally;
  }
  [[nodiscard]] const std::map<Key, Entry>& entries() const { return entries_; }

  [[nodiscard]] const std::vector<Key>& here() const { return here_; }
  // These have come; those that were here stay. Ordered, each once.
  void add(const std::vector<Key>& come) {
    const std::vector<Key> news = welcome(come);
    const auto middle = here_.insert(here_.end(), news.begin(), news.end());
    std::ranges::inplace_merge(here_, middle);
  }
  // These are here, ordered and each once, all others are not. One that still holds memory is never
  // forgotten. Looks at what came and what left, not at all that left before.
  void keep(std::vector<Key> here) {
    std::vector<Key> gone;
    std::ranges::set_difference(here_, here, std::back_inserter(gone));
    welcome(here);
    here_ = std::move(here);
    for (const Key& key : gone) {
      entries_[key].left = departures_;
      departed_.emplace(departures_++, key);
    }
    if (!gone.empty() && departed_.size() > kMaxDepartedCounters) forget_oldest();
  }

 private:
  // Returns those that were not here.
  std::vector<Key> welcome(const std::vector<Key>& come) {
    std::vector<Key> news;
    std::ranges::set_difference(come, here_, std::back_inserter(news));
    for (const Key& key : news) {
      Entry& entry = entries_[key];
      if (entry.left) departed_.erase(*entry.left);
      entry.left.reset();
    }
    return news;
  }
  void forget_oldest() {
    const auto may_go = [&](const auto& one) { return !entries_[one.second].tally->holds_memory(); };
    auto count = static_cast<std::size_t>(std::ranges::count_if(departed_, may_go));
    for (auto one = departed_.begin(); count > kMaxDepartedCounters;) {
      const auto next = std::next(one);
      if (may_go(*one)) {
        entries_.erase(one->second);
        departed_.erase(one);
        --count;
      }
      one = next;
    }
  }

  std::map<Key, Entry> entries_;
  std::vector<Key> here_;                  // in their order
  std::map<std::uint64_t, Key> departed_;  // in the order in which they left
  std::uint64_t departures_ = 0;
};

struct LinkTally {
  LinkMetrics counters;
  double wire_bits = 0;

  [[nodiscard]] static bool holds_memory() { return false; }
  void on_block(std::size_t bytes);
  // A frame without a block, of this many bits.
  void on_other(double bits) { wire_bits += bits; }
};

struct TenantTally {
  TenantMetrics counters;

  [[nodiscard]] bool holds_memory() const { return counters.bytes_in_transit > 0 || counters.bytes_held > 0; }
};

// Counts for its tenant, too.
struct SessionTally {
  SessionMetrics counters;
  std::shared_ptr<TenantTally> tenant = std::make_shared<TenantTally>();
  std::uint64_t bytes_in_transit = 0;
  std::uint64_t bytes_held = 0;

  [[nodiscard]] bool holds_memory() const { return bytes_in_transit > 0 || bytes_held > 0; }
  void on_sent(std::size_t bytes);
  void on_received(std::size_t bytes);
  void on_resent();
  void on_delivered(std::size_t bytes);
  void on_taken(std::size_t bytes);
  void on_released(std::size_t bytes);
  void on_held(std::size_t bytes);
  void on_let_go(std::size_t bytes);
};

// Not thread-safe: used on the node's strand. Sessions that no live plan has led through
// this node are not counted.
class TrafficMeter {
 public:
  // One more plan is live here.
  void add(const std::string& self, const Plan& plan);
  // Which plans are live here, and which of them is active, if any.
  void follow(const std::string& self, const std::vector<const Plan*>& live, const Plan* active);

  // The counters to keep for a stream of a live plan. Of what is not counted, some that nobody sees.
  [[nodiscard]] std::shared_ptr<LinkTally> link(const std::string& peer, LinkDirection direction) const;
  [[nodiscard]] std::shared_ptr<SessionTally> session(SessionId session) const;

  // A source gave a block that was lost to these links again.
  void on_resent(const std::vector<std::string>& peers, SessionId session);

  // All but what only links know: whether they are up, pace, queues.
  [[nodiscard]] NodeMetrics snapshot() const;

 private:
  using LinkKey = std::pair<std::string, LinkDirection>;
  // What live plans lead through this node.
  struct Present {
    std::vector<LinkKey> links;
    std::vector<SessionId> sessions;
    std::set<std::string_view> tenants;

    void order();
  };

  void note_links(const Plan& plan, NodeId self, bool is_active, Present& present);
  void note_sessions(const Plan& plan, NodeId self, bool is_active, Present& present);
  void forget_rates();

  std::optional<Epoch> epoch_;
  Ledger<LinkKey, LinkTally> links_;
  Ledger<SessionId, SessionTally> sessions_;
  Ledger<std::string, TenantTally> tenants_;
};

}  // namespace square
