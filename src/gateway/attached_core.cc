#include "gateway/attached_core.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "controller/protocol.h"
#include "gateway/messages.h"

namespace square::gateway {
namespace {

constexpr int kHeartbeatsPerLease = 5;
constexpr Duration kTickInterval = std::chrono::milliseconds(100);
// An answer to a registration may be that late.
constexpr Duration kAnswerTime = std::chrono::seconds(1);
// How long a gateway may take to let a process go that leaves.
constexpr Duration kLeaveTime = std::chrono::milliseconds(500);

}  // namespace

Segment SegmentPool::take(std::size_t size_bytes) {
  auto best = free_.end();
  for (auto place = free_.begin(); place != free_.end(); ++place) {
    const std::size_t capacity = place->capacity_bytes;
    if (capacity < size_bytes || capacity / kMaxSegmentWaste > size_bytes) continue;
    if (best == free_.end() || capacity < best->capacity_bytes) best = place;
  }
  if (best == free_.end()) return {};
  Segment segment = std::move(*best);
  free_.erase(best);
  bytes_ -= segment.capacity_bytes;
  return segment;
}

void SegmentPool::give_back(Segment segment) {
  if (!segment.descriptor || segment.capacity_bytes > kMaxPooledBytes) return;
  bytes_ += segment.capacity_bytes;
  free_.push_back(std::move(segment));
  while (free_.size() > kMaxPooledSegments || bytes_ > kMaxPooledBytes) {
    bytes_ -= free_.front().capacity_bytes;
    free_.erase(free_.begin());
  }
}

AttachedCore::AttachedCore(AttachOptions options, std::shared_ptr<EventLoop> loop, FileDescriptor socket)
    : options_(std::move(options)),
      loop_(std::move(loop)),
      connection_(std::make_unique<Connection>(*loop_, std::move(socket), *this)),
      copier_(loop_) {}

Status AttachedCore::begin() {
  v1::GatewayHello hello;
  hello.set_protocol_version(kGatewayProtocolVersion);
  hello.set_token(options_.token);
  hello.set_tenant(options_.tenant);
  hello.set_process(static_cast<std::uint32_t>(getpid()));
  if (options_.shared_memory) {
    if (auto probe = make_sealed_segment({}); probe.is_ok()) {
      probe_ = std::move(*probe);
      hello.mutable_probe()->set_descriptor(static_cast<std::uint32_t>(probe_.descriptor.get()));
      hello.mutable_probe()->set_nonce(probe_.nonce);
    }
  }
  std::string body = body_of(hello);
  if (body.size() > kMaxHelloBytes) {
    return invalid_argument(
        fmt::format("token and tenant are {} bytes long; {} are allowed", body.size(), kMaxHelloBytes));
  }
  connection_->send(MessageType::kHello, 0, std::move(body));
  auto welcomed = welcomed_.get_future();
  is_started_ = true;
  loop_->start("square-attached", kTickInterval, [this] {
    if (connection_) connection_->tick(lease_ / kHeartbeatsPerLease, lease_);
  });
  if (welcomed.wait_for(controller::bounded(options_.timeout)) == std::future_status::ready) {
    return welcomed.get().with_context(fmt::format("gateway at {}", options_.gateway_address));
  }
  return unavailable(fmt::format("no answer from a gateway at {} within {:.3g} s", options_.gateway_address,
                                 to_seconds(options_.timeout)));
}

void AttachedCore::leave() {
  if (is_started_) std::call_once(leaving_, [this] { leave_once(); });
}

void AttachedCore::leave_once() {
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
  copier_.stop();
  loop_->stop();
}

void AttachedCore::notify_if_quiet() {
  if (left_ && !connection_ && calls_.empty()) std::exchange(left_, nullptr)->set_value();
}

Status AttachedCore::down_status() const {
  if (is_leaving_) return cancelled(fmt::format("the process left node \"{}\"", name_));
  return unavailable(
      fmt::format("the gateway of node \"{}\" at {} is gone ({}); attach again and make a new group", name_,
                  options_.gateway_address, down_->message()));
}

Result<GroupRegistration> AttachedCore::register_group(const GroupSpec& group, Duration timeout) {
  v1::GatewayRegister request;
  *request.mutable_group() = controller::to_message(group);
  request.set_timeout_nanoseconds(to_nanoseconds(timeout));
  std::string body = body_of(request);
  if (has_left_) return cancelled(fmt::format("the process left node \"{}\"", name_));
  if (body.size() > kMaxMessageBytes) {
    return invalid_argument(fmt::format("group \"{}\" takes {} bytes to describe; {} are allowed", group.name,
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
                    group.name, to_seconds(timeout), name_));
  }
  SQUARE_ASSIGN_OR_RETURN(const v1::GatewayRegistered answer, answered.get());
  SQUARE_RETURN_IF_ERROR(status_of(answer.status()));
  GroupRegistration registration;
  registration.epoch = Epoch(answer.group().epoch());
  for (const auto id : answer.group().collectives()) registration.collectives.emplace_back(id);
  if (registration.collectives.size() != group.collectives.size()) {
    return internal_error(
        fmt::format("the gateway of node \"{}\" answered {} collectives of group \"{}\" for {}", name_,
                    registration.collectives.size(), group.name, group.collectives.size()));
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < registration.collectives.size(); ++i) {
    const GroupCollective& collective = group.collectives[i];
    collectives_.insert_or_assign(registration.collectives[i],
                                  KnownCollective{collective, stays_on(group, collective, name_)});
  }
  return registration;
}

void AttachedCore::choose_parts(Call& call) {
  call.input = call.operation.input;
  call.output = call.operation.output;
  const std::lock_guard lock(mutex_);
  const auto known = collectives_.find(call.operation.collective);
  if (known == collectives_.end()) return;
  call.stays_on_node = known->second.stays_on_node;
  const CollectiveOp op = known->second.collective.op;
  if (op == CollectiveOp::kBroadcast) {
    if (call.operation.is_root) {
      call.output = {};
    } else {
      call.input = {};
    }
  } else if (op == CollectiveOp::kReduce && !call.operation.is_root) {
    call.output = {};
  }
}

void AttachedCore::post(MemberOperation operation) {
  if (has_left_) {
    if (operation.done) operation.done(cancelled(fmt::format("the process left node \"{}\"", name_)));
    return;
  }
  const auto call = std::make_shared<Call>();
  call->operation = std::move(operation);
  choose_parts(*call);
  loop_->post([this, call] { start(std::move(*call)); });
}

void AttachedCore::start(Call posted) {
  const MemberOperation& operation = posted.operation;
  if (!connection_ || is_leaving_) {
    if (operation.done) operation.done(down_status());
    return;
  }
  v1::GatewayPost message;
  message.set_collective(operation.collective.value());
  message.set_operation(operation.operation.value());
  message.set_rank(operation.rank.value());
  message.set_input_bytes(posted.input.size());
  message.set_output_bytes(posted.output.size());
  message.set_element_type(static_cast<std::uint32_t>(operation.reduction.type));
  message.set_reduce_op(static_cast<std::uint32_t>(operation.reduction.op));
  message.set_group_size(operation.group_size);
  message.set_call(to_bits(operation.call));
  message.set_is_root(operation.is_root);
  message.set_timeout_nanoseconds(to_nanoseconds(operation.timeout));
  const std::uint64_t number = ++last_number_;
  calls_.emplace(number, std::move(posted));
  connection_->send(MessageType::kPost, number, body_of(message));
}

void AttachedCore::cancel(CollectiveId collective, OperationId operation) {
  loop_->post([this, collective, operation] {
    for (const auto& [number, call] : calls_) {
      if (call.operation.collective != collective || call.operation.operation != operation) continue;
      if (connection_ && !call.outcome) connection_->send(MessageType::kCancel, number);
    }
  });
}

void AttachedCore::fail(CollectiveId collective, OperationId operation, const Status& cause) {
  v1::GatewayFail message;
  message.set_collective(collective.value());
  message.set_operation(operation.value());
  put_status(cause, *message.mutable_cause());
  loop_->post([this, body = body_of(message)] {
    if (connection_) connection_->send(MessageType::kFail, 0, body);
  });
}

void AttachedCore::watch(CollectiveId collective, OperationId operation, Duration timeout,
                         std::function<void(Status)> arrived) {
  if (has_left_) return arrived(cancelled(fmt::format("the process left node \"{}\"", name_)));
  v1::GatewayWatch message;
  message.set_collective(collective.value());
  message.set_operation(operation.value());
  message.set_timeout_nanoseconds(to_nanoseconds(timeout));
  loop_->post([this, body = body_of(message), arrived = std::move(arrived)] {
    if (!connection_ || is_leaving_) return arrived(down_status());
    const std::uint64_t number = ++last_number_;
    watches_.emplace(number, arrived);
    connection_->send(MessageType::kWatch, number, body);
  });
}

void AttachedCore::tell_watch(std::uint64_t number, const Status& outcome) {
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  const auto arrived = std::move(found->second);
  watches_.erase(found);
  arrived(outcome);
}

Result<ChunkTarget> AttachedCore::on_header(const Header& header) {
  if (header.type != MessageType::kChunk) return ChunkTarget{};
  const auto found = calls_.find(header.number);
  if (found == calls_.end() || found->second.outcome) return ChunkTarget{};
  Call& call = found->second;
  if (header.offset_bytes != call.received_bytes ||
      header.body_bytes > call.output.size() - call.received_bytes) {
    return data_loss(fmt::format("the gateway sent {} bytes at {} of an operation of {}", header.body_bytes,
                                 header.offset_bytes, call.output.size()));
  }
  return ChunkTarget{nullptr, call.output.data() + header.offset_bytes};
}

Status AttachedCore::on_message(const Header& header, std::span<const std::byte> body) {
  switch (header.type) {
    case MessageType::kWelcome: {
      v1::GatewayWelcome welcome;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, welcome));
      if (is_welcomed_) return data_loss("the gateway said welcome twice");
      is_welcomed_ = true;
      name_ = welcome.node();
      is_shared_ = welcome.shared_memory();
      why_streamed_ = welcome.why_streamed();
      lease_ = std::clamp<Duration>(from_nanoseconds(welcome.lease_nanoseconds()),
                                    std::chrono::milliseconds(500), std::chrono::hours(1));
      probe_ = {};
      welcomed_.set_value(Status::ok());
      return {};
    }
    case MessageType::kRegistered: {
      v1::GatewayRegistered registered;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, registered));
      answer(header.number, std::move(registered));
      return {};
    }
    case MessageType::kAdmitted: admitted(header.number); return {};
    case MessageType::kChunk: {
      const auto found = calls_.find(header.number);
      if (found != calls_.end()) found->second.received_bytes += header.body_bytes;
      return {};
    }
    case MessageType::kOutcome: {
      v1::GatewayStatus outcome;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, outcome));
      ended(header.number, status_of(outcome));
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
      return status.is_ok() ? unavailable("the gateway closed the attachment") : status;
    }
    default: return data_loss(fmt::format("a {} message is not a gateway's", to_string(header.type)));
  }
}

void AttachedCore::answer(std::uint64_t number, Result<v1::GatewayRegistered> answer) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  found->second->set_value(std::move(answer));
  requests_.erase(found);
}

void AttachedCore::admitted(std::uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.outcome || found->second.is_in_use) return;
  Call& call = found->second;
  if (is_shared_) return stage(number, call);
  if (call.input.empty()) return;
  call.is_in_use = true;
  connection_->stream(number, call.input, nullptr);
}

void AttachedCore::stage(std::uint64_t number, Call& call) {
  const std::size_t reusable_bytes =
      std::max(call.output.size(), call.stays_on_node ? call.input.size() : std::size_t{0});
  if (reusable_bytes > 0) {
    call.reusable = pool_.take(reusable_bytes);
    if (!call.reusable.descriptor) {
      auto made = make_reusable_segment(reusable_bytes);
      if (!made.is_ok()) return staged(number, made.status());
      call.reusable = std::move(*made);
    }
  }
  call.is_in_use = true;
  if (call.stays_on_node) {
    return copier_.copy(call.input, call.reusable.mapping.data().data(), nullptr,
                        [this, number] { staged(number, Status::ok()); });
  }
  const auto sealed = std::make_shared<SealedInput>();
  const auto seal = [sealed, input = call.input] {
    if (input.empty()) return;
    auto made = make_sealed_segment(input);
    if (made.is_ok()) sealed->segment = std::move(*made);
    sealed->made = made.status();
  };
  copier_.run(call.input.size(), seal, [this, number, sealed] {
    calls_.at(number).sealed = std::move(sealed->segment);
    staged(number, sealed->made);
  });
}

void AttachedCore::staged(std::uint64_t number, const Status& made) {
  Call& call = calls_.at(number);
  call.is_in_use = false;
  if (call.outcome) return finish(number);
  if (!made.is_ok()) {
    connection_->send(MessageType::kCancel, number);  // the others need not wait
    call.outcome = made;
    return finish(number);
  }
  v1::GatewayStaged where;
  const auto describe = [](const Segment& segment, v1::GatewaySegment& message) {
    message.set_descriptor(static_cast<std::uint32_t>(segment.descriptor.get()));
    message.set_nonce(segment.nonce);
  };
  if (!call.input.empty()) describe(call.stays_on_node ? call.reusable : call.sealed, *where.mutable_input());
  if (!call.output.empty()) describe(call.reusable, *where.mutable_output());
  connection_->send(MessageType::kStaged, number, body_of(where));
}

void AttachedCore::ended(std::uint64_t number, Status outcome) {
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.outcome) return;
  Call& call = found->second;
  if (outcome.is_ok() && !call.output.empty() && is_shared_) {
    if (!call.reusable.descriptor) {
      outcome = data_loss(
          fmt::format("the gateway of node \"{}\" ended an operation that it had no memory for", name_));
    } else {
      call.is_in_use = true;
      call.outcome = outcome;
      const auto from = call.reusable.mapping.data().first(call.output.size());
      return copier_.copy(from, call.output.data(), nullptr, [this, number] {
        calls_.at(number).is_in_use = false;
        finish(number);
      });
    }
  }
  if (outcome.is_ok() && !is_shared_ && call.received_bytes != call.output.size()) {
    outcome = data_loss(fmt::format("{} of {} bytes came from the gateway of node \"{}\"",
                                    call.received_bytes, call.output.size(), name_));
  }
  call.outcome = std::move(outcome);
  if (call.is_in_use && !is_shared_) return connection_->drop_stream(number);  // on_streamed() finishes it
  finish_unless_in_use(number);
}

void AttachedCore::on_streamed(std::uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  found->second.is_in_use = false;
  if (found->second.outcome) finish(number);
}

void AttachedCore::finish_unless_in_use(std::uint64_t number) {
  if (!calls_.at(number).is_in_use) finish(number);
}

void AttachedCore::finish(std::uint64_t number) {
  Call call = std::move(calls_.extract(number).mapped());
  // A gateway that is gone may still be writing to it.
  if (connection_) pool_.give_back(std::move(call.reusable));
  if (call.operation.done) call.operation.done(*call.outcome);
  notify_if_quiet();
}

void AttachedCore::on_down(const Status& reason) {
  down_ = reason;
  if (!is_welcomed_) {
    is_welcomed_ = true;
    welcomed_.set_value(reason);
  }
  connection_.reset();  // from here on nothing is read into a member's buffer, or out of one
  const Status status = down_status();
  while (!requests_.empty()) answer(requests_.begin()->first, status);
  while (!watches_.empty()) tell_watch(watches_.begin()->first, status);
  std::vector<std::uint64_t> numbers;
  for (auto& [number, call] : calls_) {
    if (!call.outcome) call.outcome = status;
    if (!is_shared_) call.is_in_use = false;
    numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) finish_unless_in_use(number);
  notify_if_quiet();
}

}  // namespace square::gateway
