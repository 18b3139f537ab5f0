// Do the cuts and the levels prove the bounds of the collectives?
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/spending.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

struct Proof {
  double bound_bps = kUnlimited;
  double noise_bps = 0.0;
};

bool is_proven(double claimed_bps, const Proof& proof) {
  return about_equal(claimed_bps, proof.bound_bps) ||
         std::abs(claimed_bps - proof.bound_bps) <= proof.noise_bps;
}

class Certificate {
 public:
  Certificate(const Plan& plan, Findings& findings)
      : plan_(plan), findings_(findings), capacity_(counted_capacities(plan)), kept_(kept_rates(plan)) {
    for (std::size_t c = 0; c < plan.collectives.size(); ++c) add_payloads(c);
  }

  void check() {
    std::vector<Proof> by_cut(plan_.collectives.size());
    check_cuts(by_cut);
    const std::vector<Proof> by_level = level_proofs();
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      check_bound(plan_.collectives[c], kept_[c], by_cut[c], by_level[c]);
    }
    check_level_bound();
  }

 private:
  // What travels: the same bytes from one root to some destinations count once on a cut,
  // however many sessions bring them.
  struct Payload {
    std::size_t collective = 0;
    NodeId root;
    double share = 0.0;
    bool adds = false;  // towards the root
    bool moves = true;  // a planned all-reduce has no root: its shares may be anywhere
    std::vector<NodeId> others;
  };

  void add_payloads(std::size_t c) {
    const PlanCollective& collective = plan_.collectives[c];
    const std::vector<NodeId> members = members_of(plan_, collective);
    if (is_planned_all_reduce(plan_, collective)) {
      payloads_.push_back({c, members.front(), 1.0, false, false, members});
      return;
    }
    std::map<std::tuple<NodeId, std::uint64_t, std::uint64_t, std::uint32_t>, std::size_t> known;
    for (const SessionId id : collective.sessions) {
      look_at_budget();
      const PlanSession& session = *plan_.find_session(id);
      const std::uint32_t own = copies_payload(collective.op) ? 0 : id.value();
      const auto [entry, is_new] = known.emplace(
          std::tuple(session.root, session.offset_bytes, session.size_bytes, own), payloads_.size());
      if (is_new) {
        payloads_.push_back({c,
                             session.root,
                             share_of(collective, members.size(), session),
                             session.kind == SessionKind::kReduce,
                             true,
                             {}});
      }
      for (const NodeId member : session.members) {
        if (member != session.root) payloads_[entry->second].others.push_back(member);
      }
    }
  }

  void check_cuts(std::vector<Proof>& by_cut) {
    std::map<CollectiveId, std::size_t> position;
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) position.emplace(plan_.collectives[c].id, c);
    for (const PlanCut& cut : plan_.certificate.cuts) {
      look_at_budget();
      const std::size_t c = position.at(cut.collective);
      const Proof proof = prove(cut, c);
      if (!is_proven(cut.bound_bps, proof)) {
        findings_.add("a cut claims a bound of {} for collective {}; it proves {}", mbps(cut.bound_bps),
                      cut.collective.value(), mbps(proof.bound_bps));
      }
      by_cut[c].bound_bps = std::min(by_cut[c].bound_bps, cut.bound_bps);
      by_cut[c].noise_bps = std::max(by_cut[c].noise_bps, proof.noise_bps);
    }
  }

  // What the level that holds a collective proves of it, with the others as they are.
  std::vector<Proof> level_proofs() {
    std::vector<Proof> proofs(plan_.collectives.size());
    const std::vector<PlanLevel>& levels = plan_.certificate.levels;
    const std::vector<std::size_t> level_of = levels_of_collectives(plan_);
    DualProver prover(plan_);
    Findings reported;  // check_levels says it
    for (std::size_t k = 0; k < levels.size(); ++k) {
      if (is_cost_level(plan_, levels[k])) continue;
      const Inequality proven = prover.prove(levels[k], false, "", reported);
      double needed = 0.0;
      for (std::size_t c = 0; c < proven.length.size(); ++c) {
        if (proven.length[c] > 0.0) needed += proven.length[c] * kept_[c];
      }
      for (std::size_t c = 0; c < proven.length.size(); ++c) {
        if (level_of[c] != k || !(proven.length[c] > 0.0) || !std::isfinite(proven.worth)) continue;
        const double rest = proven.worth - (needed - proven.length[c] * kept_[c]);
        proofs[c] = {std::max(rest, 0.0) / proven.length[c], kCancellation * proven.worth / proven.length[c]};
      }
    }
    return proofs;
  }

  void check_bound(const PlanCollective& collective, double kept_bps, const Proof& by_cut,
                   const Proof& by_level) {
    const std::uint32_t id = collective.id.value();
    const double proven = std::min(by_cut.bound_bps, by_level.bound_bps);
    // What a plan without streams keeps is open to reading, so that it may claim less.
    const bool modest = !plan_.realised && at_most(proven, collective.bound_bps);
    if (!is_proven(collective.bound_bps, by_cut) && !is_proven(collective.bound_bps, by_level) && !modest) {
      findings_.add("collective {}: its bound is given as {}, its {} {}", id, mbps(collective.bound_bps),
                    by_level.bound_bps < by_cut.bound_bps ? "level proves" : "cuts prove", mbps(proven));
    }
    const double noise = std::max(by_cut.noise_bps, by_level.noise_bps);
    if (!at_most(kept_bps, collective.bound_bps + noise)) {
      findings_.add("collective {}: its rate, {}, is over its bound {}", id, mbps(kept_bps),
                    mbps(collective.bound_bps));
    }
  }

  void check_level_bound() {
    double level = kUnlimited;
    for (std::size_t c = 0; c < kept_.size(); ++c) {
      level = std::min(level, kept_[c] / plan_.collectives[c].weight);
    }
    const auto& claimed = plan_.certificate.level_bound_bps;
    if (claimed.has_value() && std::isfinite(level) && !at_most(level, *claimed)) {
      findings_.add("every collective has at least {} per unit of weight, the level bound is {}", mbps(level),
                    mbps(*claimed));
    }
  }

  [[nodiscard]] static bool crosses(const Payload& payload, const std::vector<bool>& inside) {
    const auto is_inside = [&](NodeId node) { return inside[node.index()]; };
    const auto begin = payload.others.begin();
    const auto end = payload.others.end();
    if (!payload.moves) return std::any_of(begin, end, is_inside) && !std::all_of(begin, end, is_inside);
    if (payload.adds) return !is_inside(payload.root) && std::any_of(begin, end, is_inside);
    return is_inside(payload.root) && !std::all_of(begin, end, is_inside);
  }

  [[nodiscard]] Proof prove(const PlanCut& cut, std::size_t collective) const {
    std::vector<bool> inside(plan_.nodes.size(), false);
    for (const NodeId node : cut.source_side) inside[node.index()] = true;
    double own = 0.0;
    double others = 0.0;
    for (const Payload& payload : payloads_) {
      if (!crosses(payload, inside)) continue;
      if (payload.collective == collective) {
        own += payload.share;
      } else {
        others += payload.share * kept_[payload.collective];
      }
    }
    if (own <= 0.0) return {};
    const double carried = carried_out_of(inside);
    return {std::max(carried - others, 0.0) / own, kCancellation * carried / own};
  }

  [[nodiscard]] double carried_out_of(const std::vector<bool>& inside) const {
    std::map<NodeId, double> out;
    std::map<NodeId, double> in;
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      const PlanLink& link = plan_.links[e];
      if (!inside[link.from.index()] || inside[link.to.index()]) continue;
      out[link.from] += capacity_[e];
      in[link.to] += capacity_[e];
    }
    double by_tails = 0.0;
    double by_heads = 0.0;
    for (const auto& [node, sum] : out) by_tails += std::min(sum, plan_.nodes[node.index()].egress_bps);
    for (const auto& [node, sum] : in) by_heads += std::min(sum, plan_.nodes[node.index()].ingress_bps);
    return std::min(by_tails, by_heads);
  }

  const Plan& plan_;
  Findings& findings_;
  std::vector<double> capacity_;  // by link
  std::vector<double> kept_;      // by collective
  std::vector<Payload> payloads_;
};

}  // namespace

void check_certificate(const Plan& plan, Findings& findings) { Certificate(plan, findings).check(); }

}  // namespace square::validation
