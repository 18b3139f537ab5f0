// Counts what a node carries, by link, session and tenant.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
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

  // These are here, all others are not. One that still holds memory is never forgotten.
  void keep(const std::set<Key>& here) {
    for (const Key& key : here) entries_[key].left.reset();
    std::vector<std::pair<std::uint64_t, Key>> departed;
    for (auto& [key, entry] : entries_) {
      if (here.contains(key)) continue;
      if (!entry.left) entry.left = departures_++;
      if (!entry.tally->holds_memory()) departed.emplace_back(*entry.left, key);
    }
    if (departed.size() <= kMaxDepartedCounters) return;
    std::ranges::sort(departed);
    departed.resize(departed.size() - kMaxDepartedCounters);
    for (const auto& [left, key] : departed) entries_.erase(key);
  }

 private:
  std::map<Key, Entry> entries_;
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
  // What a live plan leads through this node.
  struct Present {
    std::set<LinkKey> links;
    std::set<SessionId> sessions;
    std::set<std::string> tenants;
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
