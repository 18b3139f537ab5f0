#include "gateway/gateway_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "controller/protocol.h"
#include "gateway/messages.h"

namespace square::gateway {
namespace {

constexpr const char* kComponent = "gateway";
// The page of a probe holds nothing but its header.
constexpr std::size_t kProbeBytes = 0;
// Connections that are accepted before the others have their turn.
constexpr std::size_t kAcceptedAtOnce = 32;

}  // namespace

GatewayServer::GatewayServer(MemberHost& node, GatewayOptions options, std::shared_ptr<EventLoop> loop,
                             LocalListener listener)
    : node_(node),
      options_(std::move(options)),
      loop_(std::move(loop)),
      listener_(std::move(listener)),
      path_(listener_.path()),
      groups_(node_.name()),
      operations_(std::make_shared<GatewayOperations>(
          OperationsHost{node_, options_, groups_, [this](AttachmentId id) { return find(id); },
                         [this] { finish_stop_if_quiet(); }},
          loop_)),
      registrations_(std::make_shared<Registrations>(node_, loop_)) {}

GatewayServer::~GatewayServer() { stop(); }

Status GatewayServer::start() {
  listen(true);
  Status started = loop_->start("square-gateway", kTickInterval, [this] { tick(); });
  is_stopped_ = !started.is_ok();
  return started;
}

Gateway::Statistics GatewayServer::statistics() {
  if (is_stopped_) return {};
  const auto answer = std::make_shared<std::promise<Gateway::Statistics>>();
  auto counted = answer->get_future();
  loop_->post([this, answer] { answer->set_value(count()); });
  return counted.wait_for(DataPlane::kDrainTime) == std::future_status::ready ? counted.get()
                                                                              : Gateway::Statistics{};
}

void GatewayServer::stop() {
  const std::lock_guard lock(stop_mutex_);
  if (is_stopped_.exchange(true)) return;
  const auto drained = std::make_shared<std::promise<void>>();
  auto is_drained = drained->get_future();
  loop_->post([this, drained] { end_all([drained] { drained->set_value(); }); });
  is_drained.wait_for(DataPlane::kDrainTime);
  loop_->stop();
}

void GatewayServer::listen(bool listens) {
  if (listens == listening_.has_value()) return;
  if (listens) {
    listening_ = loop_->watch(listener_.socket().get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
  } else {
    loop_->forget(*std::exchange(listening_, std::nullopt));
  }
}

void GatewayServer::accept_all() {
  if (!loop_->closer().has_room()) {
    log_seldom(seldom_, node_.name(), {kComponent},
               "{}: accepts no connections until descriptors that processes have sent are closed",
               node_.name());
    return listen(false);
  }
  // Not all at once: what those before have said is read first, so that a crowd is not taken for one that
  // says nothing.
  for (std::size_t accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
    FileDescriptor socket(accept4(listener_.socket().get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Out of descriptors, say: the next tick tries again, not the next moment.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) listen(false);
      return;
    }
    const LocalPeer peer = peer_of(socket);
    const AttachmentId id = ++last_attachment_;
    members_[id].attachment = std::make_unique<Attachment>(*this, *loop_, id, std::move(socket), peer);
    handshakes_.add(peer.user, id);
    if (const auto oldest = handshakes_.take_one_too_many())
      find(*oldest)->drop(resource_exhausted("too many connections of its user have not said who they are"));
  }
}

Status GatewayServer::check_user(const Attachment& from, const std::string& tenant) const {
  const std::uint32_t user = from.peer().user;
  if (user == geteuid() || user == 0) return {};
  bool is_known = false;
  for (const GatewayUser& one : options_.users) {
    if (one.user != user) continue;
    is_known = true;
    if (tenant.empty() || one.tenant == "*" || one.tenant == tenant) return {};
  }
  if (is_known) {
    return permission_denied(fmt::format("user {} may not be tenant \"{}\" at the gateway of node \"{}\"",
                                         user, tenant, node_.name()));
  }
  return permission_denied(
      fmt::format("the gateway of node \"{}\" does not serve user {}: start it with --gateway-user {}=TENANT",
                  node_.name(), user, user));
}

Attachment* GatewayServer::find(AttachmentId id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : found->second.attachment.get();
}

void GatewayServer::tick() {
  if (!is_ending_) listen(loop_->closer().has_room());
  for (const auto& [id, member] : members_) {
    member.attachment->tick(options_.lease / kHeartbeatsPerLease, options_.lease, Gateway::kHandshakeTime);
  }
  operations_->end_late();
}

Gateway::Statistics GatewayServer::count() const {
  Gateway::Statistics now;
  now.attachments = static_cast<std::size_t>(
      std::ranges::count_if(members_, [](const auto& entry) { return entry.second.attachment->is_known(); }));
  now.operations = operations_->count();
  now.staging_bytes = operations_->staging_bytes();
  return now;
}

Status GatewayServer::greet(Attachment& from, const v1::GatewayHello& hello, SentSegment probe,
                            v1::GatewayWelcome& welcome) {
  const ProtocolVersions said = versions_said(hello.protocol_version(), hello.newest_version());
  const Speaker self{fmt::format("node \"{}\"", node_.name()), gateway_versions()};
  SQUARE_ASSIGN_OR_RETURN(const std::uint32_t version,
                          agree_on_version("gateway protocol", {"the process", said}, self));
  SQUARE_RETURN_IF_ERROR(check_user(from, hello.tenant()));
  const std::size_t known = count().attachments;
  if (known >= options_.max_attachments) {
    return resource_exhausted(
        fmt::format("the gateway of node \"{}\" serves {} processes, as many as its "
                    "max_attachments allows",
                    node_.name(), known));
  }
  const auto of_user = static_cast<std::size_t>(std::ranges::count_if(members_, [&](const auto& entry) {
    return entry.second.attachment->is_known() && entry.second.attachment->peer().user == from.peer().user;
  }));
  if (from.peer().user != geteuid() && of_user >= options_.max_attachments_of_other) {
    return resource_exhausted(fmt::format("the gateway of node \"{}\" serves {} processes of user {} already",
                                          node_.name(), of_user, from.peer().user));
  }
  Status shares = unavailable(options_.shared_memory ? "the process does not offer shared memory"
                                                     : "the gateway does not use shared memory");
  if (options_.shared_memory && hello.has_probe()) {
    const auto file = open_segment(std::move(probe), kProbeBytes, SegmentUse::kSealed);
    shares = file.is_ok() ? map_segment(*file, kProbeBytes, SegmentUse::kSealed).status() : file.status();
  }
  handshakes_.remove(from.peer().user, from.id());
  from.is_shared = shares.is_ok();
  welcome.set_protocol_version(version);
  welcome.set_node(node_.name());
  welcome.set_shared_memory(shares.is_ok());
  welcome.set_why_streamed(shares.message());
  welcome.set_lease_nanoseconds(to_nanoseconds(options_.lease));
  welcome.set_max_operations(options_.max_operations);
  return {};
}

std::vector<std::string> GatewayServer::tenants_of(const Attachment& from) const {
  if (!from.tenant.empty()) return {from.tenant};
  std::vector<std::string> tenants;
  const std::uint32_t user = from.peer().user;
  for (const GatewayUser& one : options_.users) {
    if (one.user == user) tenants.push_back(one.tenant);
  }
  const bool may_be_any = user == geteuid() || user == 0 || std::ranges::find(tenants, "*") != tenants.end();
  return may_be_any ? std::vector<std::string>() : tenants;
}

Status GatewayServer::check_register(const Attachment& from, const GroupSpec& group) const {
  SQUARE_RETURN_IF_ERROR(check_user(from, group.tenant));
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
                    from.describe(), options_.max_groups, node_.name()));
  }
  return registrations_->check(from.id());
}

Status GatewayServer::register_group(Attachment& from, std::uint64_t number,
                                     const v1::GatewayRegister& request) {
  Request asked{from.id(), number, std::nullopt};
  if (request.has_regroup()) {
    regroup(from, asked, request);
    return {};
  }
  if (request.joins() > 0) asked.joins = Rank(request.joins() - 1);
  auto group = controller::from_message(request.group());
  Status usable = group.status();
  if (usable.is_ok()) usable = check_register(from, *group);
  if (!usable.is_ok()) {
    answer_register(asked, usable);
    return {};
  }
  if (from.tenant.empty()) from.tenant = group->tenant;
  const GroupSpec spec = *std::move(group);
  registrations_->begin(
      {from.id(), from.peer().user}, spec, asked.joins, from_nanoseconds(request.timeout_nanoseconds()),
      [this, asked, spec](const Result<GroupPart>& result) { registered(asked, spec, result); });
  return {};
}

void GatewayServer::regroup(Attachment& from, const Request& asked, const v1::GatewayRegister& request) {
  RegroupRequest wanted = controller::from_message(request.regroup());
  Status usable = registrations_->check_regroup(from.id(), from.peer().user);
  wanted.tenants = tenants_of(from);
  const bool is_member =
      wanted.joiner != 0 ||
      (wanted.ranks.size() == 1 && groups_.is_rank(wanted.group, from.id(), wanted.ranks.front()));
  if (!is_member) {
    usable =
        permission_denied(fmt::format("{} is no such member of group \"{}\"", from.describe(), wanted.group));
  }
  if (!usable.is_ok()) return answer_register(asked, usable);
  registrations_->begin_regroup(from.id(), from.peer().user, std::move(wanted),
                                from_nanoseconds(request.timeout_nanoseconds()),
                                [this, asked](const Result<GroupSpec>& next) {
                                  v1::GatewayRegistered answer;
                                  put_status(next.status(), *answer.mutable_status());
                                  if (next.is_ok())
                                    *answer.mutable_regrouped() = controller::to_message(*next);
                                  Attachment* const to = is_ending_ ? nullptr : find(asked.attachment);
                                  if (to) to->send(MessageType::kRegistered, asked.number, answer);
                                });
}

void GatewayServer::registered(const Request& request, const GroupSpec& group,
                               const Result<GroupPart>& result) {
  if (find(request.attachment) == nullptr || is_ending_) return;
  if (!result.is_ok()) return answer_register(request, result.status());
  const GroupRegistration& made = result->registration;
  std::vector<std::size_t> added;
  for (std::size_t i = 0; i < made.collectives.size(); ++i) {
    if (groups_.find(made.collectives[i]) == nullptr) added.push_back(i);
  }
  groups_.add(group, made, request.attachment);
  if (request.joins) groups_.join(group.name, request.attachment, *request.joins, result->membership);
  for (const std::size_t i : added) {
    node_.set_members(made.collectives[i], group_label(group.name, made.number),
                      members_on(group, group.collectives[i], node_.name()));
  }
  answer_register(request, made);
}

void GatewayServer::close_group(Attachment& from, const v1::GatewayClose& message) {
  const Rank rank(message.rank());
  Group* const group = groups_.close(message.group(), from.id(), rank);
  if (group == nullptr) return;
  // What other ranks have called with this one can never be complete.
  const auto ending = operations_->matching([&](const Call& call) {
    return group->collectives.contains(call.part.collective) && call.state != Call::State::kReturning &&
           group->missing(call.part.collective, call.part.operation.value()) != nullptr;
  });
  const Status cause = failed_precondition(
      fmt::format("{}, rank {}, has closed group \"{}\"", from.describe(), rank.value(), message.group()));
  for (const GatewayOperations::Key& key : ending) operations_->end(key, cause);
  groups_.prune();
}

void GatewayServer::answer_register(const Request& request, const Result<GroupRegistration>& result) {
  v1::GatewayRegistered answer;
  put_status(result.status(), *answer.mutable_status());
  if (result.is_ok()) {
    answer.mutable_group()->set_epoch(result->epoch.value());
    answer.mutable_group()->set_number(result->number);
    for (const CollectiveId collective : result->collectives) {
      answer.mutable_group()->add_collectives(collective.value());
    }
  }
  if (Attachment* to = find(request.attachment)) to->send(MessageType::kRegistered, request.number, answer);
}

void GatewayServer::gone(Attachment& from, const Status& reason) {
  const AttachmentId id = from.id();
  if (from.is_known() && !from.said_goodbye()) {
    log(LogLevel::kWarning, kComponent, "{}: {} is gone: {}", node_.name(), from.describe(),
        reason.message());
  }
  if (!from.is_known() && reason.code() == StatusCode::kPermissionDenied) {
    log_seldom(seldom_, fmt::to_string(from.peer().user), {kComponent},
               "{}: refused process {} of user {}: {}", node_.name(), from.peer().process, from.peer().user,
               reason.message());
  }
  for (const Departure& departure : groups_.leave(id)) end_of(departure, from, reason);
  operations_->drop(from);
  registrations_->forget(id);
  handshakes_.remove(from.peer().user, id);
  groups_.prune();
  members_.erase(id);  // and `from`
  operations_->forget(id);
  finish_stop_if_quiet();
}

// What the process was in the middle of, and what will now never be complete.
void GatewayServer::end_of(const Departure& departure, const Attachment& leaver, const Status& reason) {
  Group& group = *departure.group;
  std::string who = fmt::format("{}, member of group \"{}\"", leaver.describe(), group.spec.name);
  if (!departure.ranks.empty()) who = group.claims.at(departure.ranks.front()).owner;
  const std::string where = fmt::format("at the gateway of node \"{}\"", node_.name());
  const Status cause = leaver.said_goodbye()
                           ? cancelled(fmt::format("{}, has left {}", who, where))
                           : unavailable(fmt::format("{}, is gone {}: {}", who, where, reason.message()));
  const bool is_unsure = departure.may_have_been_a_member && !leaver.said_goodbye();
  auto ending = operations_->matching([&](const Call& call) {
    const MemberOperation& part = call.part;
    if (!group.collectives.contains(part.collective) || call.state == Call::State::kReturning) return false;
    return call.id.attachment == leaver.id() || is_unsure ||
           group.missing(part.collective, part.operation.value()) != nullptr;
  });
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
  for (const GatewayOperations::Key& key : ending) operations_->end(key, cause);
}

void GatewayServer::fail(Attachment& from, const v1::GatewayFail& message) {
  const CollectiveId collective(message.collective());
  const Group* group = groups_.find(collective);
  const Status cause = status_of(message.cause());
  // Who has registered a group is no member yet: it ends nothing of those who are.
  if (group == nullptr || !group->memberships.contains(from.id()) || cause.is_ok()) return;
  operations_->end({collective, OperationId(message.operation())}, cause.with_context(from.describe()));
}

void GatewayServer::watch(Attachment& from, std::uint64_t number, const v1::GatewayWatch& message) {
  const CollectiveId collective(message.collective());
  const Group* group = groups_.find(collective);
  Member& member = members_.at(from.id());
  ++member.watches;
  if (group == nullptr || !group->memberships.contains(from.id())) {
    return answer_watch(from.id(), number,
                        permission_denied(fmt::format("{} is no member of the group of collective {}",
                                                      from.describe(), collective.value())));
  }
  if (member.watches > kMaxWatchesOfOne) {
    return answer_watch(from.id(), number,
                        resource_exhausted(fmt::format("{} waits to hear of {} operations already",
                                                       from.describe(), kMaxWatchesOfOne)));
  }
  node_.watch(collective, OperationId(message.operation()),
              controller::bounded(from_nanoseconds(message.timeout_nanoseconds())),
              [loop = std::weak_ptr(loop_), weak = weak_from_this(), id = from.id(), number](Status outcome) {
                if (const auto alive = loop.lock()) {
                  alive->post([weak, id, number, outcome = std::move(outcome)] {
                    if (const auto self = weak.lock()) self->answer_watch(id, number, outcome);
                  });
                }
              });
}

void GatewayServer::answer_watch(AttachmentId attachment, std::uint64_t number, const Status& outcome) {
  Attachment* to = find(attachment);
  if (to == nullptr) return;
  --members_.at(attachment).watches;
  v1::GatewayStatus message;
  put_status(outcome, message);
  to->send(MessageType::kArrived, number, message);
}

void GatewayServer::end_all(std::function<void()> stopped) {
  is_ending_ = true;
  operations_->close();
  listen(false);
  loop_->closer().close(listener_.close());
  const Status reason = unavailable(fmt::format("the gateway of node \"{}\" was stopped", node_.name()));
  for (const auto& [id, member] : members_) member.attachment->close(reason);
  const auto running =
      operations_->matching([](const Call& call) { return call.state == Call::State::kRunning; });
  for (const GatewayOperations::Key& key : running) operations_->end(key, reason);
  stopped_ = std::move(stopped);
  finish_stop_if_quiet();
}

void GatewayServer::finish_stop_if_quiet() {
  if (stopped_ && members_.empty() && operations_->count() == 0) std::exchange(stopped_, nullptr)();
}

}  // namespace square::gateway
