// Ids, names and references.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "validator/checks.h"

namespace square::validation {
namespace {

bool is_rate(double value) { return value >= 0.0; }  // infinite is, NaN is not
bool is_length(double value) { return value >= 0.0 && std::isfinite(value); }

class ReferenceCheck {
 public:
  ReferenceCheck(const Plan& plan, Findings& findings)
      : plan_(plan), findings_(findings), seen_by_(plan.nodes.size(), 0) {}

  References check() {
    dangling_ = &result_.plan;
    check_overlay();
    check_tenants();
    check_sessions();
    check_collectives();
    dangling_ = &result_.certificate;
    for (const PlanCut& cut : plan_.certificate.cuts) {
      if (!collectives_.contains(cut.collective)) {
        dangle("a cut bounds collective {}, which is not in the plan", cut.collective.value());
      }
      for (const NodeId node : cut.source_side) check_node(node, "a cut");
    }
    for (std::size_t k = 0; k < plan_.certificate.levels.size(); ++k) check_level(k);
    return result_;
  }

 private:
  // Something is named that is not there, so later checks cannot follow it.
  template <typename... Args>
  void dangle(fmt::format_string<Args...> format, Args&&... args) {
    *dangling_ = false;
    findings_.add(format, std::forward<Args>(args)...);
  }

  bool check_node(NodeId node, std::string_view where) {
    const bool known = node.index() < plan_.nodes.size();
    if (!known) dangle("{} names node {}, which is not in the plan", where, node.value());
    return known;
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
      if (!is_length(link.price_usd_per_gb)) findings_.add("link {}: its price is not a finite amount", e);
    }
  }

  void check_tenants() {
    for (const PlanTenant& tenant : plan_.tenants) {
      if (!tenants_.insert(tenant.name).second) findings_.add("there are two tenants named {}", tenant.name);
      if (!(tenant.weight > 0.0)) findings_.add("tenant {}: its weight is not positive", tenant.name);
    }
    for (const PlanCollective& collective : plan_.collectives) {
      if (!collectives_.insert(collective.id).second) {
        findings_.add("collective {} is there twice", collective.id.value());
      }
    }
    for (const PlanSession& session : plan_.sessions) {
      if (!sessions_.emplace(session.id, session.collective).second) {
        findings_.add("session {} is there twice", session.id.value());
      }
    }
  }

  void check_sessions() {
    for (const PlanSession& session : plan_.sessions) {
      const std::string name = fmt::format("session {}", session.id.value());
      if (!collectives_.contains(session.collective)) {
        dangle("{} belongs to collective {}, which is not in the plan", name, session.collective.value());
      }
      if (session.pair.has_value() && !sessions_.contains(*session.pair)) {
        dangle("{} is paired with session {}, which is not in the plan", name, session.pair->value());
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
        if (stream.coded) check_code_part(session, *stream.coded, name);
      }
      for (const PlanCode& code : session.codes) {
        for (const PlanCode::Sink& sink : code.sinks) {
          check_node(sink.member, name);
          for (const StreamIndex stream : sink.streams) check_stream(session, stream, name);
        }
      }
    }
  }

  void check_code_part(const PlanSession& session, const PlanCodePart& part, const std::string& name) {
    if (part.code >= session.codes.size()) dangle("{} has no code {}", name, part.code);
    check_node(part.origin, name);
    for (const auto& [stream, factor] : part.terms) check_stream(session, stream, name);
  }

  void check_stream(const PlanSession& session, StreamIndex stream, const std::string& name) {
    if (stream.index() >= session.streams.size()) dangle("{} has no stream {}", name, stream.value());
  }

  void check_members(const PlanSession& session, const std::string& name) {
    check_node(session.root, name);
    ++seen_;
    std::size_t distinct = 0;
    for (const NodeId member : session.members) {
      if (!check_node(member, name)) continue;
      if (seen_by_[member.index()] == seen_) findings_.add("{} has a member twice", name);
      if (seen_by_[member.index()] != seen_) ++distinct;
      seen_by_[member.index()] = seen_;
    }
    const std::size_t root = session.root.index();
    if (root < seen_by_.size() && seen_by_[root] != seen_)
      findings_.add("{}: its root is not a member", name);
    if (distinct < 2) findings_.add("{} has nobody to send to", name);
    if (session.kind == SessionKind::kUnicast && distinct != 2) {
      findings_.add("{} is a unicast with {} members", name, distinct);
    }
  }

  void check_collectives() {
    std::map<SessionId, int> listed;
    for (const PlanCollective& collective : plan_.collectives) {
      const std::uint32_t id = collective.id.value();
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
          dangle("collective {} lists session {}, which is not in the plan", id, session.value());
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

  void check_level(std::size_t k) {
    const PlanLevel& level = plan_.certificate.levels[k];
    const std::string name = fmt::format("level {}", k);
    if (!is_rate(level.bound_bps)) findings_.add("{}: its bound is not a rate", name);
    for (const CollectiveId id : level.collectives) {
      if (!collectives_.contains(id)) {
        dangle("{} names collective {}, which is not in the plan", name, id.value());
      } else if (!frozen_.insert(id).second) {
        findings_.add("{}: collective {} is in a level already", name, id.value());
      }
    }
    for (const auto& [link, length] : level.links) {
      if (link.index() >= plan_.links.size()) {
        dangle("{} names link {}, which is not in the plan", name, link.value());
      }
      check_length(length, name);
    }
    for (const auto* duals : {&level.egress, &level.ingress}) {
      for (const auto& [node, length] : *duals) {
        check_node(node, name);
        check_length(length, name);
      }
    }
    check_length(level.budget, name);
    check_packings(level, name);
  }

  // A length that is none proves nothing, and what follows from it means nothing.
  void check_length(double length, const std::string& name) {
    if (!is_length(length)) dangle("{}: the length {} is not finite and at least 0", name, length);
  }

  void check_packings(const PlanLevel& level, const std::string& name) {
    std::set<SessionId> packed;
    for (const PlanPacking& packing : level.packings) {
      if (!sessions_.contains(packing.session)) {
        dangle("{} packs cuts for session {}, which is not in the plan", name, packing.session.value());
      }
      if (!packed.insert(packing.session).second) {
        findings_.add("{} packs cuts for session {} twice", name, packing.session.value());
      }
      for (const PlanPacking::Cut& cut : packing.cuts) {
        check_length(cut.length, name);
        for (const NodeId node : cut.far_side) check_node(node, name);
      }
    }
  }

  const Plan& plan_;
  Findings& findings_;
  References result_;
  bool* dangling_ = nullptr;
  std::set<std::string_view> tenants_;
  std::set<CollectiveId> collectives_;
  std::set<CollectiveId> frozen_;
  std::map<SessionId, CollectiveId> sessions_;
  // By node: the number of the last session that had it as a member.
  std::vector<std::size_t> seen_by_;
  std::size_t seen_ = 0;
};

}  // namespace

References check_references(const Plan& plan, Findings& findings) {
  return ReferenceCheck(plan, findings).check();
}

}  // namespace square::validation
