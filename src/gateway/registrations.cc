#include "gateway/registrations.h"

#include <fmt/format.h>

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

Status Registrations::check(AttachmentId attachment) const {
  const auto own = static_cast<std::size_t>(std::ranges::count_if(
      running_, [attachment](const auto& entry) { return entry.second.attachment == attachment; }));
  if (running_.size() < Gateway::kMaxRegistrations && own < kMaxRegistrationsOfOne) return {};
  return resource_exhausted(
      fmt::format("{} registrations run at the gateway of node \"{}\", as many as may; try again",
                  running_.size(), node_.name()));
}

Result<GroupPart> Registrations::enrol(const GroupSpec& group, std::optional<Rank> joins, Duration timeout) {
  if (joins) return node_.join_group(group, *joins, timeout);
  SQUARE_ASSIGN_OR_RETURN(GroupRegistration added, node_.register_group(group, timeout));
  return GroupPart{std::move(added), nullptr};
}

void Registrations::begin(AttachmentId attachment, GroupSpec group, std::optional<Rank> joins,
                          Duration timeout, Done done) {
  const std::uint64_t id = ++last_;
  std::thread thread(
      [this, weak = weak_from_this(), id, joins, timeout, group = std::move(group), done = std::move(done)] {
        auto result = enrol(group, joins, timeout);
        loop_->post([weak, id, done, result = std::move(result)] {
          const auto self = weak.lock();
          if (!self) return;
          self->ended(id);
          done(result);
        });
      });
  running_.emplace(id, Running{attachment, std::move(thread)});
}

void Registrations::ended(std::uint64_t id) {
  const auto found = running_.find(id);
  found->second.thread.join();
  running_.erase(found);
}

}  // namespace square::gateway
