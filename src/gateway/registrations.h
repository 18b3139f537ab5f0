// Registrations of groups that run: the controller may take as long as planning takes, so not on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "gateway/event_loop.h"
#include "gateway/group_table.h"
#include "square/member_host.h"

namespace square::gateway {

// Members whose groups go on wait on threads of their own, so many at once: also those whose process is gone,
// until the controller has answered.
inline constexpr std::size_t kMaxRegroups = 512;
// Of another user than the gateway's, whose processes may be gone while what they asked for goes on.
inline constexpr std::size_t kMaxRegroupsOfUser = 128;

// Used on the loop's thread; destroyed when the loop has stopped.
class Registrations final : public std::enable_shared_from_this<Registrations> {
 public:
  using Done = std::function<void(const Result<GroupPart>&)>;

  // `node` outlives it.
  Registrations(MemberHost& node, std::shared_ptr<EventLoop> loop) : node_(node), loop_(std::move(loop)) {}
  // Waits for those that run.
  ~Registrations();

  // Errors: RESOURCE_EXHAUSTED if too many run, in all or of this attachment.
  [[nodiscard]] Status check(AttachmentId attachment) const;
  // Groups that members go on in wait for one another: they do not count with the others. Errors:
  // RESOURCE_EXHAUSTED if too many run, in all, of this user or of this attachment.
  [[nodiscard]] Status check_regroup(AttachmentId attachment, std::uint32_t user) const;
  using Regrouped = std::function<void(const Result<GroupSpec>&)>;
  void begin_regroup(AttachmentId attachment, std::uint32_t user, RegroupRequest request, Duration timeout,
                     Regrouped done);
  // Joins the group as `joins`; where that is nobody, adds collectives to it. `done` runs on the loop, unless
  // that stops before.
  void begin(AttachmentId attachment, GroupSpec group, std::optional<Rank> joins, Duration timeout,
             Done done);

 private:
  // Runs `call`, which may block, and then `done` with what it returned.
  template <typename Call, typename Finish>
  void run(AttachmentId attachment, std::optional<std::uint32_t> regroups_for, Call call, Finish done);
  [[nodiscard]] std::size_t count(AttachmentId attachment, bool regroups) const;
  Result<GroupPart> enrol(const GroupSpec& group, std::optional<Rank> joins, Duration timeout);
  struct Running {
    AttachmentId attachment = 0;
    std::optional<std::uint32_t> regroups_for;  // the user; of a registration nobody
    std::thread thread;
  };
  void ended(std::uint64_t id);

  MemberHost& node_;
  const std::shared_ptr<EventLoop> loop_;
  std::map<std::uint64_t, Running> running_;
  std::uint64_t last_ = 0;
};

}  // namespace square::gateway
