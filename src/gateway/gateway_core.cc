#include "gateway/gateway_core.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/log.h"
#include "controller/protocol.h"
#include "gateway/messages.h"

namespace square::gateway {
namespace {

constexpr const char* kComponent = "gateway";
// A side is heard several times within its lease.
constexpr int kHeartbeatsPerLease = 5;
// The page of a probe holds nothing but its header.
constexpr std::size_t kProbeBytes = 0;
// Registrations of one process that may run at once.
constexpr std::size_t kMaxRegistrationsOfOne = 4;

}  // namespace

GatewayCore::GatewayCore(MemberHost& host, GatewayOptions options, std::shared_ptr<EventLoop> loop,
                         net::Listener listener)
    : host_(host),
      options_(std::move(options)),
      loop_(std::move(loop)),
      listener_(std::move(listener)),
      address_(listener_.address.to_string()),
      groups_(host.name()),
      budget_({options_.tenant_staging_bytes, options_.staging_bytes}),
      segments_(options_.staging_bytes),
      copier_(loop_) {}

GatewayCore::~GatewayCore() { join_registrations(); }

void GatewayCore::join_registrations() {
  for (auto& [id, thread] : registrations_) thread.join();
  registrations_.clear();
}

void GatewayCore::begin() { listen(true); }

void GatewayCore::listen(bool listens) {
  if (listens == !listening_.empty()) return;
  if (listens) {
    for (const FileDescriptor& socket : listener_.sockets) {
      listening_.push_back(
          loop_->watch(socket.get(), EPOLLIN, [this, &socket](std::uint32_t) { accept_all(socket); }));
    }
  } else {
    for (const EventLoop::WatchId watch : std::exchange(listening_, {})) loop_->forget(watch);
  }
}

void GatewayCore::accept_all(const FileDescriptor& listening) {
  while (true) {
    FileDescriptor socket = net::accept_from(listening);
    if (!socket) {
      // Out of descriptors, say: the next tick tries again, not the next moment.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) listen(false);
      return;
    }
    const auto handshakes = static_cast<std::size_t>(std::ranges::count_if(
        members_, [](const auto& entry) { return !entry.second.attachment->is_known(); }));
    if (handshakes >= kMaxHandshakes) continue;  // closes it
    const AttachmentId id = ++last_attachment_;
    members_[id].attachment = std::make_unique<Attachment>(*this, *loop_, id, std::move(socket));
  }
}

Attachment* GatewayCore::find(AttachmentId id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : found->second.attachment.get();
}

void GatewayCore::tick() {
  if (!is_stopping_) listen(true);
  for (const auto& [id, member] : members_) {
    member.attachment->tick(options_.lease / kHeartbeatsPerLease, options_.lease, Gateway::kHandshakeTime);
  }
  end_late_calls();
}

Gateway::Statistics GatewayCore::statistics() const {
  Gateway::Statistics now;
  now.attachments = static_cast<std::size_t>(
      std::ranges::count_if(members_, [](const auto& entry) { return entry.second.attachment->is_known(); }));
  now.operations = calls_.size();
  now.staging_bytes = budget_.used_bytes();
  return now;
}

Status GatewayCore::greet(Attachment& from, const v1::GatewayHello& hello, v1::GatewayWelcome& welcome) {
  if (hello.protocol_version() != kGatewayProtocolVersion) {
    return failed_precondition(fmt::format("the process speaks gateway protocol {}, node \"{}\" speaks {}",
                                           hello.protocol_version(), host_.name(), kGatewayProtocolVersion));
  }
  if (!controller::tokens_equal(hello.token(), options_.token)) {
    return unauthenticated(fmt::format("wrong token; use that of the gateway of node \"{}\"", host_.name()));
  }
  const std::size_t known = statistics().attachments;
  if (known >= options_.max_attachments) {
    return resource_exhausted(
        fmt::format("the gateway of node \"{}\" serves {} processes, as many as its "
                    "max_attachments allows",
                    host_.name(), known));
  }
  Status shares = unavailable(options_.shared_memory ? "the process does not offer shared memory"
                                                     : "the gateway does not use shared memory");
  if (options_.shared_memory && hello.has_probe()) {
    const SegmentPlace probe{hello.process(), hello.probe().descriptor(), hello.probe().nonce()};
    const auto file = open_segment(probe, kProbeBytes, SegmentUse::kSealed);
    shares = file.is_ok() ? map_segment(*file, kProbeBytes, SegmentUse::kSealed).status() : file.status();
  }
  from.is_shared = shares.is_ok();
  welcome.set_node(host_.name());
  welcome.set_shared_memory(shares.is_ok());
  welcome.set_why_streamed(shares.message());
  welcome.set_lease_nanoseconds(to_nanoseconds(options_.lease));
  return {};
}

Status GatewayCore::check_register(const Attachment& from, const GroupSpec& group) const {
  if (!from.tenant.empty() && group.tenant != from.tenant) {
    return permission_denied(
        fmt::format("group \"{}\" is of tenant \"{}\", and {} is not; attach once for "
                    "each tenant",
                    group.name, group.tenant, from.describe()));
  }
  if (!groups_.has(group.name, from.id()) && groups_.count_of(from.id()) >= options_.max_groups) {
    return resource_exhausted(
        fmt::format("{} takes part in {} groups, as many as max_groups of the gateway "
                    "of node \"{}\" allows",
                    from.describe(), options_.max_groups, host_.name()));
  }
  if (registrations_.size() >= Gateway::kMaxRegistrations ||
      members_.at(from.id()).registrations >= kMaxRegistrationsOfOne) {
    return resource_exhausted(
        fmt::format("{} registrations run at the gateway of node \"{}\", as many as may; "
                    "try again",
                    registrations_.size(), host_.name()));
  }
  return {};
}

Status GatewayCore::register_group(Attachment& from, std::uint64_t number,
                                   const v1::GatewayRegister& request) {
  auto group = controller::from_message(request.group());
  Status usable = group.status();
  if (usable.is_ok()) usable = check_register(from, *group);
  if (!usable.is_ok()) {
    answer_register(from.id(), number, usable);
    return {};
  }
  if (from.tenant.empty()) from.tenant = group->tenant;
  ++members_.at(from.id()).registrations;
  const std::uint64_t id = ++last_registration_;
  // The controller may take as long as planning takes: not on the loop.
  registrations_[id] =
      std::thread([this, weak = weak_from_this(), id, number, attachment = from.id(),
                   spec = *std::move(group), timeout = from_nanoseconds(request.timeout_nanoseconds())] {
        auto result = host_.register_group(spec, timeout);
        loop_->post([this, weak, id, number, attachment, spec, result = std::move(result)] {
          const auto self = weak.lock();
          if (!self) return;
          const auto thread = registrations_.find(id);
          thread->second.join();
          registrations_.erase(thread);
          registered(attachment, number, spec, result);
        });
      });
  return {};
}

void GatewayCore::registered(AttachmentId attachment, std::uint64_t number, const GroupSpec& group,
                             const Result<GroupRegistration>& result) {
  const auto member = members_.find(attachment);
  if (member == members_.end() || is_stopping_) return;
  --member->second.registrations;
  if (result.is_ok()) {
    groups_.add(group, *result, attachment);
    for (std::size_t i = 0; i < result->collectives.size(); ++i) {
      host_.set_members(result->collectives[i], group.name,
                        members_on(group, group.collectives[i], host_.name()));
    }
  }
  answer_register(attachment, number, result);
}

void GatewayCore::answer_register(AttachmentId attachment, std::uint64_t number,
                                  const Result<GroupRegistration>& result) {
  v1::GatewayRegistered answer;
  put_status(result.status(), *answer.mutable_status());
  if (result.is_ok()) {
    answer.mutable_group()->set_epoch(result->epoch.value());
    for (const CollectiveId collective : result->collectives) {
      answer.mutable_group()->add_collectives(collective.value());
    }
  }
  if (Attachment* to = find(attachment)) to->send(MessageType::kRegistered, number, answer);
}

void GatewayCore::gone(Attachment& from, const Status& reason) {
  const AttachmentId id = from.id();
  if (from.is_known() && !from.said_goodbye()) {
    log(LogLevel::kWarning, kComponent, "{}: {} is gone: {}", host_.name(), from.describe(),
        reason.message());
  }
  for (const Departure& departure : groups_.leave(id)) end_of(departure, from, reason);
  drop_calls(id);
  segments_.drop(id);
  groups_.prune();
  members_.erase(id);  // and `from`
  admit_waiting();
  finish_stop_if_quiet();
}

// What the process was in the middle of, and what will now never be complete.
void GatewayCore::end_of(const Departure& departure, const Attachment& leaver, const Status& reason) {
  Group& group = *departure.group;
  std::string who = fmt::format("{}, member of group \"{}\"", leaver.describe(), group.spec.name);
  if (!departure.ranks.empty()) who = group.claims.at(departure.ranks.front()).owner;
  const std::string where = fmt::format("at the gateway of node \"{}\"", host_.name());
  const Status cause = leaver.said_goodbye()
                           ? cancelled(fmt::format("{}, has left {}", who, where))
                           : unavailable(fmt::format("{}, is gone {}: {}", who, where, reason.message()));
  const bool is_unsure = departure.may_have_been_a_member && !leaver.said_goodbye();
  std::set<std::pair<CollectiveId, OperationId>> ending;
  for (const auto& [id, call] : calls_) {
    if (!group.collectives.contains(call.part.collective) || call.state == Call::State::kReturning) continue;
    if (id.attachment == leaver.id() || is_unsure ||
        group.missing(call.part.collective, call.part.operation.value()) != nullptr) {
      ending.emplace(call.part.collective, call.part.operation);
    }
  }
  // Members elsewhere would wait for what it will never post.
  const bool was_a_member = is_unsure || !departure.ranks.empty();
  if (!leaver.said_goodbye() && was_a_member && ending.empty() && !group.collectives.empty()) {
    const CollectiveId collective = group.collectives.begin()->first;
    std::uint64_t next = 0;
    if (!departure.ranks.empty()) {
      const auto& posted = group.claims.at(departure.ranks.front()).posted;
      if (const auto known = posted.find(collective); known != posted.end()) next = known->second;
    }
    ending.emplace(collective, OperationId(next));
  }
  for (const auto& [collective, operation] : ending) end_operation(collective, operation, cause);
}

void GatewayCore::drop_calls(AttachmentId attachment) {
  const bool is_shared = find(attachment)->is_shared;
  std::vector<CallId> idle;
  for (const auto& [id, call] : calls_) {
    // What the node or a copy looks at keeps its room until they are through with it.
    const bool is_used =
        call.state == Call::State::kRunning || (is_shared && call.state == Call::State::kReturning);
    if (id.attachment == attachment && !is_used) idle.push_back(id);
  }
  for (const CallId id : idle) erase(id);
}

void GatewayCore::stop(std::function<void()> stopped) {
  is_stopping_ = true;
  listen(false);
  listener_.sockets.clear();
  const Status reason = unavailable(fmt::format("the gateway of node \"{}\" was stopped", host_.name()));
  for (const auto& [id, member] : members_) member.attachment->close(reason);
  std::set<std::pair<CollectiveId, OperationId>> running;
  for (const auto& [id, call] : calls_) {
    if (call.state == Call::State::kRunning) running.emplace(call.part.collective, call.part.operation);
  }
  for (const auto& [collective, operation] : running) end_operation(collective, operation, reason);
  stopped_ = std::move(stopped);
  finish_stop_if_quiet();
}

void GatewayCore::finish_stop_if_quiet() {
  if (stopped_ && members_.empty() && calls_.empty()) std::exchange(stopped_, nullptr)();
}

}  // namespace square::gateway
