// Counts what a node carries, by link, session and tenant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/plan/installed_collective.h"
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
    std::size_t uses = 0;
    std::optional<std::uint64_t> left;  // how many left before; nothing while it is here
  };

  [[nodiscard]] std::shared_ptr<Tally> find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.tally;
  }
  [[nodiscard]] const std::map<Key, Entry>& entries() const { return entries_; }

  // One more of those who have it is here: its counters.
  std::shared_ptr<Tally> come(const Key& key) {
    Entry& entry = entries_[key];
    ++entry.uses;
    if (entry.left) departed_.erase(*entry.left);
    entry.left.reset();
    return entry.tally;
  }
  // One of them goes. With the last its counters have left; those that still hold memory are never forgotten.
  void leave(const Key& key) {
    Entry& entry = entries_.at(key);
    if (--entry.uses > 0) return;
    entry.left = departures_;
    departed_.emplace(departures_++, key);
    if (departed_.size() > kMaxDepartedCounters) forget_oldest();
  }

 private:
  void forget_oldest() {
    const auto may_go = [&](const auto& one) { return !entries_.at(one.second).tally->holds_memory(); };
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
  explicit TrafficMeter(std::string self = {}) : self_(std::move(self)) {}

  // What live plans lead through this node: the links of each, and each way in which one has a collective.
  void add_links(const Plan& plan);
  void remove_links(const Plan& plan);
  void add(const InstalledCollective& collective);
  void remove(const InstalledCollective& collective);
  // The active one, whose figures go with what is counted.
  void follow(std::shared_ptr<const Plan> active) { active_ = std::move(active); }

  // The counters to keep for a stream of a live plan. Of what is not counted, some that nobody sees.
  [[nodiscard]] std::shared_ptr<LinkTally> link(const std::string& peer, LinkDirection direction) const;
  [[nodiscard]] std::shared_ptr<SessionTally> session(SessionId session) const;

  // A source gave a block that was lost to these links again.
  void on_resent(const std::vector<std::string>& peers, SessionId session);

  // All but what only links know: whether they are up, pace, queues.
  [[nodiscard]] NodeMetrics snapshot() const;

 private:
  using LinkKey = std::pair<std::string, LinkDirection>;
  [[nodiscard]] std::vector<LinkKey> links_of(const Plan& plan) const;
  [[nodiscard]] static bool concerns(const InstalledCollective& collective, const PlanSession& session);
  void add_planned(NodeMetrics& metrics) const;

  std::string self_;
  std::shared_ptr<const Plan> active_;
  Ledger<LinkKey, LinkTally> links_;
  Ledger<SessionId, SessionTally> sessions_;
  Ledger<std::string, TenantTally> tenants_;
};

}  // namespace square
