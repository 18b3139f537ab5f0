#include "gateway/attached_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gateway/messages.h"

namespace square::gateway {

void AttachedOperations::learn(CollectiveId collective, const GroupCollective& meaning, bool stays_on_node) {
  const std::lock_guard lock(mutex_);
  collectives_.insert_or_assign(collective, KnownCollective{meaning.op, stays_on_node});
}

void AttachedOperations::forget(CollectiveId collective) {
  const std::lock_guard lock(mutex_);
  collectives_.erase(collective);
}

AttachedCall AttachedOperations::prepare(MemberOperation operation) const {
  AttachedCall call;
  call.input = operation.input;
  call.output = operation.output;
  call.operation = std::move(operation);
  const std::lock_guard lock(mutex_);
  const auto known = collectives_.find(call.operation.collective);
  if (known == collectives_.end()) return call;
  call.stays_on_node = known->second.stays_on_node;
  const CollectiveOp op = known->second.op;
  if (op == CollectiveOp::kBroadcast) {
    if (call.operation.is_root) {
      call.output = {};
    } else {
      call.input = {};
    }
  } else if (op == CollectiveOp::kReduce && !call.operation.is_root) {
    call.output = {};
  }
  return call;
}

void AttachedOperations::open(MessageSocket& connection, const Welcome& welcome) {
  connection_ = &connection;
  node_ = welcome.node;
  is_shared_ = welcome.is_shared;
  max_operations_ = welcome.max_operations;
}

bool AttachedOperations::has_room(CollectiveId collective) const {
  if (calls_.size() >= max_operations_) return false;
  return calls_.size() < kMaxSentOperations || !sent_.contains(collective);
}

void AttachedOperations::post(AttachedCall call) {
  const CollectiveId collective = call.operation.collective;
  if (!waiting_.contains(collective) && has_room(collective)) return send(std::move(call));
  const TimePoint now = steady_clock().now();
  const Duration timeout = call.operation.timeout;
  const TimePoint deadline = timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
  waiting_[collective].push_back({std::move(call), deadline});
}

// From one collective after the other, each in its order.
void AttachedOperations::send_waiting() {
  for (std::size_t passed = 0; connection_ != nullptr && passed < waiting_.size();) {
    auto next = waiting_.upper_bound(last_sent_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_sent_ = next->first;
    if (!has_room(next->first)) {
      if (calls_.size() >= max_operations_) return;
      ++passed;
      continue;
    }
    passed = 0;
    Waiting waiting = std::move(next->second.front());
    next->second.pop_front();
    if (next->second.empty()) waiting_.erase(next);
    waiting.call.operation.timeout = std::max(Duration(0), waiting.deadline - steady_clock().now());
    send(std::move(waiting.call));
  }
}

void AttachedOperations::send(AttachedCall call) {
  const std::uint64_t number = next_number_();
  const MemberOperation& operation = call.operation;
  v1::GatewayPost message;
  message.set_collective(operation.collective.value());
  message.set_operation(operation.operation.value());
  message.set_rank(operation.rank.value());
  message.set_input_bytes(call.input.size());
  message.set_output_bytes(call.output.size());
  message.set_element_type(static_cast<std::uint32_t>(operation.reduction.type));
  message.set_reduce_op(static_cast<std::uint32_t>(operation.reduction.op));
  message.set_elements(static_cast<std::uint32_t>(operation.elements));
  message.set_group_size(operation.group_size);
  message.set_call(to_bits(operation.call));
  if (operation.call_root) message.set_call_root(operation.call_root->value() + 1);
  message.set_is_root(operation.is_root);
  message.set_timeout_nanoseconds(to_nanoseconds(operation.timeout));
  ++sent_[operation.collective];
  calls_.emplace(number, std::move(call));
  connection_->send(MessageType::kPost, number, body_of(message));
}

void AttachedOperations::cancel(CollectiveId collective, OperationId operation) {
  for (const auto& [number, call] : calls_) {
    if (call.operation.collective != collective || call.operation.operation != operation) continue;
    if (connection_ != nullptr && !call.outcome) connection_->send(MessageType::kCancel, number);
    return;
  }
  const auto waiting = waiting_.find(collective);
  if (waiting == waiting_.end()) return;
  const bool is_there = std::ranges::any_of(
      waiting->second, [&](const Waiting& one) { return one.call.operation.operation == operation; });
  if (is_there)
    refuse_waiting(collective,
                   cancelled(fmt::format("a member on node \"{}\" cancelled the operation", node_)));
}

void AttachedOperations::end_late() {
  const TimePoint now = steady_clock().now();
  std::vector<std::pair<CollectiveId, Status>> late;
  for (const auto& [collective, calls] : waiting_) {
    const auto first = std::ranges::find_if(calls, [&](const Waiting& one) { return one.deadline <= now; });
    if (first == calls.end()) continue;
    late.emplace_back(collective,
                      deadline_exceeded(fmt::format(
                          "rank {} timed out after {:.1f} s: the process has {} operations under way "
                          "at the gateway of node \"{}\", and this one waited for them",
                          first->call.operation.rank.value(), to_seconds(first->call.operation.timeout),
                          calls_.size(), node_)));
  }
  for (const auto& [collective, cause] : late) refuse_waiting(collective, cause);
}

void AttachedOperations::refuse_waiting(CollectiveId collective, const Status& cause) {
  const auto waiting = waiting_.extract(collective);
  if (!waiting) return;
  if (connection_ != nullptr) {
    v1::GatewayFail message;
    message.set_collective(collective.value());
    message.set_operation(waiting.mapped().front().call.operation.operation.value());
    put_status(cause, *message.mutable_cause());
    connection_->send(MessageType::kFail, 0, body_of(message));
  }
  for (const Waiting& one : waiting.mapped()) {
    if (one.call.operation.done) one.call.operation.done(cause);
  }
  on_ended_();
}

Result<ChunkTarget> AttachedOperations::place_chunk(const Header& header) {
  const auto found = calls_.find(header.number);
  if (found == calls_.end() || found->second.outcome) return ChunkTarget{};
  AttachedCall& call = found->second;
  if (header.offset_bytes != call.received_bytes ||
      header.body_bytes > call.output.size() - call.received_bytes) {
    return data_loss(fmt::format("the gateway sent {} bytes at {} of an operation of {}", header.body_bytes,
                                 header.offset_bytes, call.output.size()));
  }
  return ChunkTarget{nullptr, call.output.data() + header.offset_bytes};
}

void AttachedOperations::took_chunk(const Header& header) {
  const auto found = calls_.find(header.number);
  if (found != calls_.end()) found->second.received_bytes += header.body_bytes;
}

void AttachedOperations::admitted(std::uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.outcome || found->second.is_in_use) return;
  AttachedCall& call = found->second;
  if (is_shared_) return stage(number, call);
  if (call.input.empty()) return;
  call.is_in_use = true;
  connection_->stream(number, call.input, nullptr);
}

void AttachedOperations::stage(std::uint64_t number, AttachedCall& call) {
  call.is_in_use = true;
  const std::size_t reusable_bytes =
      std::max(call.output.size(), call.stays_on_node ? call.input.size() : std::size_t{0});
  if (reusable_bytes > 0) call.reusable = pool_.take(reusable_bytes);
  if (reusable_bytes == 0 || call.reusable.descriptor) return fill(number, call);
  const auto reusable = std::make_shared<MadeSegment>();
  const auto make = [reusable, reusable_bytes] {
    auto made = make_reusable_segment(reusable_bytes);
    reusable->made = made.status();
    if (made.is_ok()) reusable->segment = std::move(*made);
  };
  copier_.run(reusable_bytes, make, [this, number, reusable] {
    AttachedCall& waiting = calls_.at(number);
    waiting.reusable = std::move(reusable->segment);
    if (waiting.outcome || !reusable->made.is_ok()) return staged(number, reusable->made);
    fill(number, waiting);
  });
}

void AttachedOperations::fill(std::uint64_t number, AttachedCall& call) {
  if (call.stays_on_node) {
    return copier_.copy(call.input, call.reusable.mapping.data().data(), nullptr,
                        [this, number] { staged(number, Status::ok()); });
  }
  const auto sealed = std::make_shared<MadeSegment>();
  const auto seal = [sealed, input = call.input] {
    if (input.empty()) return;
    auto made = make_sealed_segment(input);
    sealed->made = made.status();
    if (made.is_ok()) sealed->segment = std::move(*made);
  };
  copier_.run(call.input.size(), seal, [this, number, sealed] {
    calls_.at(number).sealed = std::move(sealed->segment);
    staged(number, sealed->made);
  });
}

void AttachedOperations::staged(std::uint64_t number, const Status& made) {
  AttachedCall& call = calls_.at(number);
  call.is_in_use = false;
  if (call.outcome) return finish(number);
  if (!made.is_ok()) {
    connection_->send(MessageType::kCancel, number);  // the others need not wait
    call.outcome = made;
    return finish(number);
  }
  v1::GatewayStaged where;
  Descriptors descriptors;
  const auto describe = [&](const Segment& segment, v1::GatewaySegment& message) {
    message.set_nonce(segment.nonce);
    descriptors.push_back(segment.share());
  };
  if (!call.input.empty()) describe(call.stays_on_node ? call.reusable : call.sealed, *where.mutable_input());
  call.sealed = {};  // the gateway's from here on, and descriptors are few
  if (!call.output.empty()) describe(call.reusable, *where.mutable_output());
  if (!std::ranges::all_of(descriptors, [](const auto& one) { return static_cast<bool>(one); }))
    return staged(number,
                  resource_exhausted("the process may open no more files, and shares memory by them"));
  connection_->send(MessageType::kStaged, number, body_of(where), std::move(descriptors));
}

void AttachedOperations::ended(std::uint64_t number, Status outcome) {
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.outcome) return;
  AttachedCall& call = found->second;
  if (outcome.is_ok() && !call.output.empty() && is_shared_) {
    if (!call.reusable.descriptor) {
      outcome = data_loss(
          fmt::format("the gateway of node \"{}\" ended an operation that it had no memory for", node_));
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
                                    call.received_bytes, call.output.size(), node_));
  }
  call.outcome = std::move(outcome);
  if (call.is_in_use && !is_shared_) return connection_->drop_stream(number);  // streamed() finishes it
  finish_unless_in_use(number);
}

void AttachedOperations::streamed(std::uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  found->second.is_in_use = false;
  if (found->second.outcome) finish(number);
}

void AttachedOperations::finish_unless_in_use(std::uint64_t number) {
  if (!calls_.at(number).is_in_use) finish(number);
}

void AttachedOperations::finish(std::uint64_t number) {
  AttachedCall call = std::move(calls_.extract(number).mapped());
  const auto sent = sent_.find(call.operation.collective);
  if (--sent->second == 0) sent_.erase(sent);
  // A gateway that is gone may still be writing to it.
  if (connection_ != nullptr) pool_.give_back(std::move(call.reusable));
  if (call.operation.done) call.operation.done(*call.outcome);
  send_waiting();
  on_ended_();
}

void AttachedOperations::down(const Status& reason) {
  connection_ = nullptr;
  std::vector<std::uint64_t> numbers;
  for (auto& [number, call] : calls_) {
    if (!call.outcome) call.outcome = reason;
    if (!is_shared_) call.is_in_use = false;
    numbers.push_back(number);
  }
  while (!waiting_.empty()) refuse_waiting(waiting_.begin()->first, reason);
  for (const std::uint64_t number : numbers) finish_unless_in_use(number);
}

}  // namespace square::gateway
