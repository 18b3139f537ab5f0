// Do the cuts prove the bounds?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "planning/validator.h"

namespace square::validation {
namespace {

// As the planner documents it: an unlimited link counts as the largest finite capacity,
// or as 1 Gbit/s where there is none.
constexpr double kUnmeasuredLinkBps = 1e9;
// A bound is what a cut carries less what others need: where those are nearly the same,
// the last digits of the difference mean nothing.
constexpr double kCancellation = 1e-9;

class Certificate {
 public:
  Certificate(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings) {
    double largest = 0.0;
    for (const PlanLink& link : plan.links) {
      if (std::isfinite(link.capacity_bps)) largest = std::max(largest, link.capacity_bps);
    }
    unlimited_ = largest > 0.0 ? largest : kUnmeasuredLinkBps;
    for (const PlanCollective& collective : plan.collectives) add_payloads(collective);
  }

  void check() {
    std::map<CollectiveId, double> bound;
    std::map<CollectiveId, double> noise;
    for (const PlanCut& cut : plan_.certificate.cuts) {
      const Proof proof = prove(cut);
      if (!about_equal(cut.bound_bps, proof.bound_bps) &&
          !(std::abs(cut.bound_bps - proof.bound_bps) <= proof.noise_bps)) {
        findings_.add("a cut claims a bound of {} bit/s for collective {}; it proves {}", cut.bound_bps,
                      cut.collective.value(), proof.bound_bps);
      }
      noise[cut.collective] = std::max(noise[cut.collective], proof.noise_bps);
      const auto [entry, is_new] = bound.emplace(cut.collective, cut.bound_bps);
      if (!is_new) entry->second = std::min(entry->second, cut.bound_bps);
    }
    double level = kUnlimited;
    for (const PlanCollective& collective : plan_.collectives) {
      const auto known = bound.find(collective.id);
      const double proven = known == bound.end() ? kUnlimited : known->second;
      if (!about_equal(collective.bound_bps, proven)) {
        findings_.add("collective {}: its bound is given as {} bit/s, its cuts prove {}",
                      collective.id.value(), collective.bound_bps, proven);
      }
      if (!at_most(collective.rate_bps, collective.bound_bps + noise[collective.id])) {
        findings_.add("collective {}: its rate {} bit/s is over its bound {}", collective.id.value(),
                      collective.rate_bps, collective.bound_bps);
      }
      level = std::min(level, collective.rate_bps / collective.weight);
    }
    const auto& claimed = plan_.certificate.level_bound_bps;
    if (claimed.has_value() && std::isfinite(level) && !at_most(level, *claimed)) {
      findings_.add("every collective has at least {} bit/s per unit of weight, the level bound is {}", level,
                    *claimed);
    }
  }

 private:
  // What travels: the same bytes from one root to some destinations count once on a cut,
  // however many sessions bring them.
  struct Payload {
    const PlanCollective* collective = nullptr;
    NodeId root;
    double share = 0.0;
    std::set<NodeId> destinations;
  };

  void add_payloads(const PlanCollective& collective) {
    const bool copies =
        collective.op == CollectiveOp::kBroadcast || collective.op == CollectiveOp::kAllGather;
    std::map<std::tuple<NodeId, std::uint64_t, std::uint64_t, std::uint32_t>, std::size_t> known;
    const std::size_t n = members_of(plan_, collective).size();
    for (const SessionId id : collective.sessions) {
      const PlanSession& session = *plan_.find_session(id);
      const std::uint32_t own = copies ? 0 : id.value();
      const auto [entry, is_new] = known.emplace(
          std::tuple(session.root, session.offset_bytes, session.size_bytes, own), payloads_.size());
      if (is_new) payloads_.push_back({&collective, session.root, share_of(collective, n, session), {}});
      for (const NodeId member : session.members) {
        if (member != session.root) payloads_[entry->second].destinations.insert(member);
      }
    }
  }

  struct Proof {
    double bound_bps = kUnlimited;
    double noise_bps = 0.0;
  };

  [[nodiscard]] Proof prove(const PlanCut& cut) const {
    const std::set<NodeId> inside(cut.source_side.begin(), cut.source_side.end());
    double own = 0.0;
    double others = 0.0;
    for (const Payload& payload : payloads_) {
      const bool crosses = inside.contains(payload.root) &&
                           std::any_of(payload.destinations.begin(), payload.destinations.end(),
                                       [&](NodeId node) { return !inside.contains(node); });
      if (!crosses) continue;
      if (payload.collective->id == cut.collective) {
        own += payload.share;
      } else {
        others += payload.share * payload.collective->rate_bps;
      }
    }
    if (own <= 0.0) return {};
    const double carried = carried_out_of(inside);
    return {std::max(carried - others, 0.0) / own, kCancellation * carried / own};
  }

  [[nodiscard]] double carried_out_of(const std::set<NodeId>& inside) const {
    std::map<NodeId, double> out;
    std::map<NodeId, double> in;
    for (const PlanLink& link : plan_.links) {
      if (!inside.contains(link.from) || inside.contains(link.to)) continue;
      const double capacity = std::isfinite(link.capacity_bps) ? link.capacity_bps : unlimited_;
      out[link.from] += capacity;
      in[link.to] += capacity;
    }
    double by_tails = 0.0;
    double by_heads = 0.0;
    for (const auto& [node, sum] : out) by_tails += std::min(sum, plan_.nodes[node.index()].egress_bps);
    for (const auto& [node, sum] : in) by_heads += std::min(sum, plan_.nodes[node.index()].ingress_bps);
    return std::min(by_tails, by_heads);
  }

  const Plan& plan_;
  Findings& findings_;
  double unlimited_ = kUnmeasuredLinkBps;
  std::vector<Payload> payloads_;
};

}  // namespace

void check_certificate(const Plan& plan, Findings& findings) { Certificate(plan, findings).check(); }

}  // namespace square::validation
