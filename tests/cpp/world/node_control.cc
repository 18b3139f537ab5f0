#include "world/node_control.h"

#include <algorithm>

#include "base/planted.h"
#include "controller/protocol.h"

namespace square::test {
namespace {

// As in controller_client.cc.
constexpr Duration kKeepaliveTime = std::chrono::seconds(2);
constexpr Duration kKeepaliveTimeout = std::chrono::seconds(3);
constexpr Duration kConnectTime = std::chrono::seconds(5);
constexpr Duration kRetryPause = std::chrono::milliseconds(50);
constexpr Duration kMinBusyWait = std::chrono::milliseconds(2);
constexpr Duration kMaxBusyWait = std::chrono::milliseconds(50);

}  // namespace

NodeControl::NodeControl(ControlNetwork& network, ControllerProcess& controller, const Clock& clock,
                         Executor& executor, Identity identity, ControllerEvents events)
    : network_(network),
      controller_(controller),
      clock_(clock),
      executor_(executor),
      identity_(std::move(identity)),
      events_(std::move(events)),
      recollection_(identity_.node) {
  executor_.post([this] { dial(); });
}

void NodeControl::later(Duration wait, Executor::Task task) {
  executor_.post_at(clock_.now() + wait, std::move(task));
}

// A handshake, and what is to be said first.
void NodeControl::dial() {
  if (has_left_) return;
  const std::uint64_t connection = connection_ = network_.open();
  later(kConnectTime, [this, connection] {
    if (connection_ == connection && !is_welcome_) lost(unavailable("no answer"));
  });
  if (!network_.is_there(kControllerHost) && !network_.is_blocked(identity_.node, kControllerHost)) {
    return later(std::chrono::milliseconds(10), [this, connection] {
      if (connection_ == connection) lost(unavailable("connection refused"));
    });
  }
  ControllerProcess::Connection ends;
  ends.node = identity_.node;
  ends.number = connection;
  // Another process may have the name when something arrives.
  ends.on_event = [this, alive = std::weak_ptr(alive_), connection](const v1::ControllerEvent& event) {
    if (alive.lock() && connection_ == connection) hear(event);
  };
  ends.on_end = [this, alive = std::weak_ptr(alive_), connection](const Status& reason) {
    if (alive.lock() && connection_ == connection) lost(reason);
  };
  ends.on_answer = [this, alive = std::weak_ptr(alive_)](std::uint64_t call,
                                                         const Result<controller::Answer>& answer) {
    if (alive.lock()) answered(call, answer);
  };
  const auto up = [this, alive = std::weak_ptr(alive_), connection] {
    if (alive.lock()) connected(connection);
  };
  network_.carry(connection, identity_.node, kControllerHost,
                 [&network = network_, &controller = controller_, ends, up] {
                   controller.accept(ends);
                   network.carry(ends.number, kControllerHost, ends.node, up);
                 });
}

void NodeControl::connected(std::uint64_t connection) {
  if (connection_ != connection) return;
  v1::NodeEvent event;
  v1::Hello& hello = *event.mutable_hello();
  hello.set_protocol_version(controller::kControlProtocolVersion);
  hello.set_node(identity_.node);
  hello.set_address(identity_.address);
  hello.set_incarnation(identity_.incarnation);
  auto past = recollection_.past();
  if (past && !is_planted(Bug::kPastUntold)) *hello.mutable_past() = *std::move(past);
  say(event);
  pings_ = pongs_ = 0;
  ping(connection);
}

// Keepalive: who does not answer for long is gone.
void NodeControl::ping(std::uint64_t connection) {
  if (connection_ != connection) return;
  const std::uint64_t number = ++pings_;
  const std::uint64_t channel = network_.open();
  const auto pong = [this, alive = std::weak_ptr(alive_), connection, number] {
    if (alive.lock() && connection_ == connection) pongs_ = std::max(pongs_, number);
  };
  // The process that is there now may know nothing of the connection.
  const auto reset = [this, alive = std::weak_ptr(alive_), connection] {
    if (alive.lock() && connection_ == connection) lost(unavailable("connection reset by peer"));
  };
  network_.carry(channel, identity_.node, kControllerHost,
                 [&network = network_, &controller = controller_, connection, channel, node = identity_.node,
                  pong, reset] {
                   if (controller.has(connection)) return network.carry(channel, kControllerHost, node, pong);
                   network.carry(channel, kControllerHost, node, reset);
                 });
  later(kKeepaliveTimeout, [this, connection, number] {
    if (connection_ == connection && pongs_ < number) lost(unavailable("keepalive timeout"));
  });
  later(kKeepaliveTime, [this, connection] { ping(connection); });
}

void NodeControl::break_line() {
  if (connection_ != 0) lost(unavailable("the connection broke"));
}

void NodeControl::reset() {
  if (connection_ != 0) tell_of_end(std::exchange(connection_, 0));
}

void NodeControl::tell_of_end(std::uint64_t connection) {
  network_.carry(connection, identity_.node, kControllerHost,
                 [&controller = controller_, connection] { controller.lose(connection); });
}

void NodeControl::lost(Status reason) {
  tell_of_end(std::exchange(connection_, 0));
  const bool was_welcome = std::exchange(is_welcome_, false);
  activated_ = Epoch(0);
  if (was_welcome) {
    ++losses_;
    wait_ = ControllerClient::kMinReconnectWait;
    if (events_.on_lost) events_.on_lost(reason);
  }
  for (const RegisteringPtr& asked : std::vector(registering_)) {
    if (asked->call == 0 && !asked->made) continue;
    asked->call = 0;
    asked->made.reset();
    try_again_or_end(asked, unavailable("the connection to the controller broke"));
  }
  later(wait_, [this] {
    if (connection_ == 0) dial();
  });
  wait_ = std::min(2 * wait_, ControllerClient::kMaxReconnectWait);
}

void NodeControl::say(const v1::NodeEvent& event) {
  if (connection_ == 0) return;
  network_.carry(
      connection_, identity_.node, kControllerHost,
      [&controller = controller_, connection = connection_, event] { controller.hear(connection, event); });
}

void NodeControl::hear(const v1::ControllerEvent& event) {
  using Event = v1::ControllerEvent::EventCase;
  switch (event.event_case()) {
    case Event::kWelcome: return welcome(event.welcome());
    case Event::kAddress:
      recollection_.note_address(event.address());
      return events_.on_address(event.address().peer(), event.address().address(),
                                event.address().incarnation());
    case Event::kPlan: return install(event.plan());
    case Event::kActivate:
      activated_ = Epoch(event.activate().epoch());
      events_.on_activate(activated_, event.activate().moves());
      return look_at_registrations();
    case Event::kGone:
      recollection_.forget_address(event.gone().peer());
      return events_.on_gone(event.gone().peer(), event.gone().reason(),
                             controller::from_message(event.gone()));
    case Event::kClosed:
      closing_.erase({event.closed().group(), event.closed().number()});
      return look_at_registrations();
    case Event::kUnplanned:
      return events_.on_unplanned(controller::from_message(event.unplanned()), event.unplanned().reason());
    case Event::kLook: return events_.on_look(event.look().peer());
    case Event::kRevoked:  // nobody has a certificate in the simulation, nor asks
    case Event::kExamine:
    case Event::kSignedPlan:
    case Event::EVENT_NOT_SET: break;
  }
}

void NodeControl::install(const v1::PlanPart& part) {
  if (parts_->lacks_base(part)) {
    v1::NodeEvent lacking;
    lacking.mutable_lacking()->set_epoch(part.epoch());
    return say(lacking);
  }
  const auto plan = parts_->read(part);
  if (!plan.is_ok()) return lost(plan.status());
  if (const Status noted = recollection_.note_plan(*plan); !noted.is_ok()) return lost(noted);
  events_.on_plan(*plan, [this, connection = connection_](Epoch epoch) {
    if (connection_ != connection) return;
    v1::NodeEvent event;
    event.mutable_installed()->set_epoch(epoch.value());
    say(event);
  });
}

void NodeControl::welcome(const v1::Welcome& message) {
  heartbeat_ = std::min(
      Duration(static_cast<std::int64_t>(message.lease_nanoseconds())) / controller::kHeartbeatsPerLease,
      controller::kLongestBeat);
  is_welcome_ = true;
  parts_.emplace(identity_.node);
  if (!is_planted(Bug::kCloseSaidOnce)) {
    for (const auto& [group, number] : closing_) say_closed(group, number);
  }
  say_broken_links();
  beat(connection_);
  look_at_registrations();
}

void NodeControl::beat(std::uint64_t connection) {
  if (connection_ != connection) return;
  v1::NodeEvent event;
  v1::Heartbeat& heartbeat = *event.mutable_heartbeat();
  for (const std::string& peer : events_.heard()) heartbeat.add_heard(peer);
  for (const LinkReport& report : events_.measured())
    *heartbeat.add_links() = controller::to_message(report, clock_.now());
  for (const auto& [collective, bytes] : std::exchange(used_, {})) {
    v1::CollectiveUse& use = *heartbeat.add_used();
    use.set_collective(collective.value());
    use.set_bytes(bytes);
  }
  say(event);
  later(heartbeat_, [this, connection] { beat(connection); });
}

void NodeControl::leave(const FinishedOperations& finished) {
  v1::NodeEvent event;
  *event.mutable_goodbye() = controller::to_message(finished);
  if (is_welcome_) say(event);
  has_left_ = true;
  connection_ = 0;
}

void NodeControl::say_closed(const std::string& group, std::uint64_t number) {
  v1::NodeEvent event;
  event.mutable_closed()->set_group(group);
  event.mutable_closed()->set_number(number);
  say(event);
}

void NodeControl::report_broken_links(LinkTroubles troubles) {
  broken_links_ = std::move(troubles);
  say_broken_links();
}

void NodeControl::say_broken_links() {
  if (!is_welcome_ || !broken_links_) return;
  v1::NodeEvent event;
  *event.mutable_broken_links() = controller::to_message(*broken_links_, clock_.now());
  say(event);
}

void NodeControl::close_group(const std::string& group, std::uint64_t number) {
  recollection_.forget_group(group, number);
  closing_.emplace(group, number);
  if (is_welcome_) say_closed(group, number);
}

bool NodeControl::has_heard_of_all_closed(const std::string& group) const {
  const auto next = closing_.lower_bound({group, 0});
  return next == closing_.end() || next->first != group;
}

void NodeControl::register_group(GroupSpec group, Duration timeout, Registered done) {
  const auto asked = std::make_shared<Registering>();
  asked->group = std::move(group);
  asked->group.registrant = identity_.node;
  asked->group.closed_number = recollection_.closed_number(asked->group.name);
  asked->end = clock_.now() + timeout;
  asked->done = std::move(done);
  asked->pause = kMinBusyWait;
  registering_.push_back(asked);
  recollection_.begin_registering(asked->group.name);
  executor_.post_at(asked->end, [this, asked] {
    end(asked,
        deadline_exceeded("group \"" + asked->group.name + "\" was not planned and installed in time"));
  });
  ask(asked);
}

// As soon as the controller is there, and has heard of what was closed before.
void NodeControl::ask(const RegisteringPtr& asked) {
  if (!asked->done || asked->call != 0 || asked->made) return;
  if (!is_welcome_ || !has_heard_of_all_closed(asked->group.name)) return;
  asked->call = network_.open();
  asked->losses = losses_;
  network_.carry(
      asked->call, identity_.node, kControllerHost,
      [&controller = controller_, connection = connection_, call = asked->call,
       request = controller::to_message(asked->group)] { controller.call(connection, call, request); });
}

void NodeControl::answered(std::uint64_t call, const Result<controller::Answer>& answer) {
  const auto found =
      std::ranges::find_if(registering_, [&](const RegisteringPtr& asked) { return asked->call == call; });
  if (found == registering_.end()) return;
  const RegisteringPtr asked = *found;
  asked->call = 0;
  if (!answer.is_ok()) return try_again_or_end(asked, answer.status());
  asked->made = GroupRegistration{answer->collectives, answer->epoch, answer->group};
  look_at_registrations();
}

void NodeControl::try_again_or_end(const RegisteringPtr& asked, const Status& failure) {
  const StatusCode code = is_planted(Bug::kRegistrationNotRepeated) ? StatusCode::kInternal : failure.code();
  if (code == StatusCode::kAborted) {
    ask_again(asked, asked->pause);
    asked->pause = std::min(2 * asked->pause, kMaxBusyWait);
  } else if (code == StatusCode::kUnavailable || code == StatusCode::kCancelled) {
    ask_again(asked, kRetryPause);
  } else {
    end(asked, failure);
  }
}

void NodeControl::ask_again(const RegisteringPtr& asked, Duration pause) {
  later(pause, [this, asked] { ask(asked); });
}

void NodeControl::look_at_registrations() {
  for (const RegisteringPtr& asked : std::vector(registering_)) {
    // The answer and the activation may come in any order.
    if (asked->made && asked->made->epoch <= activated_) {
      recollection_.note_group(asked->group, *asked->made);
      end(asked, *asked->made);
    } else {
      ask(asked);
    }
  }
}

void NodeControl::end(const RegisteringPtr& asked, Result<GroupRegistration> result) {
  if (!asked->done) return;
  std::erase(registering_, asked);
  recollection_.end_registering(asked->group.name);
  std::exchange(asked->done, nullptr)(std::move(result));
}

}  // namespace square::test
