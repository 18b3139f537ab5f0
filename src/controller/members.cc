#include "controller/members.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "controller/protocol.h"
#include "trust/group_keys.h"

namespace square::controller {
namespace {

std::shared_ptr<const v1::ControllerEvent> welcome(Duration lease, std::uint32_t version) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_welcome()->set_lease_nanoseconds(static_cast<std::uint64_t>(lease.count()));
  event->mutable_welcome()->set_protocol_version(version);
  return event;
}

std::shared_ptr<const v1::ControllerEvent> address_of(const std::string& peer, const Member& member) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_address()->set_peer(peer);
  event->mutable_address()->set_address(member.address);
  if (!is_planted(Bug::kSuccessorUntold)) event->mutable_address()->set_successor(member.successor);
  event->mutable_address()->set_standing(member.standing);
  event->mutable_address()->set_fingerprint(member.fingerprint);
  if (!is_planted(Bug::kIncarnationUntold)) event->mutable_address()->set_incarnation(member.incarnation);
  return event;
}

std::shared_ptr<const v1::ControllerEvent> gone(const std::string& node, const std::string& reason,
                                                const std::optional<v1::Goodbye>& goodbye, bool may_live) {
  auto event = std::make_shared<v1::ControllerEvent>();
  v1::Gone& gone = *event->mutable_gone();
  gone.set_peer(node);
  gone.set_reason(reason);
  gone.set_in_order(goodbye.has_value());
  gone.set_may_live(may_live);
  if (!goodbye) return event;
  const int count = std::min(goodbye->finished_size(), kMaxFinishedCollectives);
  gone.mutable_finished()->Assign(goodbye->finished().begin(), goodbye->finished().begin() + count);
  return event;
}

}  // namespace

Status check_hello(const v1::Hello& hello) {
  SQUARE_RETURN_IF_ERROR(agree_on_version(hello).status());
  if (hello.node().empty() || hello.node().size() > kMaxNodeNameBytes) {
    return invalid_argument(fmt::format("a node needs a name of 1 to {} bytes", kMaxNodeNameBytes));
  }
  if (hello.address().empty() || hello.address().size() > kMaxAddressBytes) {
    return invalid_argument(
        fmt::format("node \"{}\" needs an address of 1 to {} bytes", hello.node(), kMaxAddressBytes));
  }
  if (hello.key_share().size() > trust::kMaxKeyShareBytes)
    return invalid_argument(fmt::format("node \"{}\" has a share of a key of more than {} bytes",
                                        hello.node(), trust::kMaxKeyShareBytes));
  if (hello.successor().size() > kMaxAddressBytes) {
    return invalid_argument(
        fmt::format("the controller that stands by at node \"{}\" has an address of more than {} bytes",
                    hello.node(), kMaxAddressBytes));
  }
  return {};
}

void Members::presume_gone(const std::vector<LostController>& lost, TimePoint now) {
  for (const LostController& one : lost) presumed_gone_[one.node] = one.is_dead;
  if (!lost.empty() && std::ranges::all_of(lost, &LostController::is_dead)) followed_at_ = now;
}

bool Members::expect(const std::string& node, TimePoint now) {
  const bool has_left =
      std::ranges::any_of(gone_, [&](const Gone& one) { return one.departure.node == node; });
  if (has_left) return false;
  const auto [entry, is_new] = members_.try_emplace(node);
  if (!is_new) return false;
  entry->second.node = node;
  entry->second.joined = ++events_;
  entry->second.lease_end = now + (presumed_gone_.contains(node) ? std::min(kPresumedTime, lease_) : lease_);
  entry->second.install_end = now + std::min(kReturnTime, lease_ / 2);
  entry->second.spoke_at = followed_at_;
  if (members_.size() == 1) looked_at_ = now;
  return true;
}

void Members::locate(const v1::Address& told) {
  const auto found = members_.find(told.peer());
  if (found == members_.end() || found->second.incarnation != 0) return;
  if (std::max(told.address().size(), told.successor().size()) > kMaxAddressBytes) return;
  found->second.address = told.address();
  found->second.successor = told.successor();
  has_successors_ = has_successors_ || !told.successor().empty();
  found->second.standing = told.standing();
  if (told.may_live()) found->second.spoke_at.reset();
}

std::optional<Members::TimePoint> Members::return_end(TimePoint now) const {
  std::optional<TimePoint> end;
  for (const auto& [name, member] : members_) {
    if (member.incarnation == 0 && member.install_end > now)
      end = std::max(end, std::optional(member.install_end));
  }
  return end;
}

bool Members::is_expected(const std::string& node) const {
  const Member* const member = find(node);
  return member != nullptr && member->incarnation == 0;
}

Result<bool> Members::yield_name(const v1::Hello& hello) {
  const Member* const holder = find(hello.node());
  if (holder == nullptr || holder->incarnation == hello.incarnation()) return false;
  // Who has a past is who was expected. Another may be new, or had no plan yet when the controller before
  // ended: it has no part in any group until it registers it, and whether the one before is gone its
  // neighbours know.
  if (holder->incarnation == 0 && !is_planted(Bug::kExpectedNameIsAnother)) {
    if (hello.has_past()) return false;
    departures_.push_back({hello.node(), ++events_});
    members_.erase(hello.node());
    return true;
  }
  if (holder->line != nullptr) {
    return already_exists(
        fmt::format("another live process is node \"{}\", at {}; give this one another name", hello.node(),
                    holder->address));
  }
  leave(hello.node(), "another process has its name");
  return true;
}

Members::Joined Members::join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line, TimePoint now) {
  const std::string& name = hello.node();
  const auto [entry, is_new] = members_.try_emplace(name);
  Member& member = entry->second;
  SQUARE_CHECK(is_new || member.incarnation == 0 || member.incarnation == hello.incarnation(), name);
  // Who comes from another controller is known to some only.
  const bool moved = member.incarnation == 0 || member.address != hello.address() ||
                     member.fingerprint != hello.fingerprint();
  std::shared_ptr<NodeLine> replaced = std::exchange(member.line, line);
  member.node = name;
  member.incarnation = hello.incarnation();
  member.address = hello.address();
  member.fingerprint = hello.fingerprint();
  member.key_share = hello.key_share();
  member.protocol = agree_on_version(hello).value();
  member.successor = hello.successor();
  has_successors_ = has_successors_ || !hello.successor().empty();
  member.standing = hello.standing();
  silent_.erase(name);
  presumed_gone_.erase(name);
  if (is_new) member.joined = ++events_;
  if (members_.size() == 1) looked_at_ = now;
  member.floor = member.sent = member.received = member.installed = member.activated = Epoch(0);
  member.lease_end = now + lease_;
  member.heard_at = now;
  member.spoke_at = now;
  member.told_group = member.told_went_on = 0;
  member.is_silent = member.is_lagging = false;
  member.hears.clear();
  log(LogLevel::kInfo, {.component = "controller", .node = name}, "node {} {} at {}", name,
      is_new ? "joined" : "is back", member.address);
  line->send(welcome(lease_, member.protocol));
  std::erase_if(gone_, [&](const Gone& one) { return one.departure.node == name; });
  for (const Gone& one : gone_) line->send(one.event);
  send_addresses(name, member, moved);
  return {member, std::move(replaced)};
}

void Members::send_addresses(const std::string& name, const Member& member, bool tell_others) {
  const auto own = address_of(name, member);
  for (const auto& [peer, other] : members_) {
    if (peer == name || other.incarnation == 0) continue;
    member.line->send(address_of(peer, other));
    if (tell_others && other.line) other.line->send(own);
  }
}

Member* Members::hear(const std::string& node, const NodeLine* line, TimePoint now) {
  Member* const member = reach(node, line, now);
  if (member != nullptr) member->spoke_at = now;
  return member;
}

Member* Members::reach(const std::string& node, const NodeLine* line, TimePoint now) {
  const auto found = members_.find(node);
  if (found == members_.end() || found->second.line.get() != line) return nullptr;
  found->second.lease_end = now + lease_;
  found->second.heard_at = now;
  found->second.is_silent = false;
  if (cut_off_since_ && !are_most_silent(now)) end_cut_off(now);
  return &found->second;
}

// They come back one after the other, too.
void Members::end_cut_off(TimePoint now) {
  cut_off_since_.reset();
  for (auto& [name, member] : members_) member.lease_end = std::max(member.lease_end, now + lease_ / 2);
}

void Members::note(const std::string& node, const v1::Heartbeat& beat, TimePoint now) {
  Member& member = members_.at(node);
  // An older node does not say that a plan has come, but reads what was sent to it before it speaks. Were it
  // taken to lack a plan until it has installed it, it would be away again and again, and each plan avoid it.
  if (member.protocol < kMovingSince) member.received = member.sent;
  const bool has_share = !beat.key_share().empty() && beat.key_share().size() <= trust::kMaxKeyShareBytes;
  if (has_share) member.key_share = beat.key_share();
  member.hears.clear();
  for (const std::string& peer : beat.heard()) {
    hear_of(peer, now);
    if (contains(peer)) member.hears.insert(peer);
  }
}

void Members::note_silent(const std::string& node) {
  const auto found = members_.find(node);
  if (found != members_.end()) found->second.is_silent = true;
}

void Members::hear_of(const std::string& node, TimePoint now) {
  const auto found = members_.find(node);
  if (found != members_.end()) found->second.lease_end = now + lease_;
}

bool Members::lose(const std::string& node, const NodeLine* line, TimePoint now) {
  Member* const member = reach(node, line, now);
  if (member == nullptr) return false;
  log(LogLevel::kWarning, {.component = "controller", .node = node},
      "node {}: its line broke; it may come back for {:.3g} s", node, to_seconds(lease_));
  member->line = nullptr;
  if (is_planted(Bug::kLineIsLife)) leave(node, "its line broke");
  return true;
}

void Members::leave(const std::string& node, const std::string& reason,
                    const std::optional<v1::Goodbye>& goodbye, bool may_live) {
  log(LogLevel::kInfo, {.component = "controller", .node = node}, "node {} left", node);
  departures_.push_back({node, ++events_});
  members_.erase(node);
  const auto event = gone(node, reason, goodbye, may_live);
  gone_.push_back({departures_.back(), event});
  if (gone_.size() > kMaxRememberedDepartures) gone_.pop_front();
  for (const auto& [name, member] : members_) {
    if (member.line && !is_planted(Bug::kGoneUntold)) member.line->send(event);
  }
}

Status Members::check_present(const GroupSpec& group) const {
  for (const Gone& one : gone_) {
    const std::string& name = one.departure.node;
    if (contains(name) || std::ranges::find(group.nodes, name) == group.nodes.end()) continue;
    if (!group.registrant.empty() && !was_there(group.registrant, one.departure)) continue;
    return failed_precondition(fmt::format("node \"{}\" is gone: {}", name, one.event->gone().reason()));
  }
  return {};
}

std::string Members::last_address(const std::string& node) const {
  const Member* const member = find(node);
  return member == nullptr || member->line ? std::string() : member->address;
}

bool Members::has_quorum(TimePoint now) const {
  if (!has_successors() || is_planted(Bug::kLeftBehindGoesOn)) return true;
  std::size_t here = 0;
  std::size_t elsewhere = 0;
  std::optional<std::pair<Standing, bool>> first;
  const auto count = [&](const Standing& standing, bool is_here) {
    ++(is_here ? here : elsewhere);
    if (!first || standing < first->first) first = {standing, is_here};
  };
  for (const auto& [name, member] : members_) {
    const bool is_known = member.incarnation != 0 || !member.address.empty();
    if (is_known) count({member.standing, name}, speaks(name, now));
  }
  for (const auto& [name, standing] : silent_) count({standing, name}, false);
  return here > elsewhere || (here == elsewhere && first && first->second);
}

std::map<std::string, std::string> Members::lost_addresses() const {
  std::map<std::string, std::string> addresses;
  for (const auto& [name, member] : members_) {
    if (!member.line && !member.address.empty()) addresses.emplace(name, member.address);
  }
  return addresses;
}

void Members::give_up(const std::set<std::string>& nodes) {
  for (const std::string& node : nodes) silent_.erase(node);
}

void Members::forget_silent(const std::function<bool(const std::string&)>& matters) {
  std::erase_if(silent_, [&](const auto& entry) { return !matters(entry.first); });
}

bool Members::leave_refused(const std::string& node, const std::string& address, TimePoint since) {
  const Member* const member = find(node);
  if (member == nullptr || member->line != nullptr || member->address != address) return false;
  const std::string reason = fmt::format("it does not listen at {} any more", address);
  const std::optional<TimePoint>& spoke_at = member->spoke_at;
  const bool is_fresh = spoke_at && (!resumed_at_ || *spoke_at >= *resumed_at_ + kStaleWords);
  const bool is_dead = (is_fresh && since - *spoke_at < lease_ / 2) || is_planted(Bug::kRefusedLateIsDead);
  is_dead || !has_successors() ? leave(node, reason) : leave_silent(node, reason);
  return true;
}

// Nodes keep the address of a node that may live: one without an address is dead.
void Members::leave_silent(const std::string& node, const std::string& reason) {
  const Member& member = members_.at(node);
  const std::uint32_t standing = member.standing;
  const auto presumed = presumed_gone_.find(node);
  const bool is_dead = presumed != presumed_gone_.end() && presumed->second;
  const bool may_live = !is_dead && !member.address.empty();
  leave(node, reason, {}, may_live);
  if (may_live) silent_[node] = standing;
}

std::vector<std::string> Members::expire(TimePoint now, Deferred& deferred) {
  std::vector<std::string> over;
  const Duration step = now - std::exchange(looked_at_, now);
  // Without anybody there is nothing to look at.
  const bool was_stopped = !members_.empty() && step > lease_ / kLooksPerLease * (1 + kLateLooks) &&
                           !is_planted(Bug::kLeaseWhileStopped);
  const Duration stopped = was_stopped ? step : Duration(0);
  if (was_stopped) resumed_at_ = now;
  for (auto& [name, member] : members_) member.lease_end = std::min(member.lease_end + stopped, now + lease_);
  if (is_cut_off(now)) {
    for (auto& [name, member] : members_) {
      member.lease_end = std::max(member.lease_end, now + lease_ / kLooksPerLease);
    }
  }
  for (const auto& [name, member] : members_) {
    if (now < member.lease_end) continue;
    over.push_back(name);
    if (!member.line) continue;
    deferred.push_back([line = member.line, lease = lease_] {
      line->close(deadline_exceeded(fmt::format("not heard of for {:.3g} s", to_seconds(lease))), true);
    });
  }
  const std::string reason = fmt::format("nobody has heard of it for {:.3g} s", to_seconds(lease_));
  for (const std::string& name : over) leave_silent(name, reason);
  return over;
}

void Members::close_all(const Status& reason, Deferred& deferred) {
  for (const auto& [name, member] : members_) {
    if (member.line) deferred.push_back([line = member.line, reason] { line->close(reason, false); });
  }
  members_.clear();
}

std::vector<Departure> Members::take_departures() { return std::exchange(departures_, {}); }

bool Members::was_there(const std::string& node, const Departure& departure) const {
  const Member* const member = find(node);
  return member != nullptr && member->joined < departure.number;
}

const Member* Members::find(const std::string& node) const {
  const auto found = members_.find(node);
  return found == members_.end() ? nullptr : &found->second;
}

std::vector<NodeInformation> Members::list(const Topology& topology,
                                           const std::function<bool(const std::string&)>& is_gone) const {
  std::vector<NodeInformation> nodes;
  const auto add = [&](const std::string& name, const Member& member) {
    const bool is_connected = member.line != nullptr;
    nodes.push_back({name, member.address, is_connected, member.installed, member.key_share,
                     is_connected ? member.protocol : 0});
  };
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const std::string& name = topology.node(NodeId(static_cast<NodeId::value_type>(i))).name;
    if (const Member* const member = find(name)) {
      add(name, *member);
    } else if (!is_gone(name)) {
      nodes.push_back({name, "", false, Epoch(0), {}});
    }
  }
  for (const auto& [name, member] : members_) {
    if (!topology.find_node(name)) add(name, member);
  }
  return nodes;
}

// Several are there, and most, or all, have not been heard for half a lease, in which each says something
// several times. Their leases end one after the other: the first of them is no sign that its node alone is
// silent. Nor is a line that broke: where nothing reaches them from here, nodes end theirs.
bool Members::are_most_silent(TimePoint now) const {
  std::size_t known = 0;
  std::size_t silent = 0;
  for (const auto& [name, member] : members_) {
    if (member.incarnation == 0) continue;
    ++known;
    const Duration early = is_planted(Bug::kCutOffInOneLook) ? Duration(0) : lease_ / 2;
    if (now > member.lease_end - early) ++silent;
  }
  // Where there is no other controller the others may be dead just as well.
  return silent >= 2 && (has_successors_ ? 2 * silent > known : silent == known);
}

// It is this process that does not reach the others; for a while.
bool Members::is_cut_off(TimePoint now) {
  if (is_planted(Bug::kLeaseWhileStopped)) return false;  // it would hide the bug
  if (are_most_silent(now))
    cut_off_since_ = cut_off_since_.value_or(now);
  else if (cut_off_since_)
    end_cut_off(now);
  return cut_off_since_ && now < *cut_off_since_ + kLongestCutOff * lease_;
}

Members::TimePoint Members::next_end(TimePoint latest) const {
  if (members_.empty()) return latest;
  latest = std::min(latest, looked_at_ + lease_ / kLooksPerLease);
  for (const auto& [name, member] : members_) latest = std::min(latest, member.lease_end);
  return latest;
}

}  // namespace square::controller
