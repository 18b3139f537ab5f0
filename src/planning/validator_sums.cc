// Rates of collectives and tenants, and which bytes reach whom.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planning/validator.h"
#include "square/units.h"

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

bool is_ring(const PlanCollective& collective) { return collective.op == CollectiveOp::kAllReduce; }

// One collective: who gets which range from whom.
class Ranges {
 public:
  Ranges(const Plan& plan, const PlanCollective& collective, Findings& findings)
      : plan_(plan), collective_(collective), findings_(findings), members_(members_of(plan, collective)) {
    for (const SessionId id : collective.sessions) {
      const PlanSession& session = *plan.find_session(id);
      for (const NodeId member : session.members) {
        if (member == session.root) continue;
        if (!received_[member]
                 .emplace(session.root, Range(session.offset_bytes, session.size_bytes))
                 .second) {
          twice_ = true;
        }
        sent_[session.root].emplace(session.offset_bytes, session.size_bytes);
      }
    }
  }

  void check() {
    if (collective_.sessions.empty()) return;  // one member: nothing travels
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
      case CollectiveOp::kReduceScatter: complain("the operation cannot be planned yet"); break;
    }
  }

 private:
  void complain(std::string_view what) {
    findings_.add("collective {} ({}): byte ranges incomplete: {}", collective_.id.value(),
                  to_string(collective_.op), what);
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
    if (collective_.sessions.size() != members_.size() || seen.size() != members_.size() ||
        at != members_.front()) {
      complain("the sessions are not a ring over the members");
    }
  }

  const Plan& plan_;
  const PlanCollective& collective_;
  Findings& findings_;
  std::vector<NodeId> members_;
  std::map<NodeId, std::set<std::pair<NodeId, Range>>> received_;
  std::map<NodeId, std::set<Range>> sent_;
  bool twice_ = false;
};

void check_collective_rate(const Plan& plan, const PlanCollective& collective, Findings& findings) {
  double rate = kUnlimited;
  const std::size_t n = members_of(plan, collective).size();
  for (const SessionId id : collective.sessions) {
    const PlanSession& session = *plan.find_session(id);
    rate = std::min(rate, session.rate_bps / share_of(collective, n, session));
  }
  if (!about_equal(collective.rate_bps, rate)) {
    findings.add("collective {}: its rate is given as {} bit/s, its sessions allow {}", collective.id.value(),
                 collective.rate_bps, rate);
  }
  const double bits = kBitsPerByte * static_cast<double>(collective.size_bytes);
  const double seconds = rate > 0.0 ? bits / rate : kUnlimited;
  if (!about_equal(collective.completion_seconds, seconds)) {
    findings.add("collective {}: its completion is given as {} s, its rate makes it {}",
                 collective.id.value(), collective.completion_seconds, seconds);
  }
}

}  // namespace

std::vector<NodeId> members_of(const Plan& plan, const PlanCollective& collective) {
  std::set<NodeId> members;
  for (const SessionId id : collective.sessions) {
    const PlanSession* session = plan.find_session(id);
    members.insert(session->members.begin(), session->members.end());
  }
  return {members.begin(), members.end()};
}

double share_of(const PlanCollective& collective, std::size_t n, const PlanSession& session) {
  if (collective.size_bytes >= n && collective.size_bytes > 0) {
    return static_cast<double>(session.size_bytes) / static_cast<double>(collective.size_bytes);
  }
  const auto members = static_cast<double>(n);
  if (collective.op == CollectiveOp::kBroadcast) return 1.0;
  return is_ring(collective) ? 2.0 * (members - 1.0) / members : 1.0 / members;
}

void check_sums(const Plan& plan, Findings& findings) {
  std::map<std::string_view, double> tenant_rate;
  double least = kUnlimited;
  double total = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double count = 0.0;
  for (const PlanCollective& collective : plan.collectives) {
    check_collective_rate(plan, collective, findings);
    if (collective.sessions.empty()) continue;  // sends nothing, so it is in no sum
    tenant_rate[collective.tenant] += collective.rate_bps;
    least = std::min(least, collective.rate_bps);
    total += collective.rate_bps;
    const double level = collective.rate_bps / collective.weight;
    sum += level;
    squares += level * level;
    count += 1.0;
  }
  for (const PlanTenant& tenant : plan.tenants) {
    if (!about_equal(tenant.rate_bps, tenant_rate[tenant.name])) {
      findings.add("tenant {}: its rate is given as {} bit/s, its collectives sum to {}", tenant.name,
                   tenant.rate_bps, tenant_rate[tenant.name]);
    }
  }
  if (!about_equal(plan.min_rate_bps, count > 0.0 ? least : 0.0)) {
    findings.add("the smallest rate is given as {} bit/s, the collectives make it {}", plan.min_rate_bps,
                 least);
  }
  if (!about_equal(plan.total_rate_bps, total)) {
    findings.add("the total rate is given as {} bit/s, the collectives sum to {}", plan.total_rate_bps,
                 total);
  }
  if (!about_equal(plan.jain, squares > 0.0 ? sum * sum / (count * squares) : 1.0)) {
    findings.add("Jain's index is given as {}, the collectives make it {}", plan.jain,
                 squares > 0.0 ? sum * sum / (count * squares) : 1.0);
  }
  if (!(plan.solve_seconds >= 0.0)) findings.add("the time to solve is {} s", plan.solve_seconds);
}

void check_ranges(const Plan& plan, Findings& findings) {
  for (const PlanCollective& collective : plan.collectives) Ranges(plan, collective, findings).check();
}

}  // namespace square::validation
