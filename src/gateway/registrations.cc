#include "gateway/registrations.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "square/gateway.h"

namespace square::gateway {
namespace {

// Registrations of one process that may run at once.
constexpr std::size_t kMaxRegistrationsOfOne = 4;

}  // namespace

Registrations::~Registrations() {
  for (auto& [id, running] : running_) running.thread.join();
}

std::size_t Registrations::count(AttachmentId attachment, bool regroups) const {
  return static_cast<std::size_t>(std::ranges::count_if(running_, [&](const auto& entry) {
    return entry.second.attachment == attachment && entry.second.regroups_for.has_value() == regroups;
  }));
}

Status Registrations::check(AttachmentId attachment) const {
  const auto all = static_cast<std::size_t>(
      std::ranges::count_if(running_, [](const auto& entry) { return !entry.second.regroups_for; }));
  if (all < Gateway::kMaxRegistrations && count(attachment, false) < kMaxRegistrationsOfOne) return {};
  return resource_exhausted(fmt::format(
      "{} registrations run at the gateway of node \"{}\", as many as may; try again", all, node_.name()));
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
  if (count(attachment, true) < kMaxRegistrationsOfOne) return {};
  return resource_exhausted(
      fmt::format("{} groups of the process go on in others at the gateway of node \"{}\", "
                  "as many as may at once; try again",
                  kMaxRegistrationsOfOne, node_.name()));
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
  run(
      attachment, std::nullopt,
      [this, joins, timeout, group = std::move(group)] { return enrol(group, joins, timeout); },
      std::move(done));
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
