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
// Longer times are as good as this one, and can be added to any clock.
constexpr Duration kLongestWait = std::chrono::hours(24 * 30);

}  // namespace

Registrations::~Registrations() {
  for (auto& [id, running] : running_) running.thread.join();
}

std::size_t Registrations::count_regroups(AttachmentId attachment) const {
  return static_cast<std::size_t>(std::ranges::count_if(running_, [&](const auto& entry) {
    return entry.second.attachment == attachment && entry.second.regroups_for;
  }));
}

Status Registrations::check(AttachmentId attachment) const {
  const auto found = of_attachment_.find(attachment);
  if (found == of_attachment_.end() || found->second < kMaxRegistrationsOfOne) return {};
  return resource_exhausted(fmt::format(
      "{} registrations of the process run or wait at the gateway of node \"{}\", as many as may; "
      "try again when some are over",
      found->second, node_.name()));
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
  std::thread thread([this, weak = weak_from_this(), id, call = std::move(call), done = std::move(done)] {
    auto result = call();
    loop_->post([weak, id, done, result = std::move(result)] {
      const auto self = weak.lock();
      if (!self) return;
      self->ended(id);
      done(result);
    });
  });
  running_.emplace(id, Running{attachment, regroups_for, std::move(thread)});
}

void Registrations::begin(AttachmentId attachment, GroupSpec group, std::optional<Rank> joins,
                          Duration timeout, Done done) {
  ++of_attachment_[attachment];
  What what{joins.has_value(), group.name, group.tenant, group.nodes, {}};
  for (const GroupCollective& collective : group.collectives)
    what.collectives.push_back(identity_of(collective));
  const auto [place, is_first] = shared_.try_emplace(what);
  const TimePoint deadline = steady_clock().now() + std::min<Duration>(timeout, kLongestWait);
  place->second.requests.push_back({attachment, std::move(group), joins, deadline, std::move(done)});
  // Those that join may wait for others to close, and must not keep those from registering.
  if (is_first && what.joins) {
    place->second.is_begun = true;
  } else if (is_first) {
    waiting_.push_back(std::move(what));
  }
  if (place->second.is_begun) go_on(place->first, place->second);
  begin_waiting();
}

void Registrations::begin_waiting() {
  while (begun_ < Gateway::kMaxRegistrations && !waiting_.empty()) {
    const auto next = shared_.find(waiting_.front());
    waiting_.pop_front();
    ++begun_;
    next->second.is_begun = true;
    go_on(next->first, next->second);
  }
}

void Registrations::go_on(const What& what, Shared& shared) {
  if (!what.joins) {
    if (shared.running == 0) run_adding(what, shared);
    return;
  }
  while (!shared.requests.empty() && joining_ < kMaxRegroups) {
    Request next = std::move(shared.requests.back());
    shared.requests.pop_back();
    ++shared.running;
    ++joining_;
    run_join(what, std::move(next));
  }
}

// Each rank waits for its own turn: one that was closed under the group's name waits for others, which may
// have yet to come.
void Registrations::run_join(const What& what, Request request) {
  const auto kept = std::make_shared<const Request>(std::move(request));
  run(
      kept->attachment, std::nullopt,
      [this, kept] {
        const Duration left = std::max(Duration(0), kept->deadline - steady_clock().now());
        return enrol(kept->group, kept->joins, left);
      },
      [this, what, kept](const Result<GroupPart>& result) {
        --joining_;
        tell(*kept, result);
        over(what);
      });
}

void Registrations::run_adding(const What& what, const Shared& shared) {
  const auto last = std::ranges::max_element(shared.requests, {}, &Request::deadline);
  ++shared_.at(what).running;
  run(
      last->attachment, std::nullopt,
      [this, group = last->group, deadline = last->deadline] {
        return enrol(group, std::nullopt, std::max(Duration(0), deadline - steady_clock().now()));
      },
      [this, what](const Result<GroupPart>& result) { added(what, result); });
}

void Registrations::added(const What& what, const Result<GroupPart>& result) {
  Shared& shared = shared_.at(what);
  std::vector<Request> told = std::exchange(shared.requests, {});
  // Ranks that came later may have more time.
  if (result.status().code() == StatusCode::kDeadlineExceeded) {
    const auto late = std::ranges::partition(
        told, [now = steady_clock().now()](const Request& one) { return one.deadline > now; });
    std::move(told.begin(), late.begin(), std::back_inserter(shared.requests));
    told.erase(told.begin(), late.begin());
  }
  for (const Request& request : told) tell(request, result);
  over(what);
}

// One call of the node that the ranks share.
void Registrations::over(const What& what) {
  const auto found = shared_.find(what);
  --found->second.running;
  if (!found->second.requests.empty()) {
    go_on(found->first, found->second);
  } else if (found->second.running == 0) {
    if (!found->first.joins) --begun_;
    shared_.erase(found);
  }
  // A place for a member is one for any group's.
  for (auto& [other, shared] : shared_) {
    if (other.joins && shared.is_begun && !shared.requests.empty()) go_on(other, shared);
  }
  begin_waiting();
}

void Registrations::tell(const Request& request, const Result<GroupPart>& result) {
  const auto count = of_attachment_.find(request.attachment);
  if (--count->second == 0) of_attachment_.erase(count);
  request.done(result);
}

void Registrations::begin_regroup(AttachmentId attachment, std::uint32_t user, RegroupRequest request,
                                  Duration timeout, Regrouped done) {
  run(
      attachment, user,
      [this, timeout, request = std::move(request)] { return node_.regroup(request, timeout); },
      std::move(done));
}

void Registrations::ended(std::uint64_t id) {
  const auto found = running_.find(id);
  found->second.thread.join();
  running_.erase(found);
}

}  // namespace square::gateway
