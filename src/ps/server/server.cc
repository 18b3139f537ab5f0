#include "ps/server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace square::ps {

ServerState::ServerState(ServerIdentity identity, ShardHost& host, std::function<void(v1::PsReport)> send,
                         std::function<void(Status)> failed)
    : identity_(std::move(identity)), host_(host), send_(std::move(send)), failed_(std::move(failed)) {}

void ServerState::report(std::uint64_t line, v1::PsReport report) {
  if (is_attached_ && line == line_) send_(std::move(report));
}

void ServerState::on_attached() {
  ++line_;
  is_attached_ = true;
  is_greeted_ = false;
  serves_ = false;
  waiting_.clear();
  hello();
}

void ServerState::on_detached() {
  is_attached_ = false;
  serves_ = false;
  waiting_.clear();
  to_abort_.reset();
  give_up_move();
}

// What it says of its disk must be all that there will be: a version that is still being written may be
// there in a moment, and a master that took it for missing would let its pushes count twice.
void ServerState::hello() {
  if (!is_attached_ || is_greeted_ || making_ != 0 || is_opening_ || is_dropping_) return;
  is_greeted_ = true;
  v1::PsReport report;
  v1::PsHello& hello = *report.mutable_hello();
  put_versions(hello);
  hello.set_name(identity_.name);
  hello.set_node(identity_.node);
  hello.set_incarnation(identity_.incarnation);
  v1::PsServerHello& server = *hello.mutable_server();
  std::vector<v1::PsHeld> held = host_.held();
  if (held.size() > kMaxHeldVersions) held.erase(held.begin(), held.end() - kMaxHeldVersions);
  for (v1::PsHeld& one : held) *server.add_held() = std::move(one);
  *server.mutable_model() = host_.model();
  server.set_capacity_bps(identity_.capacity_bps);
  send_(std::move(report));
}

void ServerState::on_order(const v1::PsOrder& order) {
  if (order.has_refused()) {
    failed_(from_message(order.refused()));
  } else if (order.has_welcome()) {
    on_welcome(order.welcome());
  } else if (must_wait(order)) {
    if (waiting_.size() < kMaxWaitingOrders) waiting_.push_back(order);
  } else if (serves_) {
    carry_out(order);
  }
}

bool ServerState::must_wait(const v1::PsOrder& order) const {
  if (is_opening_ || !waiting_.empty()) return true;
  const bool is_of_round =
      order.has_average() || order.has_make() || order.has_move() || order.what_case() == v1::PsOrder::kAbort;
  return is_of_round && (is_dropping_ || to_abort_.has_value());
}

void ServerState::carry_out_waiting() {
  std::deque<v1::PsOrder> orders = std::exchange(waiting_, {});
  while (!orders.empty() && serves_) {
    if (must_wait(orders.front())) break;
    carry_out(orders.front());
    orders.pop_front();
  }
  // What the last of them made wait comes before what came meanwhile.
  orders.insert(orders.end(), waiting_.begin(), waiting_.end());
  waiting_ = std::move(orders);
}

void ServerState::on_welcome(const v1::PsWelcome& welcome) {
  const auto shard = std::ranges::find_if(
      welcome.layout().shards(), [&](const v1::PsShard& one) { return one.server() == identity_.name; });
  if (shard == welcome.layout().shards().end()) return;
  is_opening_ = true;
  serves_ = false;
  waiting_.clear();  // of a move that was given up since
  version_ = welcome.version();
  host_.open(welcome, *shard, [this, line = line_, opening = ++openings_](const Status& status) {
    if (opening != openings_) return;  // another one was begun meanwhile
    is_opening_ = false;
    if (line == line_ && is_attached_) {
      on_opened(status);
    } else {
      hello();  // to whom it has waited for this
    }
  });
}

void ServerState::on_opened(const Status& status) {
  if (!status.is_ok()) {
    failed_(data_loss(
        fmt::format("version {} of server \"{}\": {}", version_, identity_.name, status.message())));
    return;
  }
  serves_ = true;
  carry_out_waiting();
}

void ServerState::carry_out(const v1::PsOrder& order) {
  switch (order.what_case()) {
    case v1::PsOrder::kTakePush: return take_push(order.take_push());
    case v1::PsOrder::kDropPush: return host_.drop_push(order.drop_push());
    case v1::PsOrder::kAverage: return average(order.average());
    case v1::PsOrder::kMake: return make(order.make());
    case v1::PsOrder::kMove: return move(order.move());
    case v1::PsOrder::kCommit: version_ = order.commit(); return host_.commit(version_);
    case v1::PsOrder::kAbort: return abort(order.abort());
    case v1::PsOrder::kSendVersion: return send_version(order.send_version());
    case v1::PsOrder::kCancel: return host_.cancel(order.cancel());
    default: return;
  }
}

void ServerState::take_push(const v1::PsTransfer& transfer) {
  host_.take_push(transfer, [this, line = line_, ticket = transfer.ticket()](const Result<double>& norm) {
    v1::PsReport message;
    message.mutable_push_taken()->set_ticket(ticket);
    if (norm.is_ok()) {
      message.mutable_push_taken()->set_squared_norm(*norm);
    } else {
      *message.mutable_push_taken()->mutable_error() = to_message(norm.status());
    }
    report(line, std::move(message));
  });
}

// The worker says that it has it; where it cannot get it, it may not notice.
void ServerState::send_version(const v1::PsTransfer& transfer) {
  host_.send_version(transfer, [this, line = line_, ticket = transfer.ticket()](const Status& status) {
    if (status.is_ok()) return;
    v1::PsReport message;
    message.mutable_send_failed()->set_ticket(ticket);
    *message.mutable_send_failed()->mutable_error() = to_message(status);
    report(line, std::move(message));
  });
}

void ServerState::average(const v1::PsAverage& average) {
  host_.average(average, [this, line = line_, round = average.round()](const Result<double>& norm) {
    v1::PsReport message;
    message.mutable_averaged()->set_round(round);
    if (norm.is_ok()) {
      message.mutable_averaged()->set_squared_norm(*norm);
    } else {
      *message.mutable_averaged()->mutable_error() = to_message(norm.status());
    }
    report(line, std::move(message));
  });
}

std::function<void(Result<MadeVersion>)> ServerState::when_made(std::uint64_t round) {
  return [this, line = line_, round](const Result<MadeVersion>& made) {
    making_ = 0;
    takes_.clear();
    if (line == line_ && is_attached_) {
      on_made(round, made);
    } else {
      hello();
    }
  };
}

void ServerState::make(const v1::PsMake& make) {
  making_ = make.record().version();
  host_.make(make, when_made(make.round()));
}

void ServerState::move(const v1::PsMove& move) {
  making_ = move.record().version();
  for (const v1::PsTransfer& take : move.takes()) takes_.push_back(take.ticket());
  host_.move(move, when_made(move.round()));
}

void ServerState::give_up_move() {
  for (const std::uint64_t ticket : std::exchange(takes_, {})) host_.cancel(ticket);
}

void ServerState::on_made(std::uint64_t round, const Result<MadeVersion>& made) {
  if (const auto aborted = std::exchange(to_abort_, std::nullopt)) {
    drop_made(*aborted);
    return;
  }
  v1::PsReport message;
  message.mutable_made()->set_round(round);
  if (made.is_ok()) {
    message.mutable_made()->set_hash(made->hash);
    message.mutable_made()->set_update_seconds(made->update_seconds);
    message.mutable_made()->set_snapshot_seconds(made->snapshot_seconds);
  } else {
    *message.mutable_made()->mutable_error() = to_message(made.status());
  }
  send_(std::move(message));
}

void ServerState::abort(std::uint64_t round) {
  if (making_ != 0) {
    to_abort_ = round;
    give_up_move();
  } else {
    drop_made(round);
  }
}

void ServerState::drop_made(std::uint64_t round) {
  is_dropping_ = true;
  host_.drop_made([this, line = line_, round](const Status& status) {
    is_dropping_ = false;
    if (!status.is_ok()) {
      failed_(data_loss("a version that does not count cannot be removed: " + status.message()));
      return;
    }
    v1::PsReport message;
    message.mutable_dropped()->set_round(round);
    report(line, std::move(message));
    carry_out_waiting();
    hello();  // to whom it has waited for this
  });
}

}  // namespace square::ps
