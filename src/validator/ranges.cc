// Which bytes reach whom.
#include <algorithm>
#include <map>
#include <set>

#include "base/spending.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;  // offset, size

std::vector<Range> slots(std::uint64_t bytes, std::size_t n) {
  std::vector<Range> result;
  for (std::size_t r = 0; r < n; ++r) {
    const std::uint64_t offset = bytes / n * r;
    result.emplace_back(offset, r + 1 == n ? bytes - offset : bytes / n);
  }
  return result;
}

// Do the ranges cover every byte of the buffer once? Empty ones may be anywhere.
bool tile(std::vector<Range> ranges, std::uint64_t bytes) {
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t next = 0;
  for (const auto& [offset, size] : ranges) {
    if (size == 0) continue;
    if (offset != next || size > bytes - next) return false;
    next += size;
  }
  return next == bytes;
}

// One collective: who gets which range from whom.
class Ranges {
 public:
  Ranges(const Plan& plan, const PlanCollective& collective, Findings& findings)
      : plan_(plan), collective_(collective), findings_(findings), members_(members_of(plan, collective)) {
    for (const SessionId id : collective.sessions) sessions_.push_back(plan.find_session(id));
  }

  void check() {
    if (members_.size() < 2) return;  // nothing travels
    switch (collective_.op) {
      case CollectiveOp::kReduce: check_reduce(); return;
      case CollectiveOp::kReduceScatter: check_reduce_scatter(); return;
      case CollectiveOp::kAllReduce:
        if (is_planned_all_reduce(plan_, collective_)) {
          check_shares();
          return;
        }
        break;
      default: break;
    }
    check_copies();
  }

 private:
  void complain(std::string_view what) {
    findings_.add("collective {} ({}): byte ranges incomplete: {}", collective_.id.value(),
                  to_string(collective_.op), what);
  }

  // The operations that only move bytes.
  void check_copies() {
    for (const PlanSession* session : sessions_) {
      if (session->kind == SessionKind::kReduce) complain("a session adds, where bytes are only moved");
      const Range range(session->offset_bytes, session->size_bytes);
      for (const NodeId member : session->members) {
        if (member == session->root) continue;
        if (!received_[member].emplace(session->root, range).second) twice_ = true;
        sent_[session->root].insert(range);
      }
    }
    if (received_.empty()) return;  // sessions with nobody to send to are reported already
    if (twice_) complain("the same bytes reach a member twice");
    switch (collective_.op) {
      case CollectiveOp::kBroadcast: check_broadcast(); break;
      case CollectiveOp::kAllGather: check_all_gather(); break;
      case CollectiveOp::kScatter:
        if (sent_.size() != 1) complain("a scatter has one root");
        if (!all_but_one(sent_.begin()->second)) complain("the ranges are not a slot for each member");
        if (!each_receives_one()) complain("a member does not receive one slot");
        break;
      case CollectiveOp::kGather:
        if (received_.size() != 1) complain("a gather has one root");
        if (sent_.size() + 1 != members_.size()) complain("a member does not send");
        check_received_slots();
        break;
      case CollectiveOp::kAllToAll: check_all_to_all(); break;
      case CollectiveOp::kAllReduce: check_ring(); break;
      case CollectiveOp::kReduce:
      case CollectiveOp::kReduceScatter: break;  // these add
    }
  }

  // Are these the slots of a buffer cut into one slot a member, less one?
  [[nodiscard]] bool all_but_one(const std::set<Range>& ranges) const {
    const std::vector<Range> whole = slots(collective_.size_bytes, members_.size());
    // Where there are fewer bytes than members, slots coincide.
    const std::set<Range> distinct(whole.begin(), whole.end());
    for (const Range& range : ranges) {
      if (!distinct.contains(range)) return false;
    }
    return ranges.size() + 1 >= distinct.size() && ranges.size() < whole.size();
  }

  [[nodiscard]] bool each_receives_one() const {
    return std::all_of(received_.begin(), received_.end(),
                       [](const auto& entry) { return entry.second.size() == 1; }) &&
           received_.size() + 1 == members_.size();
  }

  void check_broadcast() {
    if (sent_.size() != 1) complain("a broadcast has one root");
    if (received_.size() + 1 != members_.size()) complain("a member receives nothing");
    for (const auto& [member, ranges] : received_) {
      std::uint64_t next = 0;
      for (const auto& [root, range] : ranges) {
        if (range.first != next) break;
        next = range.first + range.second;
      }
      if (next != collective_.size_bytes) complain("a member does not receive every byte once");
    }
  }

  // Everyone's slots but its own, each from another root.
  void check_received_slots() {
    for (const auto& [member, ranges] : received_) {
      std::set<Range> slots_received;
      for (const auto& [root, range] : ranges) slots_received.insert(range);
      if (ranges.size() + 1 != members_.size() || !all_but_one(slots_received)) {
        complain("a member does not receive the slot of every other");
      }
    }
  }

  void check_all_gather() {
    if (received_.size() != members_.size()) complain("a member receives nothing");
    check_received_slots();
    for (const auto& [root, ranges] : sent_) {
      if (ranges.size() != 1) complain("a member sends more than its own slot");
    }
  }

  void check_all_to_all() {
    if (received_.size() != members_.size()) complain("a member receives nothing");
    for (const auto& [member, ranges] : received_) {
      if (ranges.size() + 1 != members_.size()) complain("a member does not hear from every other");
      for (const auto& [root, range] : ranges) {
        // A receiver's slot is at the same place in every sender's row.
        if (range != ranges.begin()->second) complain("a member receives different slots");
      }
    }
    for (const auto& [root, ranges] : sent_) {
      if (!all_but_one(ranges)) complain("the ranges are not a slot for each member");
    }
  }

  void check_ring() {
    const std::uint64_t n = members_.size();
    const std::uint64_t slot = collective_.size_bytes / n;
    const std::uint64_t each = 2 * (n - 1) * slot + 2 * (n - 1) * (collective_.size_bytes - n * slot) / n;
    std::map<NodeId, NodeId> next;
    for (const auto& [member, ranges] : received_) {
      for (const auto& [root, range] : ranges) {
        next[root] = member;
        if (range != Range(0, each)) complain("a neighbour does not get 2 (n - 1) / n of the buffer");
      }
    }
    // One cycle over all members.
    NodeId at = members_.front();
    std::set<NodeId> seen;
    while (next.contains(at) && seen.insert(at).second) at = next[at];
    if (sessions_.size() != members_.size() || seen.size() != members_.size() || at != members_.front()) {
      complain("the sessions are not a ring over the members");
    }
  }

  // Does every session add over all members?
  bool all_add() {
    for (const PlanSession* session : sessions_) {
      if (session->kind != SessionKind::kReduce) {
        complain("a session does not add");
        return false;
      }
      if (session->members.size() != members_.size()) {
        complain("a session leaves out a member");
        return false;
      }
    }
    return true;
  }

  void check_reduce() {
    if (!all_add()) return;
    std::vector<Range> ranges;
    for (const PlanSession* session : sessions_) {
      if (session->root != sessions_.front()->root) complain("a reduce has one root");
      ranges.emplace_back(session->offset_bytes, session->size_bytes);
    }
    if (!tile(std::move(ranges), collective_.size_bytes)) complain("not every byte is added once");
  }

  void check_reduce_scatter() {
    if (!all_add()) return;
    std::vector<Range> ranges;
    std::set<NodeId> roots;
    for (const PlanSession* session : sessions_) {
      roots.insert(session->root);
      ranges.emplace_back(session->offset_bytes, session->size_bytes);
    }
    if (sessions_.size() != members_.size() || roots.size() != members_.size()) {
      complain("not every member is the root of one slot");
    }
    std::vector<Range> whole = slots(collective_.size_bytes, members_.size());
    std::sort(ranges.begin(), ranges.end());
    std::sort(whole.begin(), whole.end());
    if (ranges != whole) complain("the ranges are not a slot for each member");
  }

  // A planned all-reduce: each share is added up at its root, then sent from there to all.
  void check_shares() {
    std::vector<Range> ranges;
    for (const PlanSession* session : sessions_) {
      const PlanSession* other = session->pair.has_value() ? plan_.find_session(*session->pair) : nullptr;
      if (other == nullptr || other->pair != session->id || other->collective != collective_.id) {
        complain("a session is not half of a share");
        return;
      }
      const bool adds = session->kind == SessionKind::kReduce;
      const SessionKind half = adds ? SessionKind::kMulticast : SessionKind::kReduce;
      if (other->kind != half || session->kind == SessionKind::kUnicast) {
        complain("a share is not a reduce and a multicast");
      }
      if (session->root != other->root || session->offset_bytes != other->offset_bytes ||
          session->size_bytes != other->size_bytes) {
        complain("the halves of a share differ in root or bytes");
      }
      if (session->members.size() != members_.size()) complain("a share leaves out a member");
      if (adds) ranges.emplace_back(session->offset_bytes, session->size_bytes);
    }
    if (!tile(std::move(ranges), collective_.size_bytes)) complain("not every byte is in one share");
  }

  const Plan& plan_;
  const PlanCollective& collective_;
  Findings& findings_;
  std::vector<NodeId> members_;
  std::vector<const PlanSession*> sessions_;
  std::map<NodeId, std::set<std::pair<NodeId, Range>>> received_;
  std::map<NodeId, std::set<Range>> sent_;
  bool twice_ = false;
};

}  // namespace

void check_ranges(const Plan& plan, Findings& findings) {
  for (const PlanCollective& collective : plan.collectives) {
    look_at_budget();
    Ranges(plan, collective, findings).check();
  }
}

}  // namespace square::validation
