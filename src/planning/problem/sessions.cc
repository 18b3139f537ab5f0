#include "planning/problem/sessions.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace square::planning {
namespace {

// The largest buffer: twice as much, which an all-reduce moves, is still a number.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62U;

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Rank r's slot when a buffer is cut into n; the last one takes the remainder.
Range slot(std::uint64_t bytes, std::uint64_t n, std::uint64_t rank) {
  const std::uint64_t each = bytes / n;
  return {rank * each, rank + 1 == n ? bytes - rank * each : each};
}

class Expander {
 public:
  explicit Expander(const Expansion& how) : how_(how) {}

  Status add(const CollectiveSpec& spec, std::size_t position) {
    spec_ = &spec;
    position_ = position;
    n_ = spec.members.size();
    if (spec.size_bytes > kMaxBytes) {
      return invalid_argument(fmt::format("{}: {} bytes are more than the {} that can be planned",
                                          describe(spec), spec.size_bytes, kMaxBytes));
    }
    const bool ring = is_ring(spec);
    const bool adds = spec.op == CollectiveOp::kAllReduce || spec.op == CollectiveOp::kReduce ||
                      spec.op == CollectiveOp::kReduceScatter;
    if (adds && !ring && !how_.with_reduces) {
      return unimplemented(fmt::format(
          "{}: only the policy \"exact\" plans relays that add: choose it (name = \"exact\" in [policy], or "
          "--policy exact){}",
          describe(spec),
          spec.op == CollectiveOp::kAllReduce ? "; or use algorithm = \"ring\" for an all-reduce" : ""));
    }
    if (n_ < 2) return Status::ok();
    switch (spec.op) {
      case CollectiveOp::kBroadcast: multicast(spec.root, {0, spec.size_bytes}, 1.0); break;
      case CollectiveOp::kAllGather:
        for (std::size_t r = 0; r < n_; ++r) multicast(spec.members[r], slot_of(r), share());
        break;
      case CollectiveOp::kScatter:
        for (std::size_t r = 0; r < n_; ++r) unicast(spec.root, spec.members[r], slot_of(r), share());
        break;
      case CollectiveOp::kGather:
        for (std::size_t r = 0; r < n_; ++r) unicast(spec.members[r], spec.root, slot_of(r), share());
        break;
      case CollectiveOp::kAllToAll:
        for (std::size_t r = 0; r < n_; ++r) {
          for (std::size_t s = 0; s < n_; ++s) {
            unicast(spec.members[r], spec.members[s], slot_of(s), share());
          }
        }
        break;
      case CollectiveOp::kAllReduce: ring ? ring_all_reduce() : planned_all_reduce(); break;
      case CollectiveOp::kReduce: reduce(spec.root, {0, spec.size_bytes}, 1.0); break;
      case CollectiveOp::kReduceScatter:
        for (std::size_t r = 0; r < n_; ++r) reduce(spec.members[r], slot_of(r), share());
        break;
    }
    return Status::ok();
  }

  std::vector<Session> take() && { return std::move(sessions_); }

 private:
  [[nodiscard]] Range slot_of(std::size_t rank) const { return slot(spec_->size_bytes, n_, rank); }
  [[nodiscard]] double share() const { return 1.0 / static_cast<double>(n_); }

  // Every neighbour pair carries the buffer less one slot twice: once summed, once gathered.
  void ring_all_reduce() {
    // 2 (n - 1) bytes / n, rounded down, in parts that do not overflow.
    const std::uint64_t rest = spec_->size_bytes % n_;
    const std::uint64_t carried = 2 * (n_ - 1) * (spec_->size_bytes / n_) + 2 * (n_ - 1) * rest / n_;
    for (std::size_t r = 0; r < n_; ++r) {
      unicast(spec_->members[r], spec_->members[(r + 1) % n_], {0, carried},
              2.0 * static_cast<double>(n_ - 1) / static_cast<double>(n_));
    }
  }

  // Any member can be the root of a share.
  void planned_all_reduce() {
    for (std::size_t r = 0; r < n_; ++r) {
      const NodeId root = spec_->members[r];
      for (const SessionKind kind : {SessionKind::kReduce, SessionKind::kMulticast}) {
        push(kind, root, all_but(root), {0, spec_->size_bytes}, 1.0);
        sessions_.back().fraction = 1.0;
        sessions_.back().share = r;
        ++groups_;
      }
    }
  }

  [[nodiscard]] std::vector<NodeId> all_but(NodeId root) const {
    std::vector<NodeId> others;
    for (const NodeId member : spec_->members) {
      if (member != root) others.push_back(member);
    }
    return others;
  }

  void reduce(NodeId root, Range range, double ideal) {
    push(SessionKind::kReduce, root, all_but(root), range, ideal);
    ++groups_;
  }

  void multicast(NodeId root, Range range, double ideal) {
    if (!how_.split_multicasts) {
      push(SessionKind::kMulticast, root, all_but(root), range, ideal);
    } else {
      for (const NodeId member : all_but(root)) push(SessionKind::kUnicast, root, {member}, range, ideal);
    }
    ++groups_;
  }

  void unicast(NodeId root, NodeId destination, Range range, double ideal) {
    if (root == destination) return;  // a member's own slot does not travel
    push(SessionKind::kUnicast, root, {destination}, range, ideal);
    ++groups_;
  }

  void push(SessionKind kind, NodeId root, std::vector<NodeId> destinations, Range range, double ideal) {
    // With fewer bytes than members some slots are empty, but groups are planned once for
    // tensors of every size: then the shares are those of a large buffer.
    const bool exact = spec_->size_bytes >= n_;
    const double fraction =
        exact ? static_cast<double>(range.size) / static_cast<double>(spec_->size_bytes) : ideal;
    sessions_.push_back({SessionId(static_cast<std::uint32_t>(sessions_.size())), position_, kind, root,
                         std::move(destinations), range.offset, range.size, fraction, std::nullopt, groups_});
  }

  Expansion how_;
  const CollectiveSpec* spec_ = nullptr;
  std::size_t position_ = 0;
  std::size_t n_ = 0;
  std::size_t groups_ = 0;
  std::vector<Session> sessions_;
};

}  // namespace

std::string describe(const CollectiveSpec& collective) {
  return fmt::format("collective {} ({}, tenant {})", collective.id.value(), to_string(collective.op),
                     collective.tenant);
}

Result<std::vector<Session>> expand_sessions(const Scenario& scenario, const Expansion& how) {
  Expander expansion(how);
  for (std::size_t c = 0; c < scenario.collectives.size(); ++c) {
    SQUARE_RETURN_IF_ERROR(expansion.add(scenario.collectives[c], c));
  }
  return std::move(expansion).take();
}

}  // namespace square::planning
