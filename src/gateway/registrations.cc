#include "gateway/registrations.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "square/gateway.h"

namespace square::gateway {
namespace {

// Groups of one process that may go on at once.
constexpr std::size_t kMaxRegroupsOfOne = 4;
// A node may answer that much before the time that it was given is over.
constexpr Duration kEarlyAnswer = std::chrono::seconds(1);

}  // namespace

std::size_t Registrations::Shares::count(std::uint32_t user) const {
  const auto found = taken_.find(user);
  return found == taken_.end() ? 0 : found->second;
}

bool Registrations::Shares::has_room(std::uint32_t user) const {
  return count(user) < of_user_ || user == geteuid();
}

void Registrations::Shares::give_back(std::uint32_t user) {
  const auto found = taken_.find(user);
  if (--found->second == 0) taken_.erase(found);
}

Registrations::Registrations(MemberHost& node, std::shared_ptr<EventLoop> loop, Duration turn)
    : node_(node), loop_(std::move(loop)), turn_(turn) {}

Registrations::~Registrations() {
  for (auto& [id, running] : running_) {
    if (running.thread.joinable()) running.thread.join();
  }
}

std::size_t Registrations::count_regroups(AttachmentId attachment) const {
  return static_cast<std::size_t>(std::ranges::count_if(running_, [&](const auto& entry) {
    return entry.second.attachment == attachment && entry.second.regroups_for;
  }));
}

Status Registrations::check(AttachmentId attachment) const {
  const auto found = of_attachment_.find(attachment);
  if (found == of_attachment_.end() || found->second.requests < kMaxRegistrationsOfOne) return {};
  return resource_exhausted(fmt::format(
      "{} registrations of the process run or wait at the gateway of node \"{}\", as many as may; "
      "try again when some are over",
      found->second.requests, node_.name()));
}

Status Registrations::check_regroup(AttachmentId attachment, std::uint32_t user) const {
  const auto all = static_cast<std::size_t>(std::ranges::count_if(
      running_, [](const auto& entry) { return entry.second.regroups_for.has_value(); }));
  const auto of_user = static_cast<std::size_t>(
      std::ranges::count_if(running_, [&](const auto& entry) { return entry.second.regroups_for == user; }));
  // The gateway's own user may have more processes than that.
  if (all >= kMaxRegroups || (of_user >= kMaxRegroupsOfUser && user != geteuid())) {
    return resource_exhausted(fmt::format(
        "{} members wait at the gateway of node \"{}\" for the groups that they go on in, as many as may; "
        "try again",
        all, node_.name()));
  }
  if (count_regroups(attachment) < kMaxRegroupsOfOne) return {};
  return resource_exhausted(
      fmt::format("{} groups of the process go on in others at the gateway of node \"{}\", "
                  "as many as may at once; try again",
                  kMaxRegroupsOfOne, node_.name()));
}

Result<GroupPart> Registrations::enrol(const GroupSpec& group, std::optional<Rank> joins, Duration timeout) {
  if (joins) return node_.join_group(group, *joins, timeout);
  SQUARE_ASSIGN_OR_RETURN(GroupRegistration added, node_.register_group(group, timeout));
  return GroupPart{std::move(added), nullptr};
}

template <typename Call, typename Finish>
void Registrations::run(AttachmentId attachment, std::optional<std::uint32_t> regroups_for, Call call,
                        Finish done) {
  const std::uint64_t id = ++last_;
  using Answer = decltype(call());
  const auto finish = [weak = weak_from_this(), id, done = std::move(done)](const Answer& result) {
    const auto self = weak.lock();
    if (!self) return;
    self->ended(id);
    done(result);
  };
  Running& running = running_[id];
  running.attachment = attachment;
  running.regroups_for = regroups_for;
  const Status started = with_new_threads([&] {
    running.thread = std::thread([this, call = std::move(call), finish] {
      auto result = call();
      loop_->post([finish, result = std::move(result)] { finish(result); });
    });
    return Status();
  });
  if (!started.is_ok()) loop_->post([finish, started] { finish(started); });
}

void Registrations::begin(Registrant from, GroupSpec group, std::optional<Rank> joins, Duration timeout,
                          Done done) {
  ++of_attachment_[from.attachment].requests;
  What what{joins.has_value(), group.name, group.tenant, group.nodes, {}};
  for (const GroupCollective& collective : group.collectives)
    what.collectives.push_back(identity_of(collective));
  const auto [place, is_first] = shared_.try_emplace(what);
  const TimePoint now = steady_clock().now();
  place->second.requests.push_back({from, std::move(group), joins, now,
                                    now + std::min<Duration>(timeout, kMaxRegistrationWait),
                                    std::move(done)});
  // Those that join may wait for others to close, and must not keep those from registering.
  if (is_first && what.joins) {
    place->second.is_begun = true;
  } else if (is_first) {
    place->second.user = from.user;
    waiting_[from.user].push_back(std::move(what));
  }
  if (place->second.is_begun) go_on(place->first, place->second);
  begin_waiting();
}

// The user with the fewest under way is next.
void Registrations::begin_waiting() {
  while (begun_ < Gateway::kMaxRegistrations) {
    auto next = waiting_.end();
    for (auto place = waiting_.begin(); place != waiting_.end(); ++place) {
      const bool is_fewer =
          next == waiting_.end() || begun_of_.count(place->first) < begun_of_.count(next->first);
      if (is_fewer && begun_of_.has_room(place->first)) next = place;
    }
    if (next == waiting_.end()) return;
    const auto found = shared_.find(next->second.front());
    stop_waiting(found->first, next->first);
    ++begun_;
    begun_of_.take(found->second.user);
    found->second.is_begun = true;
    go_on(found->first, found->second);
  }
}

void Registrations::stop_waiting(const What& what, std::uint32_t user) {
  const auto found = waiting_.find(user);
  std::erase(found->second, what);
  if (found->second.empty()) waiting_.erase(found);
}

void Registrations::forget(AttachmentId attachment) {
  const auto own = of_attachment_.find(attachment);
  if (own == of_attachment_.end()) return;
  own->second.is_gone = true;
  for (auto place = shared_.begin(); place != shared_.end();) {
    const auto here = place++;
    Shared& shared = here->second;
    own->second.requests -= std::erase_if(
        shared.requests, [&](const Request& request) { return request.from.attachment == attachment; });
    if (!shared.requests.empty() || shared.running > 0) continue;
    if (!shared.is_begun) stop_waiting(here->first, shared.user);
    shared_.erase(here);
  }
  if (own->second.requests == 0) of_attachment_.erase(own);
}

void Registrations::go_on(const What& what, Shared& shared) {
  if (!what.joins) {
    if (shared.running == 0) run_adding(what, shared);
    return;
  }
  while (joining_ < kMaxRegroups) {
    const auto next = std::ranges::find_if(
        shared.requests, [&](const Request& one) { return joining_of_.has_room(one.from.user); });
    if (next == shared.requests.end()) return;
    Request request = std::move(*next);
    shared.requests.erase(next);
    ++shared.running;
    ++joining_;
    joining_of_.take(request.from.user);
    run_join(what, std::move(request));
  }
}

TimePoint Registrations::end_of_turn(const Request& request) const {
  const TimePoint now = steady_clock().now();
  const Duration turn = std::max<Duration>(turn_, now - request.began);
  // The last turn is no short one: its length is in the node's answer.
  return request.deadline - now < 2 * turn ? request.deadline : now + turn;
}

bool Registrations::goes_on(const Request& request, TimePoint turn_end, const Result<GroupPart>& result) {
  return result.status().code() == StatusCode::kDeadlineExceeded && request.deadline > turn_end &&
         steady_clock().now() >= turn_end - kEarlyAnswer;
}

// Each rank waits for its own turn: one that was closed under the group's name waits for others, which may
// have yet to come.
void Registrations::run_join(const What& what, Request request) {
  const auto kept = std::make_shared<const Request>(std::move(request));
  const TimePoint turn_end = end_of_turn(*kept);
  run(
      kept->from.attachment, std::nullopt,
      [this, kept, turn_end] {
        return enrol(kept->group, kept->joins, std::max(Duration(0), turn_end - steady_clock().now()));
      },
      [this, what, kept, turn_end](const Result<GroupPart>& result) {
        --joining_;
        joining_of_.give_back(kept->from.user);
        if (goes_on(*kept, turn_end, result) && !of_attachment_.at(kept->from.attachment).is_gone) {
          shared_.at(what).requests.push_back(*kept);
        } else {
          tell(*kept, result);
        }
        over(what);
      });
}

void Registrations::run_adding(const What& what, const Shared& shared) {
  const auto last = std::ranges::max_element(shared.requests, {}, &Request::deadline);
  ++shared_.at(what).running;
  run(
      last->from.attachment, std::nullopt,
      [this, group = last->group, turn_end = end_of_turn(*last)] {
        return enrol(group, std::nullopt, std::max(Duration(0), turn_end - steady_clock().now()));
      },
      [this, what, turn_end = end_of_turn(*last)](const Result<GroupPart>& result) {
        added(what, turn_end, result);
      });
}

void Registrations::added(const What& what, TimePoint turn_end, const Result<GroupPart>& result) {
  Shared& shared = shared_.at(what);
  std::vector<Request> told = std::exchange(shared.requests, {});
  // Their time may be longer than the turn, as may be that of ranks that came later.
  const auto over_now =
      std::ranges::stable_partition(told, [&](const Request& one) { return goes_on(one, turn_end, result); });
  std::move(told.begin(), over_now.begin(), std::back_inserter(shared.requests));
  told.erase(told.begin(), over_now.begin());
  for (const Request& request : told) tell(request, result);
  over(what);
}

// One call of the node that the ranks share.
void Registrations::over(const What& what) {
  const auto found = shared_.find(what);
  --found->second.running;
  const bool is_over = found->second.requests.empty() && found->second.running == 0;
  // A place for a member is one for any group's.
  for (auto& [other, shared] : shared_) {
    if (&shared != &found->second && other.joins && !shared.requests.empty()) go_on(other, shared);
  }
  if (!is_over) {
    go_on(found->first, found->second);
  } else {
    if (!found->first.joins) {
      --begun_;
      begun_of_.give_back(found->second.user);
    }
    shared_.erase(found);
  }
  begin_waiting();
}

void Registrations::tell(const Request& request, const Result<GroupPart>& result) {
  const auto own = of_attachment_.find(request.from.attachment);
  const bool is_gone = own->second.is_gone;
  if (--own->second.requests == 0) of_attachment_.erase(own);
  if (!is_gone) request.done(result);
}

void Registrations::begin_regroup(AttachmentId attachment, std::uint32_t user, RegroupRequest request,
                                  Duration timeout, Regrouped done) {
  run(
      attachment, user,
      [this, timeout = std::min<Duration>(timeout, kMaxRegistrationWait), request = std::move(request)] {
        return node_.regroup(request, timeout);
      },
      std::move(done));
}

void Registrations::ended(std::uint64_t id) {
  const auto found = running_.find(id);
  if (found->second.thread.joinable()) found->second.thread.join();
  running_.erase(found);
}

}  // namespace square::gateway
