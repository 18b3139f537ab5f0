// The half of Coordinator that follows who is there.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "controller/coordinator.h"
#include "controller/overlay_change.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

using Event = std::shared_ptr<const v1::ControllerEvent>;

Event welcome(Duration lease) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_welcome()->set_lease_nanoseconds(static_cast<std::uint64_t>(lease.count()));
  return event;
}

Event address_of(const std::string& peer, const std::string& address) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_address()->set_peer(peer);
  event->mutable_address()->set_address(address);
  return event;
}

Event activation(Epoch epoch) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_activate()->set_epoch(epoch.value());
  return event;
}

Status check_hello(const v1::Hello& hello) {
  if (hello.protocol_version() != kControlProtocolVersion) {
    return failed_precondition(
        fmt::format("node \"{}\" speaks control protocol {}, the controller {}; run the same release on both",
                    hello.node(), hello.protocol_version(), kControlProtocolVersion));
  }
  if (hello.node().empty() || hello.node().size() > kMaxNodeNameBytes) {
    return invalid_argument(fmt::format("a node needs a name of 1 to {} bytes", kMaxNodeNameBytes));
  }
  if (hello.address().empty() || hello.address().size() > kMaxAddressBytes) {
    return invalid_argument(
        fmt::format("node \"{}\" needs an address of 1 to {} bytes", hello.node(), kMaxAddressBytes));
  }
  return {};
}

}  // namespace

Status Coordinator::join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line) {
  SQUARE_RETURN_IF_ERROR(check_hello(hello));
  const std::string& name = hello.node();
  std::shared_ptr<NodeLine> replaced;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return unavailable("the controller is stopping");
    if (!open_ && !state_.topology.find_node(name)) {
      return not_found(fmt::format("the controller's topology has no node \"{}\"", name));
    }
    auto found = members_.find(name);
    if (found != members_.end() && found->second.incarnation != hello.incarnation()) {
      if (found->second.line != nullptr) {
        return already_exists(
            fmt::format("another live process is node \"{}\", at {}; give this one another name", name,
                        found->second.address));
      }
      leave(found);
      found = members_.end();
    }
    const bool is_new = found == members_.end();
    if (is_new && open_ && members_.size() >= kMaxMeshedNodes) {
      return resource_exhausted(fmt::format(
          "there are {} nodes already; start the controller with a topology for more", kMaxMeshedNodes));
    }
    Member& member = members_[name];
    const bool moved = member.address != hello.address();
    replaced = std::exchange(member.line, line);
    member.incarnation = hello.incarnation();
    member.address = hello.address();
    if (is_new) member.joined = ++events_;
    member.sent = member.installed = member.activated = Epoch(0);
    member.lease_end = Clock::now() + lease_;
    log(LogLevel::kInfo, {.component = kComponent, .node = name}, "node {} {} at {}", name,
        is_new ? "joined" : "is back", member.address);
    line->send(welcome(lease_));
    send_addresses(name, member, moved);
    if (active_) send_plan(member, active_);
    if (change_ && change_->next) send_plan(member, change_->next);
    if (open_) {
      left_.erase(name);
      if (!state_.topology.find_node(name) || gone_.contains(name)) arrivals_.insert(name);
      // Also for registrations that wait for this node.
      note_work();
    }
    wake();
  }
  if (replaced) replaced->close(aborted("the same process has connected again"), true);
  return {};
}

void Coordinator::send_addresses(const std::string& name, const Member& member, bool tell_others) {
  const Event own = address_of(name, member.address);
  for (const auto& [peer, other] : members_) {
    if (peer == name) continue;
    member.line->send(address_of(peer, other.address));
    if (tell_others && other.line) other.line->send(own);
  }
}

void Coordinator::send_plan(Member& member, const PublishedPlanPtr& plan) {
  if (member.sent >= plan->plan->epoch) return;
  member.sent = plan->plan->epoch;
  member.install_end = Clock::now() + install_timeout_;
  member.line->send(plan->event);
}

// Not before the node has installed it: a node ignores the activation of a plan it does not have.
void Coordinator::activate(Member& member) {
  if (!active_ || !member.line) return;
  const Epoch epoch = active_->plan->epoch;
  if (member.installed < epoch || member.activated >= epoch) return;
  member.activated = epoch;
  member.line->send(activation(epoch));
}

Coordinator::Member* Coordinator::find(const std::string& node, const NodeLine* line) {
  const auto found = members_.find(node);
  if (found == members_.end() || found->second.line.get() != line) return nullptr;
  found->second.lease_end = Clock::now() + lease_;
  return &found->second;
}

void Coordinator::heartbeat(const std::string& node, const NodeLine* line, const v1::Heartbeat& beat) {
  const std::lock_guard lock(mutex_);
  if (find(node, line) == nullptr || beat.used().empty()) return;
  const TimePoint now = Clock::now();
  for (const v1::CollectiveUse& use : beat.used()) {
    const CollectiveId collective(use.collective());
    const PlanCollective* planned = active_ ? active_->plan->find_collective(collective) : nullptr;
    if (planned == nullptr || planned->sessions.empty()) continue;
    // Every member tells of the same operations.
    const PlanSession* session = active_->plan->find_session(planned->sessions.front());
    demand_.note(collective, static_cast<double>(use.bytes()) / static_cast<double>(session->members.size()),
                 now);
  }
  if (now < next_demand_) return;
  next_demand_ = now + kDemandInterval;
  note_work();
}

// What is used more or less than before gets another part of its tenant's share.
bool Coordinator::absorb_demand() {
  const DemandWeights& weights = demand_.update(state_.registry.collectives_by_tenant(), Clock::now());
  if (weights == state_.demand) return false;
  state_.demand = weights;
  log(LogLevel::kInfo, kComponent, "collectives are used in other parts than before: plans again");
  return true;
}

void Coordinator::installed(const std::string& node, const NodeLine* line, Epoch epoch) {
  const std::lock_guard lock(mutex_);
  Member* const member = find(node, line);
  if (member == nullptr || epoch > member->sent || epoch <= member->installed) return;
  member->installed = epoch;
  activate(*member);
  wake();
}

void Coordinator::lost(const std::string& node, const NodeLine* line) {
  const std::lock_guard lock(mutex_);
  Member* const member = find(node, line);
  if (member == nullptr) return;
  log(LogLevel::kWarning, {.component = kComponent, .node = node},
      "node {}: its line broke; it may come back for {:.3g} s", node, to_seconds(lease_));
  member->line = nullptr;
  wake();
}

void Coordinator::goodbye(const std::string& node, const NodeLine* line) {
  const std::lock_guard lock(mutex_);
  if (find(node, line) == nullptr) return;
  leave(members_.find(node));
}

void Coordinator::leave(Members::iterator member) {
  log(LogLevel::kInfo, {.component = kComponent, .node = member->first}, "node {} left", member->first);
  departures_.push_back({member->first, ++events_});
  if (open_) {
    arrivals_.erase(member->first);
    left_.insert(member->first);
  }
  members_.erase(member);
  note_work();
  wake();
}

void Coordinator::expire(Deferred& deferred) {
  const TimePoint now = Clock::now();
  for (auto it = members_.begin(); it != members_.end();) {
    const auto member = it++;
    if (now < member->second.lease_end) continue;
    if (std::shared_ptr<NodeLine> line = member->second.line) {
      deferred.push_back([line, lease = lease_] {
        line->close(deadline_exceeded(fmt::format("not heard of for {:.3g} s", to_seconds(lease))), true);
      });
    }
    leave(member);
  }
  const bool over = std::any_of(pending_.begin(), pending_.end(), [&](const RequestPtr& request) {
    return now >= request->received + install_timeout_;
  });
  if (over && !has_work_) note_work();
}

bool Coordinator::absorb_membership() {
  bool replan = false;
  for (const Departure& departure : departures_) {
    // A process that joined after the departure has no part in the groups of the one that left.
    const auto still_there = [&](const std::string& name) {
      const auto found = members_.find(name);
      return found != members_.end() && found->second.joined < departure.number;
    };
    for (const std::string& group : state_.registry.remove_abandoned(departure.node, still_there)) {
      log(LogLevel::kInfo, kComponent, "group {}: its last member left, it is no longer planned", group);
      replan = true;
    }
  }
  departures_.clear();
  return (open_ && remesh_open_topology()) || replan;
}

bool Coordinator::remesh_open_topology() {
  std::set<std::string> gone;
  for (const std::string& name : left_) {
    if (state_.topology.find_node(name) && !state_.registry.uses(name)) gone.insert(name);
  }
  if (arrivals_.empty() && gone == gone_) return false;
  auto meshed = remesh(state_.topology, arrivals_, gone);
  if (!meshed.is_ok()) {
    log(LogLevel::kError, kComponent, "cannot add nodes to the overlay: {}", meshed.status().to_string());
    arrivals_.clear();
    return false;
  }
  state_.topology = std::move(*meshed);
  arrivals_.clear();
  gone_ = std::move(gone);
  return !state_.registry.is_empty();
}

std::vector<NodeInformation> Coordinator::nodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<NodeInformation> nodes;
  const auto add = [&](const std::string& name) {
    const auto found = members_.find(name);
    if (found == members_.end()) {
      nodes.push_back({name, "", false, Epoch(0)});
    } else {
      const Member& member = found->second;
      nodes.push_back({name, member.address, member.line != nullptr, member.installed});
    }
  };
  for (std::size_t i = 0; i < state_.topology.node_count(); ++i) {
    const std::string& name = state_.topology.node(NodeId(static_cast<NodeId::value_type>(i))).name;
    if (!open_ || !gone_.contains(name) || members_.contains(name)) add(name);
  }
  for (const auto& [name, member] : members_) {
    if (!state_.topology.find_node(name)) add(name);
  }
  return nodes;
}

Status Coordinator::wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const {
  std::unique_lock lock(mutex_);
  std::string missing;
  const auto all_there = [&] {
    missing.clear();
    for (const std::string& name : names) {
      const auto found = members_.find(name);
      const bool there = found != members_.end() && found->second.line &&
                         (!active_ || found->second.installed >= active_->plan->epoch);
      if (!there) missing += (missing.empty() ? "" : ", ") + name;
    }
    return missing.empty();
  };
  const TimePoint end = Clock::now() + bounded(timeout);
  while (!all_there()) {
    if (stopping_) return unavailable("the controller stopped");
    if (changed_.wait_until(lock, end) == std::cv_status::timeout && !all_there()) {
      return deadline_exceeded(
          fmt::format("after {:.3g} s these nodes have not joined and installed the plan: {}",
                      to_seconds(timeout), missing));
    }
  }
  return {};
}

}  // namespace square::controller
