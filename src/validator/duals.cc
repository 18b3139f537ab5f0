// From lengths of links, nodes and cuts to an inequality that every plan keeps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/spending.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

using Length = std::pair<std::size_t, double>;  // of a distinct cut

// Different sessions pack the same cuts: what crosses each is found once.
struct Cut {
  const std::vector<NodeId>* far_side = nullptr;
  bool outwards = false;             // data of a reduce leaves the set
  std::vector<std::uint32_t> links;  // that cross it
};

std::size_t hash_of(const std::vector<NodeId>& nodes, bool outwards) {
  std::size_t hash = outwards ? 1 : 0;
  for (const NodeId node : nodes) hash = (hash ^ node.value()) * 0x9E3779B97F4A7C15ULL + (hash >> 29U);
  return hash;
}

}  // namespace

struct DualProver::State {
  explicit State(const Plan& of) : plan(of), capacity(counted_capacities(of)), restricted(is_restricted(of)) {
    out.resize(plan.nodes.size());
    in.resize(plan.nodes.size());
    mark.assign(plan.nodes.size(), 0);
    for (std::size_t e = 0; e < plan.links.size(); ++e) {
      out[plan.links[e].from.index()].push_back(static_cast<std::uint32_t>(e));
      in[plan.links[e].to.index()].push_back(static_cast<std::uint32_t>(e));
    }
    for (std::size_t i = 0; i < plan.sessions.size(); ++i) session_at.emplace(plan.sessions[i].id, i);
    find_payloads();
    for (const PlanCollective& collective : plan.collectives) {
      member_count.push_back(members_of(plan, collective).size());
    }
  }

  // The same bytes from one root count once on a link, however many sessions bring them.
  void find_payloads() {
    payload.resize(plan.sessions.size());
    std::size_t count = 0;
    for (const PlanCollective& collective : plan.collectives) {
      std::map<std::tuple<NodeId, std::uint64_t, std::uint64_t>, std::size_t> known;
      for (const SessionId id : collective.sessions) {
        const std::size_t i = session_at.at(id);
        const PlanSession& session = plan.sessions[i];
        payload[i] = count;
        if (copies_payload(collective.op)) {
          payload[i] =
              known.emplace(std::tuple(session.root, session.offset_bytes, session.size_bytes), count)
                  .first->second;
        }
        if (payload[i] == count) ++count;
      }
    }
    if (restricted) find_usable(count);
  }

  // By payload: the links that any of its sessions may use.
  void find_usable(std::size_t payloads) {
    usable.assign(payloads, std::vector<bool>(plan.links.size(), false));
    for (std::size_t i = 0; i < plan.sessions.size(); ++i) {
      const std::vector<bool> mine = usable_links(plan, plan.sessions[i]);
      std::vector<bool>& all = usable[payload[i]];
      std::transform(mine.begin(), mine.end(), all.begin(), all.begin(), std::logical_or<>());
    }
  }

  // Marks nodes with a number that no earlier call used.
  std::uint64_t mark_all(const std::vector<NodeId>& nodes) {
    ++last_mark;
    for (const NodeId node : nodes) mark[node.index()] = last_mark;
    return last_mark;
  }

  std::size_t position_of(const std::vector<NodeId>& far_side, bool outwards) {
    std::vector<std::size_t>& alike = cuts_by_hash[hash_of(far_side, outwards)];
    for (const std::size_t c : alike) {
      if (cuts[c].outwards == outwards && *cuts[c].far_side == far_side) return c;
    }
    alike.push_back(cuts.size());
    Cut& cut = cuts.emplace_back(Cut{&far_side, outwards, {}});
    const std::uint64_t inside = mark_all(far_side);
    for (const NodeId node : far_side) {
      for (const std::uint32_t link : outwards ? out[node.index()] : in[node.index()]) {
        const PlanLink& crossing = plan.links[link];
        const NodeId other = outwards ? crossing.to : crossing.from;
        if (mark[other.index()] != inside) cut.links.push_back(link);
      }
    }
    std::sort(cut.links.begin(), cut.links.end());
    cut.links.erase(std::unique(cut.links.begin(), cut.links.end()), cut.links.end());
    return cuts.size() - 1;
  }

  // The lengths of a session's cuts, by payload; sums what they come to by session.
  void pack(const PlanPacking& packing, const std::string& where, Findings& findings) {
    const std::size_t i = session_at.at(packing.session);
    const PlanSession& session = plan.sessions[i];
    const std::uint64_t member = mark_all(session.members);
    std::vector<const PlanPacking::Cut*> good;
    for (const PlanPacking::Cut& cut : packing.cuts) {
      bool has_root = false;
      bool has_member = false;
      for (const NodeId node : cut.far_side) {
        if (node == session.root) has_root = true;
        if (mark[node.index()] == member) has_member = true;
      }
      if (has_root || !has_member) {
        findings.add("{}: a cut of session {} {}", where, session.id.value(),
                     has_root ? "has its root on the far side" : "has none of its members on the far side");
      } else if (cut.length > 0.0) {
        good.push_back(&cut);
      }
    }
    for (const PlanPacking::Cut* cut : good) {
      const std::size_t position = position_of(cut->far_side, session.kind == SessionKind::kReduce);
      lengths[payload[i]].emplace_back(position, cut->length);
      packed[i] += cut->length;
    }
  }

  // By how much the longest packing over each link is longer than `allowed`.
  std::vector<double> excess_over(const std::vector<double>& allowed) {
    std::vector<double> longest(plan.links.size(), 0.0);
    std::vector<double> together(plan.links.size(), 0.0);
    std::set<std::vector<Length>> seen;
    for (const auto& [key, cuts_of] : lengths) {
      look_at_budget();
      if (!restricted && !seen.insert(cuts_of).second) continue;
      for (const auto& [cut, length] : cuts_of) {
        for (const std::uint32_t link : cuts[cut].links) together[link] += length;
      }
      for (const auto& [cut, length] : cuts_of) {
        for (const std::uint32_t link : cuts[cut].links) {
          if (!restricted || usable[key][link]) longest[link] = std::max(longest[link], together[link]);
          together[link] = 0.0;
        }
      }
    }
    for (std::size_t e = 0; e < longest.size(); ++e) longest[e] = std::max(longest[e] - allowed[e], 0.0);
    return longest;
  }

  // D_c: of all its parts, or of the cheapest share of a planned all-reduce.
  [[nodiscard]] double length_of(std::size_t c) const {
    const PlanCollective& collective = plan.collectives[c];
    if (is_planned_all_reduce(plan, collective)) return length_of_shares(collective);
    double sum = 0.0;
    for (const SessionId id : collective.sessions) {
      const std::size_t i = session_at.at(id);
      if (packed[i] > 0.0) sum += share_of(collective, member_count[c], plan.sessions[i]) * packed[i];
    }
    return sum;
  }

  // Another plan may share over any member, so that one without a share proves nothing.
  [[nodiscard]] double length_of_shares(const PlanCollective& collective) const {
    double least = kUnlimited;
    std::vector<NodeId> roots;
    for (const SessionId id : collective.sessions) {
      const std::size_t i = session_at.at(id);
      const PlanSession& session = plan.sessions[i];
      if (session.kind != SessionKind::kReduce || !session.pair.has_value()) continue;
      roots.push_back(session.root);
      least = std::min(least, packed[i] + packed[session_at.at(*session.pair)]);
    }
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    return roots == members_of(plan, collective) ? least : 0.0;
  }

  const Plan& plan;
  std::vector<double> capacity;
  bool restricted = false;                      // are there links that some may not use?
  std::vector<std::vector<bool>> usable;        // then: by payload and link
  std::vector<std::vector<std::uint32_t>> out;  // links by node
  std::vector<std::vector<std::uint32_t>> in;
  std::unordered_map<SessionId, std::size_t> session_at;
  std::vector<std::size_t> payload;       // by session
  std::vector<std::size_t> member_count;  // by collective
  std::vector<std::uint64_t> mark;        // by node
  std::uint64_t last_mark = 0;
  // Of one level.
  std::vector<Cut> cuts;
  std::unordered_map<std::size_t, std::vector<std::size_t>> cuts_by_hash;
  std::unordered_map<std::size_t, std::vector<Length>> lengths;  // by payload
  std::vector<double> packed;                                    // y_i, by session
};

DualProver::DualProver(const Plan& plan) : state_(std::make_unique<State>(plan)) {}
DualProver::~DualProver() = default;
DualProver::DualProver(DualProver&&) noexcept = default;
DualProver& DualProver::operator=(DualProver&&) noexcept = default;

Inequality DualProver::prove(const PlanLevel& level, bool with_prices, const std::string& where,
                             Findings& findings) {
  State& state = *state_;
  const Plan& plan = state.plan;
  state.cuts.clear();
  state.cuts_by_hash.clear();
  state.lengths.clear();
  state.packed.assign(plan.sessions.size(), 0.0);
  for (const PlanPacking& packing : level.packings) {
    look_at_budget();
    state.pack(packing, where, findings);
  }

  Inequality proven;
  std::vector<double> link_length(plan.links.size(), 0.0);
  std::vector<double> egress(plan.nodes.size(), 0.0);
  std::vector<double> ingress(plan.nodes.size(), 0.0);
  for (const auto& [link, length] : level.links) link_length[link.index()] += length;
  for (const auto& [node, length] : level.egress) egress[node.index()] += length;
  for (const auto& [node, length] : level.ingress) ingress[node.index()] += length;
  std::vector<double> allowed = link_length;
  for (std::size_t e = 0; e < allowed.size(); ++e) {
    const PlanLink& link = plan.links[e];
    allowed[e] += egress[link.from.index()] + ingress[link.to.index()];
    allowed[e] += (level.budget + (with_prices ? 1.0 : 0.0)) * hourly_price(link);
  }
  const std::vector<double> excess = state.excess_over(allowed);
  for (std::size_t e = 0; e < excess.size(); ++e) {
    proven.worth += state.capacity[e] * (link_length[e] + excess[e]);
  }
  // An unlimited node with a length proves nothing, one without adds nothing.
  for (std::size_t v = 0; v < plan.nodes.size(); ++v) {
    if (egress[v] > 0.0) proven.worth += egress[v] * plan.nodes[v].egress_bps;
    if (ingress[v] > 0.0) proven.worth += ingress[v] * plan.nodes[v].ingress_bps;
  }
  if (level.budget > 0.0) {
    proven.worth += level.budget * plan.budget_usd_per_hour.value_or(kUnlimited);
  }
  for (std::size_t c = 0; c < plan.collectives.size(); ++c) proven.length.push_back(state.length_of(c));
  return proven;
}

}  // namespace square::validation
