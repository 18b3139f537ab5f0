#include "square/validator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planning/validator.h"

namespace square {
namespace validation {

bool about_equal(double a, double b) {
  if (a == b) return true;  // infinite ones too
  return std::abs(a - b) <= kPlanTolerance * std::max(std::abs(a), std::abs(b));
}

bool at_most(double a, double b) { return a <= b || about_equal(a, b); }

LinkTable::LinkTable(const Plan& plan) : out_(plan.nodes.size()) {
  for (std::size_t e = 0; e < plan.links.size(); ++e) {
    out_[plan.links[e].from.index()].emplace_back(plan.links[e].to, static_cast<int>(e));
  }
  for (auto& links : out_) std::sort(links.begin(), links.end());
}

int LinkTable::find(NodeId from, NodeId to) const {
  if (from.index() >= out_.size()) return -1;
  const auto& links = out_[from.index()];
  const auto found = std::lower_bound(links.begin(), links.end(), std::pair<NodeId, int>(to, -1));
  return found != links.end() && found->first == to ? found->second : -1;
}

namespace {

bool is_rate(double value) { return value >= 0.0; }  // infinite is, NaN is not

class References {
 public:
  References(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings) {}

  void check() {
    check_overlay();
    check_tenants();
    check_sessions();
    check_collectives();
    for (const PlanCut& cut : plan_.certificate.cuts) {
      if (plan_.find_collective(cut.collective) == nullptr) {
        findings_.add("a cut bounds collective {}, which is not in the plan", cut.collective.value());
      }
      for (const NodeId node : cut.source_side) check_node(node, "a cut");
    }
  }

 private:
  void check_node(NodeId node, std::string_view where) {
    if (node.index() >= plan_.nodes.size()) {
      findings_.add("{} names node {}, which is not in the plan", where, node.value());
    }
  }

  void check_overlay() {
    std::set<std::string_view> names;
    for (const PlanNode& node : plan_.nodes) {
      if (node.name.empty()) findings_.add("a node has no name");
      if (!names.insert(node.name).second) findings_.add("there are two nodes named {}", node.name);
      if (!(node.egress_bps > 0.0) || !(node.ingress_bps > 0.0)) {
        findings_.add("node {}: a limit is not positive", node.name);
      }
    }
    std::set<std::pair<NodeId, NodeId>> ends;
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      const PlanLink& link = plan_.links[e];
      check_node(link.from, "a link");
      check_node(link.to, "a link");
      if (link.from == link.to) findings_.add("link {} is a loop", e);
      if (!ends.emplace(link.from, link.to).second) findings_.add("link {} is there twice", e);
      if (!(link.capacity_bps > 0.0)) findings_.add("link {}: its capacity is not positive", e);
      if (!is_rate(link.load_bps)) findings_.add("link {}: its load is not a rate", e);
    }
  }

  void check_tenants() {
    for (const PlanTenant& tenant : plan_.tenants) {
      if (!tenants_.insert(tenant.name).second) findings_.add("there are two tenants named {}", tenant.name);
      if (!(tenant.weight > 0.0)) findings_.add("tenant {}: its weight is not positive", tenant.name);
    }
  }

  void check_sessions() {
    for (const PlanSession& session : plan_.sessions) {
      const std::string name = fmt::format("session {}", session.id.value());
      if (!sessions_.emplace(session.id, session.collective).second) findings_.add("{} is there twice", name);
      if (plan_.find_collective(session.collective) == nullptr) {
        findings_.add("{} belongs to collective {}, which is not in the plan", name,
                      session.collective.value());
      }
      if (session.pair.has_value() && plan_.find_session(*session.pair) == nullptr) {
        findings_.add("{} is paired with session {}, which is not in the plan", name, session.pair->value());
      }
      check_members(session, name);
      for (const PlanPath& path : session.paths) {
        check_node(path.member, name);
        for (const NodeId node : path.nodes) check_node(node, name);
      }
      for (const PlanStream& stream : session.streams) {
        for (const auto& [from, to] : stream.links) {
          check_node(from, name);
          check_node(to, name);
        }
      }
    }
  }

  void check_members(const PlanSession& session, const std::string& name) {
    check_node(session.root, name);
    std::set<NodeId> members;
    for (const NodeId member : session.members) {
      check_node(member, name);
      if (!members.insert(member).second) findings_.add("{} has a member twice", name);
    }
    if (!members.contains(session.root)) findings_.add("{}: its root is not a member", name);
    if (members.size() < 2) findings_.add("{} has nobody to send to", name);
    if (session.kind == SessionKind::kUnicast && members.size() != 2) {
      findings_.add("{} is a unicast with {} members", name, members.size());
    }
    if (session.kind == SessionKind::kReduce)
      findings_.add("{} is a reduce, which cannot be planned yet", name);
  }

  void check_collectives() {
    std::set<CollectiveId> collectives;
    std::map<SessionId, int> listed;
    for (const PlanCollective& collective : plan_.collectives) {
      const std::uint32_t id = collective.id.value();
      if (!collectives.insert(collective.id).second) findings_.add("collective {} is there twice", id);
      if (!tenants_.contains(collective.tenant)) {
        findings_.add("collective {}: its tenant {} is not in the plan", id, collective.tenant);
      }
      if (!(collective.weight > 0.0) || !std::isfinite(collective.weight)) {
        findings_.add("collective {}: its weight is not positive and finite", id);
      }
      for (const SessionId session : collective.sessions) {
        ++listed[session];
        const auto known = sessions_.find(session);
        if (known == sessions_.end()) {
          findings_.add("collective {} lists session {}, which is not in the plan", id, session.value());
        } else if (known->second != collective.id) {
          findings_.add("collective {} lists session {}, which belongs to another", id, session.value());
        }
      }
    }
    for (const auto& [session, collective] : sessions_) {
      if (listed[session] != 1) {
        findings_.add("session {} is listed {} times by its collective", session.value(), listed[session]);
      }
    }
  }

  const Plan& plan_;
  Findings& findings_;
  std::set<std::string_view> tenants_;
  std::map<SessionId, CollectiveId> sessions_;
};

}  // namespace

void check_references(const Plan& plan, Findings& findings) { References(plan, findings).check(); }

}  // namespace validation

std::vector<std::string> find_violations(const Plan& plan) {
  validation::Findings findings;
  validation::check_references(plan, findings);
  if (findings.empty()) {
    validation::check_flows(plan, findings);
    validation::check_sums(plan, findings);
    validation::check_ranges(plan, findings);
    validation::check_certificate(plan, findings);
  }
  return std::move(findings).take();
}

Status validate(const Plan& plan) {
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> violations = find_violations(plan);
  if (violations.empty()) return Status::ok();
  std::string message =
      fmt::format("the plan breaks {} rule{}", violations.size(), violations.size() == 1 ? "" : "s");
  for (std::size_t v = 0; v < std::min(kShown, violations.size()); ++v) {
    message += (v == 0 ? ": " : "; ") + violations[v];
  }
  return invalid_argument(std::move(message));
}

}  // namespace square
