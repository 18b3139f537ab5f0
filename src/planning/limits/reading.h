// A plan, read once: what its sessions put on links and nodes, and what each collective moves.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/plan/figures.h"
#include "square/limits.h"

namespace square::planning {

// By node: is it in the set?
using NodeSet = std::vector<bool>;

// Bytes that travel from one root, or to it. The same bytes count once, however many
// sessions bring them.
struct Payload {
  double share = 0;          // of the collective's rate
  bool is_anywhere = false;  // a planned all-reduce may be shared over any member
  bool adds = false;         // towards the root
  NodeId root;
  std::vector<NodeId> others;

  // Must it enter the set?
  [[nodiscard]] bool crosses(const NodeSet& into) const;
};

// The duals of one level. All zero where there is none.
struct Lengths {
  std::vector<double> link;     // by LinkId
  std::vector<double> egress;   // by NodeId
  std::vector<double> ingress;  // by NodeId
  double budget = 0;
  std::unordered_map<SessionId, const PlanPacking*> packings;

  explicit Lengths(const Plan& plan);
  Lengths(const Plan& plan, const PlanLevel& level);
};

// The plan must be there for as long as this is, and name nothing that is not there.
class PlanReading {
 public:
  explicit PlanReading(const Plan& plan);

  // Whose limits are looked for: of its job its own turn counts from now on, of others the one that loads a
  // link or node most, for turns of a job follow one another.
  void ask_about(std::size_t collective) { asked_ = when_of(collective); }

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] bool is_about_cost() const { return plan_.certificate.cost_bound_usd_per_hour.has_value(); }

  // By position of the collective.
  [[nodiscard]] std::size_t position_of(CollectiveId id) const { return position_of_.at(id); }
  [[nodiscard]] double kept_bps(std::size_t collective) const { return kept_bps_[collective]; }
  [[nodiscard]] std::optional<std::size_t> level_of(std::size_t collective) const;
  [[nodiscard]] const std::vector<Payload>& payloads(std::size_t collective) const {
    return payloads_[collective];
  }
  // The part of its collective's rate that a session carries; of a planned all-reduce, 1.
  [[nodiscard]] double share_of(const PlanSession& session) const;

  [[nodiscard]] LimitedResource link(LinkId id, double length) const;
  [[nodiscard]] LimitedResource node_limit(LimitedResource::Kind kind, NodeId node, double length) const;
  [[nodiscard]] double limit_bps(LimitedResource::Kind kind, NodeId node) const;

  // Links that lead into the set, by id.
  [[nodiscard]] std::vector<LinkId> links_into(const NodeSet& into) const;
  // The place of a node's name among all names: what is listed by name is sorted by this.
  [[nodiscard]] std::size_t name_rank(NodeId node) const { return name_rank_[node.index()]; }

 private:
  using Loads = std::vector<LimitedResource::Load>;

  using When = std::pair<std::size_t, JobTurn>;  // the number of a job, and the turn

  [[nodiscard]] When when_of(std::size_t collective) const {
    return {job_of_[collective],
            job_turn_of(plan_.collectives[collective].op, plan_.collectives[collective].id)};
  }
  void take(LimitedResource& resource, const Loads& loads) const;
  void read_loads();
  void read_payloads(std::size_t collective);

  const Plan& plan_;
  std::vector<double> capacity_bps_;  // by LinkId
  std::vector<double> kept_bps_;
  std::vector<std::size_t> level_of_;
  std::unordered_map<CollectiveId, std::size_t> position_of_;
  std::vector<std::size_t> member_count_;  // by collective
  std::vector<bool> is_planned_sum_;       // by collective
  std::vector<std::vector<Payload>> payloads_;
  std::vector<Loads> on_link_;   // by LinkId
  std::vector<Loads> leaving_;   // by NodeId
  std::vector<Loads> entering_;  // by NodeId
  std::vector<std::size_t> name_rank_;
  std::vector<std::size_t> job_of_;  // by collective
  std::unordered_map<SessionId, When> when_;
  std::optional<When> asked_;
};

}  // namespace square::planning
