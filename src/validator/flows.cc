// Paths and streams: are they what they claim, and does the overlay carry them?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/plan/figures.h"
#include "base/spending.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

constexpr double kNearlyAll = 0.85;

// What is put on links and nodes. Turns of a job follow one another: it counts the most that any of them puts
// on each.
class Loads {
 public:
  explicit Loads(const Plan& plan)
      : plan_(plan), link_(plan.links.size()), leaving_(plan.nodes.size()), entering_(plan.nodes.size()) {}

  void begin_job() { end_job(); }
  void begin_turn() { end_turn(); }
  void add(int link, double rate_bps) { now_[static_cast<std::size_t>(link)] += rate_bps; }
  void end() { end_job(); }

  [[nodiscard]] const std::vector<double>& link() const { return link_; }
  [[nodiscard]] const std::vector<double>& leaving() const { return leaving_; }
  [[nodiscard]] const std::vector<double>& entering() const { return entering_; }

 private:
  using Sparse = std::map<std::size_t, double>;
  struct Most {
    Sparse link;
    Sparse leaving;
    Sparse entering;
  };

  static void take_larger(const Sparse& from, Sparse& into) {
    for (const auto& [at, bps] : from) into[at] = std::max(into[at], bps);
  }
  static void add_to(const Sparse& from, std::vector<double>& sums) {
    for (const auto& [at, bps] : from) sums[at] += bps;
  }

  void end_turn() {
    Most all{std::exchange(now_, {}), {}, {}};
    for (const auto& [e, bps] : all.link) {
      all.leaving[plan_.links[e].from.index()] += bps;
      all.entering[plan_.links[e].to.index()] += bps;
    }
    take_larger(all.link, most_.link);
    take_larger(all.leaving, most_.leaving);
    take_larger(all.entering, most_.entering);
  }

  void end_job() {
    end_turn();
    const Most job = std::exchange(most_, {});
    add_to(job.link, link_);
    add_to(job.leaving, leaving_);
    add_to(job.entering, entering_);
  }

  const Plan& plan_;
  Sparse now_;  // of one turn, by link
  Most most_;   // of any of one job
  std::vector<double> link_;
  std::vector<double> leaving_;
  std::vector<double> entering_;
};

class Flows {
 public:
  Flows(const Plan& plan, Findings& findings)
      : plan_(plan), findings_(findings), links_(plan), stream_load_(plan), conceptual_load_(plan) {
    has_flows_ = std::any_of(plan.sessions.begin(), plan.sessions.end(),
                             [](const PlanSession& session) { return !session.paths.empty(); });
  }

  void check() {
    for (const auto& [job, turns] : sessions_by_job()) {
      stream_load_.begin_job();
      conceptual_load_.begin_job();
      for (const auto& [turn, sessions] : turns) {
        stream_load_.begin_turn();
        conceptual_load_.begin_turn();
        for (const PlanSession* const session : sessions) check_session(*session);
      }
    }
    stream_load_.end();
    conceptual_load_.end();
    if (!links_known_) return;  // loads over links that are not there mean nothing
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      if (!about_equal(plan_.links[e].load_bps, stream_load_.link()[e])) {
        findings_.add("link {}: its load is given as {}, its streams sum to {}", link_name(e),
                      mbps(plan_.links[e].load_bps), mbps(stream_load_.link()[e]));
      }
    }
    check_limits(stream_load_, "streams");
    check_limits(conceptual_load_, "conceptual flows");
  }

 private:
  using ByTurn = std::map<JobTurn, std::vector<const PlanSession*>>;

  [[nodiscard]] std::map<std::size_t, ByTurn> sessions_by_job() const {
    const std::vector<std::size_t> job_of = number_jobs(plan_);
    std::map<CollectiveId, std::size_t> position;
    for (std::size_t c = 0; c < job_of.size(); ++c) position.emplace(plan_.collectives[c].id, c);
    std::map<std::size_t, ByTurn> sorted;
    for (const PlanSession& session : plan_.sessions) {
      const std::size_t c = position.at(session.collective);
      sorted[job_of[c]][job_turn_of(plan_.collectives[c].op, session.collective)].push_back(&session);
    }
    return sorted;
  }

  void check_session(const PlanSession& session) {
    look_at_budget();
    name_ = fmt::format("session {}", session.id.value());
    check_streams(session);
    check_paths(session);
  }

  [[nodiscard]] const std::string& node_name(NodeId node) const { return plan_.nodes[node.index()].name; }
  [[nodiscard]] std::string link_name(std::size_t e) const {
    return node_name(plan_.links[e].from) + " -> " + node_name(plan_.links[e].to);
  }

  void check_streams(const PlanSession& session) {
    const double sum = carried_bps(session);
    for (std::size_t s = 0; s < session.streams.size(); ++s) {
      const PlanStream& stream = session.streams[s];
      if (!(stream.rate_bps > 0.0) || !std::isfinite(stream.rate_bps)) {
        findings_.add("{}, stream {}: its rate, {}, is not positive and finite", name_, s,
                      mbps(stream.rate_bps));
      }
      check_links(stream, s);
      session.kind == SessionKind::kReduce ? check_additions(session, stream, s)
                                           : check_tree(session, stream, s);
    }
    if (!plan_.realised && !session.streams.empty()) {
      findings_.add("{} has streams in a plan that has none", name_);
    }
    if (!about_equal(session.rate_bps, sum)) {
      findings_.add("{}: its rate is given as {}, its streams sum to {}", name_, mbps(session.rate_bps),
                    mbps(sum));
    }
    // Where a session before it cannot have by trees what the program gives it, others may
    // have more: fair rates by trees are not always under those of the program.
    if (plan_.certificate.levels.empty() && !at_most(session.rate_bps, session.lp_rate_bps)) {
      findings_.add("{}: its rate, {}, is over its lp_rate {}", name_, mbps(session.rate_bps),
                    mbps(session.lp_rate_bps));
    }
  }

  void check_links(const PlanStream& stream, std::size_t s) {
    for (const auto& [from, to] : stream.links) {
      const int link = links_.find(from, to);
      if (link >= 0) {
        stream_load_.add(link, stream.rate_bps);
        continue;
      }
      links_known_ = false;
      findings_.add("{}, stream {}: there is no link {} -> {}", name_, s, node_name(from), node_name(to));
    }
  }

  // A tree that grows from the root; a coded stream's from its origin, and check_codes() says whom it must
  // reach.
  void check_tree(const PlanSession& session, const PlanStream& stream, std::size_t s) {
    std::set<NodeId> reached = {stream.coded ? stream.coded->origin : session.root};
    for (const auto& [from, to] : stream.links) {
      if (!reached.contains(from)) {
        findings_.add("{}, stream {}: {} -> {} comes before the link that feeds it", name_, s,
                      node_name(from), node_name(to));
      }
      if (!reached.insert(to).second) {
        findings_.add("{}, stream {}: {} is reached twice, so it is not a tree", name_, s, node_name(to));
      }
    }
    for (const NodeId member : session.members) {
      if (!stream.coded && !reached.contains(member)) {
        findings_.add("{}, stream {}: it does not reach member {}", name_, s, node_name(member));
      }
    }
  }

  // A tree towards the root of a reduce: each node adds what it has got, then sends once.
  // With links in that order there is no cycle, so that every sum ends at the root.
  void check_additions(const PlanSession& session, const PlanStream& stream, std::size_t s) {
    const std::set<NodeId> members(session.members.begin(), session.members.end());
    std::set<NodeId> fed;
    std::set<NodeId> sent;
    for (const auto& [from, to] : stream.links) {
      if (from == session.root) findings_.add("{}, stream {}: the root of a reduce sends", name_, s);
      if (!sent.insert(from).second) {
        findings_.add("{}, stream {}: {} sends twice, so it is not a tree towards the root", name_, s,
                      node_name(from));
      }
      if (sent.contains(to)) {
        findings_.add("{}, stream {}: {} -> {} comes after {} has sent its sum", name_, s, node_name(from),
                      node_name(to), node_name(to));
      }
      if (!members.contains(from) && !fed.contains(from)) {
        findings_.add("{}, stream {}: {} has nothing to send", name_, s, node_name(from));
      }
      fed.insert(to);
    }
    sent.insert(session.root);
    for (const NodeId member : session.members) {
      if (!sent.contains(member)) {
        findings_.add("{}, stream {}: it leaves out what member {} has", name_, s, node_name(member));
      }
    }
    for (const NodeId node : fed) {
      if (!sent.contains(node) && !members.contains(node)) {
        findings_.add("{}, stream {}: the sum ends at {}, not at the root", name_, s, node_name(node));
      }
    }
  }

  void check_paths(const PlanSession& session) {
    if (session.paths.empty()) {
      // Where the program's flows are given, a share that it does not use has none.
      if (!has_flows_) use_streams_as_paths(session);
      if (has_flows_ && session.lp_rate_bps > 0.0) {
        findings_.add("{}: its lp_rate is {}, and of all sessions it has no paths", name_,
                      mbps(session.lp_rate_bps));
      }
      return;
    }
    std::map<NodeId, double> carried;
    std::map<NodeId, std::map<int, double>> towards;  // by member, by link
    for (const PlanPath& path : session.paths) {
      if (!(path.rate_bps > 0.0) || !std::isfinite(path.rate_bps)) {
        findings_.add("{}: the rate of a path, {}, is not positive and finite", name_, mbps(path.rate_bps));
      }
      if (!is_path(session, path)) {
        findings_.add("{}: a path to {} does not lead there from the root over links that exist", name_,
                      node_name(path.member));
        continue;
      }
      carried[path.member] += path.rate_bps;
      for (std::size_t v = 0; v + 1 < path.nodes.size(); ++v) {
        towards[path.member][link_of(session, path, v)] += path.rate_bps;
      }
    }
    for (const NodeId member : session.members) {
      if (member != session.root && !at_most(session.lp_rate_bps, carried[member])) {
        findings_.add("{}: its lp_rate is {}, its paths carry {} to {}", name_, mbps(session.lp_rate_bps),
                      mbps(carried[member]), node_name(member));
      }
    }
    std::map<int, double> effective;
    for (const auto& [member, rates] : towards) {
      for (const auto& [link, rate] : rates) effective[link] = std::max(effective[link], rate);
    }
    for (const auto& [link, rate] : effective) conceptual_load_.add(link, rate);
  }

  // Where the streams carry all of it, each is a path of every member.
  void use_streams_as_paths(const PlanSession& session) {
    if (!plan_.realised) return;
    // Of sessions that reach all nodes cuts say what the program allows, and streams carry nearly that.
    const bool by_cuts = !plan_.certificate.levels.empty() && session.members.size() == plan_.nodes.size() &&
                         at_most(session.rate_bps, session.lp_rate_bps) &&
                         session.rate_bps >= kNearlyAll * session.lp_rate_bps;
    if (!by_cuts && !about_equal(session.rate_bps, session.lp_rate_bps)) {
      findings_.add("{}: its lp_rate is {}, its streams carry {}, and there are no paths", name_,
                    mbps(session.lp_rate_bps), mbps(session.rate_bps));
    }
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) {
        const int link = links_.find(from, to);
        if (link >= 0) conceptual_load_.add(link, stream.rate_bps);
      }
    }
  }

  // From the root to the member, whatever the direction of data.
  [[nodiscard]] bool is_path(const PlanSession& session, const PlanPath& path) const {
    const auto& members = session.members;
    if (path.member == session.root ||
        std::find(members.begin(), members.end(), path.member) == members.end()) {
      return false;
    }
    if (path.nodes.empty() || path.nodes.front() != session.root || path.nodes.back() != path.member) {
      return false;
    }
    if (std::set<NodeId>(path.nodes.begin(), path.nodes.end()).size() != path.nodes.size()) return false;
    for (std::size_t v = 0; v + 1 < path.nodes.size(); ++v) {
      if (link_of(session, path, v) < 0) return false;
    }
    return true;
  }

  // The link between a path's nodes v and v + 1: the data of a reduce comes towards the root.
  [[nodiscard]] int link_of(const PlanSession& session, const PlanPath& path, std::size_t v) const {
    const bool towards_root = session.kind == SessionKind::kReduce;
    return towards_root ? links_.find(path.nodes[v + 1], path.nodes[v])
                        : links_.find(path.nodes[v], path.nodes[v + 1]);
  }

  void check_limits(const Loads& loads, std::string_view whose) {
    const std::vector<double>& leaving = loads.leaving();
    const std::vector<double>& entering = loads.entering();
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      const double load = loads.link()[e];
      if (!at_most(load, plan_.links[e].capacity_bps)) {
        findings_.add("link {}: {} put {} on a capacity of {}", link_name(e), whose, mbps(load),
                      mbps(plan_.links[e].capacity_bps));
      }
    }
    for (std::size_t v = 0; v < plan_.nodes.size(); ++v) {
      const PlanNode& node = plan_.nodes[v];
      if (!at_most(leaving[v], node.egress_bps)) {
        findings_.add("node {}: {} send {}, its egress limit is {}", node.name, whose, mbps(leaving[v]),
                      mbps(node.egress_bps));
      }
      if (!at_most(entering[v], node.ingress_bps)) {
        findings_.add("node {}: {} receive {}, its ingress limit is {}", node.name, whose, mbps(entering[v]),
                      mbps(node.ingress_bps));
      }
    }
  }

  const Plan& plan_;
  Findings& findings_;
  LinkTable links_;
  std::string name_;
  bool links_known_ = true;
  bool has_flows_ = false;  // some session has paths
  Loads stream_load_;
  Loads conceptual_load_;
};

}  // namespace

void check_flows(const Plan& plan, Findings& findings) { Flows(plan, findings).check(); }

}  // namespace square::validation
