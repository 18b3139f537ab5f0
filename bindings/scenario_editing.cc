#include "scenario_editing.h"

#include <algorithm>
#include <limits>

#include "names.h"

namespace square::python {
namespace {

CollectiveId next_id(const Scenario& scenario) {
  CollectiveId::value_type next = 0;
  for (const CollectiveSpec& collective : scenario.collectives) {
    if (collective.id.value() == std::numeric_limits<CollectiveId::value_type>::max()) {
      raise(resource_exhausted("there is no number left for another collective"));
    }
    next = std::max(next, collective.id.value() + 1);
  }
  return CollectiveId(next);
}

CollectiveSpec& collective_numbered(Scenario& scenario, std::uint32_t id) {
  const auto found = std::ranges::find(scenario.collectives, CollectiveId(id), &CollectiveSpec::id);
  if (found != scenario.collectives.end()) return *found;
  raise(not_found("there is no collective " + std::to_string(id) + " in the scenario"));
}

// A topology without one node, and the ids that what stays has in it.
class Removal {
 public:
  Removal(const Topology& before, NodeId gone) : gone_(gone) {
    for (std::uint32_t id = 0; id < before.node_count(); ++id) {
      if (NodeId(id) != gone) check(topology_.add_node(before.node(NodeId(id))));
    }
    for (std::uint32_t id = 0; id < before.link_count(); ++id) {
      const TopologyLink& link = before.link(LinkId(id));
      const bool stays = link.from != gone && link.to != gone;
      links_.push_back(
          !stays ? std::nullopt
                 : std::optional(check(topology_.add_link(node(link.from), node(link.to), link.properties))));
    }
  }

  // Precondition: it is not the one that goes.
  [[nodiscard]] NodeId node(NodeId before) const {
    return before < gone_ ? before : NodeId(before.value() - 1);
  }

  // The collective without the node; nothing where nothing is left to plan.
  [[nodiscard]] std::optional<CollectiveSpec> apply(CollectiveSpec collective) const {
    const bool rooted = has_root(collective.op);
    std::vector<NodeId> members;
    std::vector<Duration> max_latency;
    for (std::size_t i = 0; i < collective.members.size(); ++i) {
      if (collective.members[i] == gone_) continue;
      members.push_back(node(collective.members[i]));
      if (!collective.max_latency.empty()) max_latency.push_back(collective.max_latency[i]);
    }
    const bool leaves = members.size() < collective.members.size();
    if (leaves && (members.size() < 2 || (rooted && collective.root == gone_))) return std::nullopt;
    if (rooted) collective.root = node(collective.root);
    collective.members = std::move(members);
    collective.max_latency = std::move(max_latency);
    return collective;
  }

  void apply(PolicySpec& policy) const {
    std::erase(policy.avoid_nodes, gone_);
    for (NodeId& avoided : policy.avoid_nodes) avoided = node(avoided);
    std::vector<LinkId> links;
    for (const LinkId avoided : policy.avoid_links) {
      if (links_[avoided.index()]) links.push_back(*links_[avoided.index()]);
    }
    policy.avoid_links = std::move(links);
  }

  Topology take() && { return std::move(topology_); }

 private:
  NodeId gone_;
  Topology topology_;
  std::vector<std::optional<LinkId>> links_;  // by their id before
};

}  // namespace

std::uint32_t add_collective(Scenario& scenario, const CollectiveText& text) {
  const CollectiveId id = next_id(scenario);
  scenario.collectives.push_back(make_collective(text, scenario.topology, id));
  const bool is_new = std::ranges::none_of(
      scenario.tenants, [&](const TenantSpec& tenant) { return tenant.name == text.tenant; });
  if (is_new) scenario.tenants.push_back({text.tenant, 1.0});
  if (const Status status = check_scenario(scenario); !status.is_ok()) {
    scenario.collectives.pop_back();
    if (is_new) scenario.tenants.pop_back();
    raise(status);
  }
  return id.value();
}

void remove_collective(Scenario& scenario, Count<"id"> id) {
  const CollectiveSpec& gone = collective_numbered(scenario, id);
  scenario.collectives.erase(scenario.collectives.begin() + (&gone - scenario.collectives.data()));
}

void set_size(Scenario& scenario, Count<"id"> id, Size<"size_bytes"> size_bytes) {
  collective_numbered(scenario, id).size_bytes = size_bytes;
}

void set_required_rate(Scenario& scenario, Count<"id"> id, std::optional<double> required_bps) {
  collective_numbered(scenario, id).required_bps = required_bps;
}

void remove_node(Scenario& scenario, const std::string& name) {
  Removal removal(scenario.topology, node_named(scenario.topology, name));
  std::vector<CollectiveSpec> collectives;
  for (CollectiveSpec& collective : scenario.collectives) {
    if (auto changed = removal.apply(std::move(collective))) collectives.push_back(*std::move(changed));
  }
  scenario.collectives = std::move(collectives);
  removal.apply(scenario.policy);
  scenario.topology = std::move(removal).take();
}

}  // namespace square::python
