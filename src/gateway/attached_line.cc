#include "gateway/attached_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/told_once.h"
#include "controller/protocol.h"
#include "gateway/messages.h"
#include "square/clock.h"

namespace square::gateway {
namespace {

// An answer to a registration may be that late.
constexpr Duration kAnswerTime = std::chrono::seconds(1);
// How long a gateway may take to let a process go that leaves.
constexpr Duration kLeaveTime = std::chrono::milliseconds(500);

}  // namespace

AttachedLine::AttachedLine(AttachOptions options, std::shared_ptr<EventLoop> loop, FileDescriptor socket)
    : options_(std::move(options)),
      loop_(std::move(loop)),
      connection_(std::make_unique<MessageSocket>(*loop_, std::move(socket), *this)),
      operations_(
          loop_, [this] { return ++last_number_; }, [this] { notify_if_quiet(); }) {}

Status AttachedLine::begin() {
  v1::GatewayHello hello;
  hello.set_protocol_version(gateway_versions().oldest);
  hello.set_newest_version(gateway_versions().newest);
  hello.set_tenant(options_.tenant);
  Descriptors descriptors;
  if (options_.shared_memory) {
    if (auto probe = make_sealed_segment({}); probe.is_ok()) {
      hello.mutable_probe()->set_nonce(probe->nonce);
      descriptors.push_back(std::move(probe->descriptor));
    }
  }
  std::string body = body_of(hello);
  if (body.size() > kMaxHelloBytes) {
    return invalid_argument(
        fmt::format("the tenant makes a hello of {} bytes; {} are allowed", body.size(), kMaxHelloBytes));
  }
  connection_->send(MessageType::kHello, 0, std::move(body), std::move(descriptors));
  auto welcomed = welcomed_.get_future();
  SQUARE_RETURN_IF_ERROR(loop_->start("square-attached", kTickInterval, [this] { tick(); }));
  is_started_ = true;
  if (welcomed.wait_for(controller::bounded(options_.timeout)) == std::future_status::ready) {
    return welcomed.get().with_context(fmt::format("gateway at {}", options_.socket_path));
  }
  return unavailable(fmt::format("no answer from a gateway at {} within {:.3g} s", options_.socket_path,
                                 to_seconds(options_.timeout)));
}

void AttachedLine::tick() {
  if (connection_ && connection_->tick(lease_ / kHeartbeatsPerLease, lease_))
    connection_->end(connection_->silence());
  operations_.end_late();
  while (!timers_.empty() && timers_.begin()->first <= steady_clock().now()) {
    const auto due = timers_.extract(timers_.begin());
    due.mapped()();
  }
}

void AttachedLine::after(Duration delay, std::function<void()> then) {
  loop_->post(
      [this, due = steady_clock().now() + delay, then = std::move(then)] { timers_.emplace(due, then); });
}

Status AttachedLine::check_usable() const {
  SQUARE_RETURN_IF_ERROR(process_.check(fmt::format("the attachment to node \"{}\"", name_)));
  return has_left_ ? cancelled(fmt::format("the process left node \"{}\"", name_)) : Status::ok();
}

void AttachedLine::leave() {
  if (process_.is_forked()) return;  // it is the parent's
  if (is_started_) std::call_once(leaving_, [this] { leave_once(); });
}

void AttachedLine::leave_once() {
  const auto left = std::make_shared<std::promise<void>>();
  auto has_left = left->get_future();
  loop_->post([this, left] {
    is_leaving_ = true;
    left_ = left;
    if (connection_) {
      connection_->send(MessageType::kGoodbye, 0);
      connection_->end_after_sending(cancelled("the process left"), kLeaveTime);
    }
    notify_if_quiet();
  });
  // The loop ends the connection in time, and copies end by themselves.
  has_left.wait();
  has_left_ = true;
  operations_.stop();
  loop_->stop();
}

void AttachedLine::notify_if_quiet() {
  if (left_ && !connection_ && operations_.is_empty()) std::exchange(left_, nullptr)->set_value();
}

Status AttachedLine::down_status() const {
  if (is_leaving_) return cancelled(fmt::format("the process left node \"{}\"", name_));
  if (was_silent_) {
    return unavailable(fmt::format(
        "the gateway of node \"{}\" at {} serves this process no more ({}); it had been stopped, or had no "
        "processor: attach again and make a new group",
        name_, options_.socket_path, down_->message()));
  }
  return unavailable(
      fmt::format("the gateway of node \"{}\" at {} is gone ({}); attach again and make a new group", name_,
                  options_.socket_path, down_->message()));
}

Result<GroupPart> AttachedLine::join_group(const GroupSpec& group, Rank member, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(GroupRegistration made, enrol(group, member, timeout));
  const std::shared_ptr<const void> membership(
      nullptr, [weak = weak_from_this(), name = group.name, member](const void*) {
        if (const auto line = weak.lock()) line->close_group(name, member);
      });
  return GroupPart{std::move(made), membership};
}

void AttachedLine::close_group(const std::string& group, Rank member) {
  std::set<CollectiveId> forgotten;
  {
    const std::lock_guard lock(groups_mutex_);
    const auto found = groups_.find(group);
    if (--found->second.ranks == 0) forgotten = groups_.extract(found).mapped().collectives;
  }
  for (const CollectiveId collective : forgotten) operations_.forget(collective);
  v1::GatewayClose message;
  message.set_group(group);
  message.set_rank(member.value());
  loop_->post([this, body = body_of(message)] {
    if (connection_ && !is_leaving_) connection_->send(MessageType::kClose, 0, body);
  });
}

void AttachedLine::note(const GroupSpec& group, const GroupRegistration& made, bool joins) {
  const std::lock_guard lock(groups_mutex_);
  Joined& joined = groups_[group.name];
  if (joins) ++joined.ranks;
  for (std::size_t i = 0; i < made.collectives.size(); ++i) {
    const GroupCollective& collective = group.collectives[i];
    operations_.learn(made.collectives[i], collective, stays_on(group, collective, name_));
    joined.collectives.insert(made.collectives[i]);
  }
}

Result<v1::GatewayRegistered> AttachedLine::ask(v1::GatewayRegister request, const std::string& what,
                                                Duration timeout) {
  request.set_timeout_nanoseconds(to_nanoseconds(timeout));
  std::string body = body_of(request);
  SQUARE_RETURN_IF_ERROR(check_usable());
  if (body.size() > kMaxMessageBytes) {
    return invalid_argument(fmt::format("group \"{}\" takes {} bytes to describe; {} are allowed", what,
                                        body.size(), kMaxMessageBytes));
  }
  const auto promise = std::make_shared<std::promise<Result<v1::GatewayRegistered>>>();
  auto answered = promise->get_future();
  loop_->post([this, promise, body = std::move(body)] {
    if (!connection_) return promise->set_value(down_status());
    const std::uint64_t number = ++last_number_;
    requests_.emplace(number, promise);
    connection_->send(MessageType::kRegister, number, body);
  });
  if (answered.wait_for(controller::bounded(timeout) + kAnswerTime) != std::future_status::ready) {
    return deadline_exceeded(
        fmt::format("group \"{}\" was not registered within {:.3g} s by the gateway of "
                    "node \"{}\"",
                    what, to_seconds(timeout), name_));
  }
  SQUARE_ASSIGN_OR_RETURN(v1::GatewayRegistered answer, answered.get());
  SQUARE_RETURN_IF_ERROR(status_of(answer.status()));
  return answer;
}

Result<GroupSpec> AttachedLine::regroup(const RegroupRequest& request, Duration timeout) {
  v1::GatewayRegister message;
  *message.mutable_regroup() = controller::to_message(request);
  SQUARE_ASSIGN_OR_RETURN(const v1::GatewayRegistered answer,
                          ask(std::move(message), request.group, timeout));
  return controller::from_message(answer.regrouped());
}

Result<GroupRegistration> AttachedLine::enrol(const GroupSpec& group, std::optional<Rank> joins,
                                              Duration timeout) {
  v1::GatewayRegister request;
  *request.mutable_group() = controller::to_message(group);
  if (joins) request.set_joins(joins->value() + 1);
  SQUARE_ASSIGN_OR_RETURN(const v1::GatewayRegistered answer, ask(std::move(request), group.name, timeout));
  GroupRegistration registration;
  registration.epoch = Epoch(answer.group().epoch());
  registration.number = answer.group().number();
  for (const auto id : answer.group().collectives()) registration.collectives.emplace_back(id);
  if (registration.collectives.size() != group.collectives.size()) {
    return internal_error(
        fmt::format("the gateway of node \"{}\" answered {} collectives of group \"{}\" for {}", name_,
                    registration.collectives.size(), group.name, group.collectives.size()));
  }
  note(group, registration, joins.has_value());
  return registration;
}

void AttachedLine::post(MemberOperation operation) {
  if (const Status usable = check_usable(); !usable.is_ok()) {
    if (operation.done) operation.done(usable);
    return;
  }
  const auto call = std::make_shared<AttachedCall>(operations_.prepare(std::move(operation)));
  loop_->post([this, call] {
    if (connection_ && !is_leaving_) return operations_.post(std::move(*call));
    if (call->operation.done) call->operation.done(down_status());
  });
}

void AttachedLine::cancel(CollectiveId collective, OperationId operation) {
  loop_->post([this, collective, operation] { operations_.cancel(collective, operation); });
}

void AttachedLine::fail(CollectiveId collective, OperationId operation, const Status& cause) {
  v1::GatewayFail message;
  message.set_collective(collective.value());
  message.set_operation(operation.value());
  put_status(cause, *message.mutable_cause());
  loop_->post([this, body = body_of(message)] {
    if (connection_) connection_->send(MessageType::kFail, 0, body);
  });
}

void AttachedLine::watch(CollectiveId collective, OperationId operation, Duration timeout,
                         std::function<void(Status)> arrived) {
  if (const Status usable = check_usable(); !usable.is_ok()) return arrived(usable);
  const Status left = cancelled(fmt::format("the process left node \"{}\"", name_));
  v1::GatewayWatch message;
  message.set_collective(collective.value());
  message.set_operation(operation.value());
  message.set_timeout_nanoseconds(to_nanoseconds(timeout));
  // It may leave from here on, and a loop that has stopped drops its tasks.
  loop_->post([this, body = body_of(message), arrived = told_once(std::move(arrived), left)] {
    if (!connection_ || is_leaving_) return arrived(down_status());
    const std::uint64_t number = ++last_number_;
    watches_.emplace(number, arrived);
    connection_->send(MessageType::kWatch, number, body);
  });
}

void AttachedLine::tell_watch(std::uint64_t number, const Status& outcome) {
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  const auto arrived = std::move(found->second);
  watches_.erase(found);
  arrived(outcome);
}

Status AttachedLine::on_message(const Header& header, std::span<const std::byte> body,
                                Descriptors /*descriptors*/) {
  switch (header.type) {
    case MessageType::kWelcome: {
      v1::GatewayWelcome welcome;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, welcome));
      if (is_welcomed_) return data_loss("the gateway said welcome twice");
      name_ = welcome.node();
      if (const std::uint32_t version = welcome.protocol_version();
          version > 0 && !gateway_versions().contains(version)) {
        return failed_precondition(
            fmt::format("node \"{}\" speaks gateway protocol {}, which was not offered: {}", name_, version,
                        to_string(gateway_versions())));
      }
      is_welcomed_ = true;
      is_shared_ = welcome.shared_memory();
      why_streamed_ = welcome.why_streamed();
      lease_ = std::clamp<Duration>(from_nanoseconds(welcome.lease_nanoseconds()),
                                    std::chrono::milliseconds(500), std::chrono::hours(1));
      // One that does not say how many may be under way has the default.
      operations_.open(*connection_, {name_, is_shared_,
                                      welcome.max_operations() > 0 ? welcome.max_operations()
                                                                   : GatewayOptions{}.max_operations});
      welcomed_.set_value(Status::ok());
      return {};
    }
    case MessageType::kRegistered: {
      v1::GatewayRegistered registered;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, registered));
      answer(header.number, std::move(registered));
      return {};
    }
    case MessageType::kAdmitted: operations_.admitted(header.number); return {};
    case MessageType::kChunk: operations_.took_chunk(header); return {};
    case MessageType::kOutcome: {
      v1::GatewayStatus outcome;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, outcome));
      operations_.ended(header.number, status_of(outcome));
      return {};
    }
    case MessageType::kArrived: {
      v1::GatewayStatus outcome;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, outcome));
      tell_watch(header.number, status_of(outcome));
      return {};
    }
    case MessageType::kClosing: {
      v1::GatewayStatus reason;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, reason));
      const Status status = status_of(reason);
      was_silent_ = reason.was_silent();
      return status.is_ok() ? unavailable("the gateway closed the attachment") : status;
    }
    default: return data_loss(fmt::format("a {} message is not a gateway's", to_string(header.type)));
  }
}

void AttachedLine::answer(std::uint64_t number, Result<v1::GatewayRegistered> answer) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  found->second->set_value(std::move(answer));
  requests_.erase(found);
}

void AttachedLine::on_down(const Status& reason) {
  down_ = reason;
  if (!is_welcomed_) {
    is_welcomed_ = true;
    welcomed_.set_value(reason);
  }
  connection_.reset();  // from here on nothing is read into a member's buffer, or out of one
  const Status status = down_status();
  while (!requests_.empty()) answer(requests_.begin()->first, status);
  while (!watches_.empty()) tell_watch(watches_.begin()->first, status);
  operations_.down(status);
  notify_if_quiet();
}

}  // namespace square::gateway
