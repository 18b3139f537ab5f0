#include "controller/node_control/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "controller/plan_signature.h"
#include "controller/protocol.h"
#include "trust/group_keys.h"

namespace square::controller {
namespace {

constexpr const char* kComponent = "controller client";

// Waking a controller may block for as long as it takes to copy this much: not on the strand.
constexpr std::size_t kWakeBytes = std::size_t{1} << 30U;

// Whether the controller itself has said no, rather than that there is none.
bool is_refusal(StatusCode code) {
  return code == StatusCode::kUnauthenticated || code == StatusCode::kPermissionDenied ||
         code == StatusCode::kFailedPrecondition || code == StatusCode::kNotFound ||
         code == StatusCode::kAlreadyExists || code == StatusCode::kInvalidArgument ||
         code == StatusCode::kResourceExhausted;
}

}  // namespace

ControlLine::ControlLine(Surroundings surroundings, NodeControlOptions options)
    : by_(std::move(surroundings)),
      options_(std::move(options)),
      candidates_(options_.node_name, options_.controllers, options_.successor) {}

void ControlLine::later(Duration wait, Executor::Task task) {
  by_.executor->post_at(by_.clock.now() + wait, std::move(task));
}

void ControlLine::start(std::function<void(Status)> settled) {
  settled_ = std::move(settled);
  away_since_ = by_.clock.now();
  const Duration patience = bounded(options_.connect_timeout);
  later(patience, [this, patience] {
    const std::string what = last_failure_.is_ok()
                                 ? fmt::format("nothing heard within {:.3g} s", to_seconds(patience))
                                 : last_failure_.message();
    settle(unavailable(fmt::format(
        "no controller answers at {}: {}; start one with `square controller`{}", controller(), what,
        options_.identity ? ", and with an identity" : ", or give an identity if it has one")));
  });
  dial();
}

void ControlLine::settle(const Status& outcome) {
  if (settled_) std::exchange(settled_, nullptr)(outcome);
}

void ControlLine::dial() {
  if (has_left_ || is_refused_ || connection_ != 0) return;
  if (const auto before = candidates_.to_be_followed()) return wake(*before);
  dial(candidates_.next(by_.clock.now()));
}

void ControlLine::wake(const std::vector<LostController>& before) {
  log(LogLevel::kWarning, {.component = kComponent, .node = options_.node_name},
      "node {}: the controller is gone, and this node's comes next: it wakes", options_.node_name);
  by_.executor->work(kWakeBytes, [this, before] {
    by_.executor->post([this, woken = options_.successor->wake(before)] {
      if (has_left_) return;
      const TimePoint now = by_.clock.now();
      if (woken.is_ok()) return dial(candidates_.dial_own(now));
      log(LogLevel::kError, kComponent, "{}", woken.to_string());
      dial(candidates_.next(now));
    });
  });
}

void ControlLine::dial(const std::string& address) {
  dialled_ = address;
  connection_ = ++last_connection_;
  by_.wire.dial(connection_, address);
  introduce();
  later(std::min(bounded(options_.connect_timeout), candidates_.patience()),
        [this, connection = connection_] {
          if (connection_ == connection && !is_welcome_ && !has_left_)
            over(cancelled("it has not said anything in time"));
        });
}

void ControlLine::introduce() {
  v1::NodeEvent event;
  v1::Hello& hello = *event.mutable_hello();
  put_versions(hello);
  hello.set_node(options_.node_name);
  hello.set_address(options_.node_address);
  hello.set_incarnation(options_.incarnation);
  if (options_.successor) {
    hello.set_successor(options_.successor->address);
    hello.set_standing(options_.successor->standing);
  }
  hello.set_key_share(told_share_ = key_share());
  if (auto past = by_.recollection.past()) *hello.mutable_past() = *std::move(past);
  parts_.emplace(options_.node_name);
  say(event);
}

void ControlLine::ended(ControlWire::Number connection, const Status& reason) {
  if (connection != connection_) return;
  over(reason.is_ok() ? unavailable("the controller ended the connection") : reason);
}

void ControlLine::over(const Status& reason) {
  by_.wire.close(std::exchange(connection_, 0));
  if (has_left_) return end_leaving();
  const TimePoint now = by_.clock.now();
  const bool is_lost = std::exchange(is_welcome_, false);
  activated_ = Epoch(0);
  last_failure_ = reason;
  if (is_lost) {
    ++losses_;
    away_since_ = now;
    wait_ = ControllerClient::kMinReconnectWait;
    note_stop(now);
    candidates_.lost(now, reason, resumed_at_ && now - *resumed_at_ < kProofTime);
    log(LogLevel::kWarning, {.component = kComponent, .node = options_.node_name},
        "node {}: lost the controller at {}: {}", options_.node_name, dialled_, reason.message());
    later(kLongestAbsence, by_.changed);
  } else {
    candidates_.failed(dialled_, reason, now);
    is_refused_ = !was_ever_welcome_ && is_refusal(reason.code());
  }
  if (is_lost) by_.node.lose_controller(reason);
  by_.changed();
  if (is_refused_) return settle(reason.with_context(controller_name()));
  if (candidates_.has_more()) return dial();
  later(wait_, [this] { dial(); });
  wait_ = std::min(2 * wait_, ControllerClient::kMaxReconnectWait);
}

bool ControlLine::is_given_up(TimePoint since) const {
  return !is_welcome_ && by_.clock.now() >= std::max(since, away_since_) + kLongestAbsence;
}

std::string ControlLine::controller_name() const {
  return controller().empty() ? "the controller in this process"
                              : fmt::format("controller at {}", controller());
}

Status ControlLine::absence() const {
  return unavailable(fmt::format("no controller answers at {}: {}", controller(), last_failure_.message()));
}

void ControlLine::leave(const FinishedOperations& finished, std::function<void()> left) {
  has_left_ = true;
  left_ = std::move(left);
  if (!std::exchange(is_welcome_, false)) return end_leaving();
  v1::NodeEvent goodbye;
  *goodbye.mutable_goodbye() = to_message(finished);
  say(goodbye);
  later(kGoodbyeWait, [this] { end_leaving(); });
}

void ControlLine::end_leaving() {
  if (connection_ != 0) by_.wire.close(std::exchange(connection_, 0));
  if (left_) std::exchange(left_, nullptr)();
}

void ControlLine::say(const v1::NodeEvent& event) { by_.wire.send(connection_, event); }

void ControlLine::heard(ControlWire::Number connection, const v1::ControllerEvent& event) {
  if (connection != connection_ || has_left_) return;
  if (const Status taken = handle(event); !taken.is_ok()) over(taken);
}

Status ControlLine::handle(const v1::ControllerEvent& event) {
  using Event = v1::ControllerEvent::EventCase;
  switch (event.event_case()) {
    case Event::kWelcome: return welcome(event.welcome());
    case Event::kAddress:
      candidates_.learn(event.address().peer(), event.address().standing(), event.address().successor());
      by_.recollection.note_address(event.address());
      believe(event.address());
      by_.node.set_address(event.address().peer(), event.address().address(), event.address().incarnation());
      break;
    case Event::kRevoked:
      if (options_.identity) options_.identity->set_revoked(from_message(event.revoked()));
      by_.node.recheck_peers();
      break;
    case Event::kPlan:
      if (expects_signed_plans(options_.identity))
        return unauthenticated("a plan came that no controller has signed");
      return handle_plan(event.plan());
    case Event::kSignedPlan: return handle_signed(event.signed_plan());
    case Event::kActivate:
      activated_ = Epoch(event.activate().epoch());
      by_.node.activate_plan(activated_, event.activate().moves());
      by_.changed();
      break;
    case Event::kGone:
      // Of one that may live the next controller must know, too, and its own may lead elsewhere.
      if (event.gone().may_live()) {
        candidates_.doubt(event.gone().peer());
        by_.recollection.note_silent(event.gone().peer());
      } else {
        candidates_.forget(event.gone().peer());
        by_.recollection.forget_address(event.gone().peer());
      }
      by_.node.set_gone(event.gone().peer(), event.gone().reason(), from_message(event.gone()));
      break;
    case Event::kClosed:
      closing_.erase({event.closed().group(), event.closed().number()});
      by_.changed();
      break;
    case Event::kUnplanned:
      by_.node.set_unplanned(from_message(event.unplanned()), event.unplanned().reason());
      break;
    case Event::kGiven: by_.recollection.note_given(event.given()); break;
    case Event::kExamine: examine(event.examine()); break;
    case Event::kLook: by_.node.look_for(event.look().peer()); break;
    case Event::EVENT_NOT_SET:  // of a later release
      log_seldom(unknown_, dialled_, {.component = kComponent, .node = options_.node_name},
                 "node {}: the controller at {} says what this release does not know", options_.node_name,
                 dialled_);
      break;
  }
  return {};
}

void ControlLine::believe(const v1::Address& address) {
  if (!options_.identity || options_.identity->name() || address.fingerprint().empty()) return;
  const Status believed = options_.identity->believe({address.fingerprint()});
  if (!believed.is_ok())
    log(LogLevel::kWarning, "controller", "a node will be refused: {}", believed.message());
}

Status ControlLine::handle_signed(const v1::SignedPlan& plan) {
  if (!expects_signed_plans(options_.identity))
    return failed_precondition("the controller has an authority, and this node has no identity of it");
  SQUARE_ASSIGN_OR_RETURN(const v1::PlanPart part, open_plan(plan, options_.node_name, *options_.identity));
  return handle_plan(part);
}

Status ControlLine::handle_plan(const v1::PlanPart& part) {
  if (parts_->lacks_base(part)) {
    log(LogLevel::kWarning, {.component = kComponent, .node = options_.node_name},
        "node {}: plan {} was told against plan {}, which is not here: asks for all of it",
        options_.node_name, part.epoch(), part.base_epoch());
    v1::NodeEvent lacking;
    lacking.mutable_lacking()->set_epoch(part.epoch());
    say(lacking);
    return {};
  }
  auto plan = parts_->read(part);
  if (!plan.is_ok()) return plan.status().with_context(fmt::format("plan {}", part.epoch()));
  SQUARE_RETURN_IF_ERROR(by_.recollection.note_plan(*plan));
  received_ = (*plan)->epoch;
  say_installed(received_, true);
  by_.node.install_plan(*plan, [this, later = say_later()](Epoch epoch) {
    later([this, epoch] { say_installed(epoch, false); });
  });
  return {};
}

// For the node's threads, which may be late: the line may be gone, and any later connection has plans and
// questions of its own.
std::function<void(Executor::Task)> ControlLine::say_later() {
  return [this, strand = std::weak_ptr(by_.executor), connection = connection_](Executor::Task say) {
    const auto executor = strand.lock();
    if (!executor) return;
    executor->post([this, connection, say = std::move(say)] {
      if (connection_ == connection) say();
    });
  };
}

void ControlLine::say_installed(Epoch epoch, bool is_moving) {
  if (is_moving && version_ < kMovingSince) return;
  v1::NodeEvent event;
  event.mutable_installed()->set_epoch(epoch.value());
  event.mutable_installed()->set_moving(is_moving);
  say(event);
}

void ControlLine::examine(const v1::Inquiry& inquiry) {
  ExamineQuestion question;
  for (const v1::Address& peer : inquiry.peers()) question.peers.push_back({peer.peer(), peer.address()});
  question.time = bounded(Duration(static_cast<std::int64_t>(inquiry.time_nanoseconds())));
  v1::NodeEvent event;
  event.mutable_examined()->set_inquiry(inquiry.number());
  event.mutable_examined()->set_received_nanoseconds(wall_nanoseconds());
  by_.node.examine(question, [this, later = say_later(), event](std::string report) mutable {
    event.mutable_examined()->set_answered_nanoseconds(wall_nanoseconds());
    event.mutable_examined()->set_report_json(std::move(report));
    later([this, answer = std::move(event)] { say(answer); });
  });
}

Status ControlLine::welcome(const v1::Welcome& message) {
  if (is_welcome_) return {};
  version_ = version_of(message);
  if (const ProtocolVersions own = control_versions(); !own.contains(version_)) {
    return failed_precondition(
        fmt::format("it speaks control protocol {}, which node \"{}\" did not offer: {}", version_,
                    options_.node_name, to_string(own)));
  }
  const auto lease = static_cast<std::int64_t>(
      std::min<std::uint64_t>(message.lease_nanoseconds(), static_cast<std::uint64_t>(kMaxWait.count())));
  heartbeat_ =
      std::clamp(Duration(lease) / kHeartbeatsPerLease, Duration(std::chrono::milliseconds(1)), kLongestBeat);
  is_welcome_ = was_ever_welcome_ = true;
  candidates_.welcomed(dialled_);
  by_.node.set_controller(dialled_);
  if (!is_planted(Bug::kCloseSaidOnce)) {
    for (const auto& [group, number] : closing_) say_closed(group, number);
  }
  say_broken_links();
  beat_at_ = by_.clock.now();
  beat(connection_);
  by_.changed();
  settle({});
  return {};
}

void ControlLine::beat(ControlWire::Number connection) {
  if (connection_ != connection || has_left_) return;
  const TimePoint now = by_.clock.now();
  note_stop(now);
  beat_at_ = now;
  if (by_.wire.waiting(connection) < kMostWaiting) {
    v1::NodeEvent event;
    *event.mutable_heartbeat() = to_message(by_.node.report(), now);
    if (const std::string share = key_share(); !share.empty() && share != told_share_)
      event.mutable_heartbeat()->set_key_share(told_share_ = share);
    say(event);
  }
  later(heartbeat_, [this, connection] { beat(connection); });
}

void ControlLine::note_stop(TimePoint now) {
  if (now - beat_at_ > heartbeat_ + kProofTime / 2) resumed_at_ = now;
}

// What others seal keys with for this node. Empty where there is none, or the identity's files cannot be
// read: then others go on with what they know.
std::string ControlLine::key_share() const {
  if (!options_.group_keys) return {};
  const auto share = options_.group_keys->share();
  if (share.is_ok()) return *share;
  log(LogLevel::kWarning, {.component = kComponent, .node = options_.node_name},
      "node {}: what others seal keys with for it stays as it was: {}", options_.node_name,
      share.status().message());
  return {};
}

void ControlLine::close_group(const std::string& group, std::uint64_t number) {
  closing_.emplace(group, number);
  if (is_welcome_) say_closed(group, number);
}

void ControlLine::say_closed(const std::string& group, std::uint64_t number) {
  v1::NodeEvent event;
  event.mutable_closed()->set_group(group);
  event.mutable_closed()->set_number(number);
  say(event);
}

bool ControlLine::has_told_closed(const std::string& group) const {
  const auto next = closing_.lower_bound({group, 0});
  return next == closing_.end() || next->first != group;
}

void ControlLine::report_broken_links(LinkTroubles troubles) {
  broken_links_ = std::move(troubles);
  say_broken_links();
}

void ControlLine::say_broken_links() {
  if (!is_welcome_ || !broken_links_) return;
  v1::NodeEvent event;
  *event.mutable_broken_links() = to_message(*broken_links_, by_.clock.now());
  say(event);
}

void ControlLine::report_sights(const std::vector<BlockSight>& sights) {
  if (!is_welcome_ || by_.wire.waiting(connection_) >= kMostWaiting) return;
  v1::NodeEvent event;
  *event.mutable_sights() = to_message(sights);
  say(event);
}

}  // namespace square::controller
