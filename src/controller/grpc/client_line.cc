#include "controller/grpc/client_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "controller/grpc/status.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

constexpr const char* kComponent = "controller client";
// With so many events waiting what was seen of blocks is not told.
constexpr std::size_t kMostWaitingSights = 64;

std::uint64_t draw_incarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

v1::NodeEvent installed_event(Epoch epoch) {
  v1::NodeEvent event;
  event.mutable_installed()->set_epoch(epoch.value());
  return event;
}

v1::NodeEvent lacking_event(Epoch epoch) {
  v1::NodeEvent event;
  event.mutable_lacking()->set_epoch(epoch.value());
  return event;
}

v1::NodeEvent closed_event(const std::string& group, std::uint64_t number) {
  v1::NodeEvent event;
  event.mutable_closed()->set_group(group);
  event.mutable_closed()->set_number(number);
  return event;
}

template <typename Function, typename... Arguments>
void call_if(const Function& function, Arguments&&... arguments) {
  if (function) function(std::forward<Arguments>(arguments)...);
}

v1::NodeEvent broken_links_event(const LinkTroubles& troubles) {
  v1::NodeEvent event;
  *event.mutable_broken_links() = to_message(troubles, steady_clock().now());
  return event;
}

// Whether the controller itself has said no, rather than that there is none.
bool is_refusal(StatusCode code) {
  return code == StatusCode::kUnauthenticated || code == StatusCode::kPermissionDenied ||
         code == StatusCode::kFailedPrecondition || code == StatusCode::kNotFound ||
         code == StatusCode::kAlreadyExists || code == StatusCode::kInvalidArgument ||
         code == StatusCode::kResourceExhausted;
}

}  // namespace

// One at a time; a sync stream takes one reader and one writer.
struct ClientLine::Connection {
  std::string address;
  grpc::ClientContext context;
  std::mutex write_mutex;
  bool over = false;  // under write_mutex
  std::unique_ptr<grpc::ClientReaderWriter<v1::NodeEvent, v1::ControllerEvent>> stream;
};

struct ClientLine::Outbox {
  struct Entry {
    v1::NodeEvent event;
    std::uint64_t connection;  // dropped on any later one, which has its own installations
  };
  std::mutex mutex;
  std::condition_variable condition;
  std::deque<Entry> entries;
  bool wake = false;

  void push(v1::NodeEvent event, std::uint64_t connection) {
    const std::lock_guard lock(mutex);
    entries.push_back({std::move(event), connection});
    condition.notify_all();
  }
  // For what may be lost.
  [[nodiscard]] bool has_room() {
    const std::lock_guard lock(mutex);
    return entries.size() < kMostWaitingSights;
  }
  void wake_up() {
    const std::lock_guard lock(mutex);
    wake = true;
    condition.notify_all();
  }
};

ClientLine::ClientLine(ControllerClientOptions options, std::vector<std::string> controllers,
                       ControllerEvents events, Dial dial, Recollection& recollection)
    : options_(std::move(options)),
      events_(std::move(events)),
      dial_(std::move(dial)),
      recollection_(recollection),
      beats_(options_.node_name, events_, options_.group_keys),
      candidates_(options_.node_name, std::move(controllers), options_.successor),
      incarnation_(draw_incarnation()),
      outbox_(std::make_shared<Outbox>()),
      reader_([this] { read_loop(); }),
      writer_([this] { write_loop(); }) {}

ClientLine::~ClientLine() { stop({}); }

void ClientLine::stop(const FinishedOperations& finished) {
  ConnectionPtr connection;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (welcomed_) {
      v1::NodeEvent goodbye;
      *goodbye.mutable_goodbye() = to_message(finished);
      outbox_->push(std::move(goodbye), connections_);
      changed_.wait_for(lock, kGoodbyeWait, [this] { return connection_ == nullptr; });
    }
    connection = connection_;
  }
  if (connection) connection->context.TryCancel();
  outbox_->wake_up();
  if (reader_.joinable()) reader_.join();
  outbox_->wake_up();
  if (writer_.joinable()) writer_.join();
}

Status ClientLine::wait_for_welcome() {
  std::unique_lock lock(mutex_);
  const auto settled = [this] { return ever_welcomed_ || refused_; };
  changed_.wait_for(lock, bounded(options_.connect_timeout), settled);
  if (ever_welcomed_) return {};
  const std::string address = candidates_.current();
  if (refused_) return last_failure_.with_context(fmt::format("controller at {}", address));
  return unavailable(
      fmt::format("no controller answers at {}: {}; start one with `square controller`{}", address,
                  last_failure_.is_ok()
                      ? fmt::format("nothing heard within {:.3g} s", to_seconds(options_.connect_timeout))
                      : last_failure_.message(),
                  options_.identity ? ", and with an identity" : ", or give an identity if it has one"));
}

Status ClientLine::wait_for_line(Clock::time_point end) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, std::min(end, Clock::now() + kLongestAbsence),
                      [this] { return welcomed_ || stopping_; });
  if (stopping_) return cancelled("the node leaves the overlay");
  if (welcomed_) return {};
  return unavailable(
      fmt::format("no controller answers at {}: {}", candidates_.current(), last_failure_.message()));
}

ClientLine::StubPtr ClientLine::stub() const {
  const std::lock_guard lock(mutex_);
  return stub_;
}

std::uint64_t ClientLine::losses() const {
  const std::lock_guard lock(mutex_);
  return losses_;
}

Status ClientLine::wait_for_activation(Epoch epoch, std::uint64_t losses, Clock::time_point end) {
  std::unique_lock lock(mutex_);
  while (activated_ < epoch) {
    if (stopping_) return cancelled("the node leaves the overlay");
    if (losses_ != losses) {
      return unavailable(
          fmt::format("the connection to the controller at {} broke before plan {} was active here; "
                      "register the group again",
                      options_.controller_address, epoch.value()));
    }
    if (changed_.wait_until(lock, end) == std::cv_status::timeout && activated_ < epoch) {
      return deadline_exceeded(
          fmt::format("plan {} is not active on node {} in time", epoch.value(), options_.node_name));
    }
  }
  return {};
}

void ClientLine::close_group(const std::string& group, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  closing_.emplace(group, number);
  if (welcomed_) outbox_->push(closed_event(group, number), connections_);
}

Status ClientLine::wait_until_closed(const std::string& group, Clock::time_point end) {
  std::unique_lock lock(mutex_);
  const auto is_heard = [&] {
    const auto next = closing_.lower_bound({group, 0});
    return next == closing_.end() || next->first != group;
  };
  changed_.wait_until(lock, end, [&] { return stopping_ || is_heard(); });
  if (stopping_) return cancelled("the node leaves the overlay");
  if (is_heard()) return {};
  return deadline_exceeded(
      fmt::format("the controller at {} has not heard in time that group \"{}\" was closed",
                  options_.controller_address, group));
}

void ClientLine::read_loop() {
  Duration wait = ControllerClient::kMinReconnectWait;
  for (;;) {
    const std::string address = candidates_.next(steady_clock().now());
    const Status reason = serve_connection(address);
    bool lost = false;
    {
      const std::lock_guard lock(mutex_);
      connection_ = nullptr;
      lost = std::exchange(welcomed_, false);
      activated_ = Epoch(0);
      last_failure_ = reason;
      if (lost) ++losses_;
      refused_ = !ever_welcomed_ && is_refusal(reason.code());
      changed_.notify_all();
      if (stopping_ || refused_) return;
    }
    lost ? candidates_.lost(steady_clock().now()) : candidates_.failed(address, reason, steady_clock().now());
    if (lost) {
      wait = ControllerClient::kMinReconnectWait;
      log(LogLevel::kWarning, {.component = kComponent, .node = options_.node_name},
          "node {}: lost the controller at {}: {}", options_.node_name, address, reason.message());
      if (events_.on_lost) events_.on_lost(reason);
    }
    if (candidates_.has_more()) continue;
    if (!pause(wait)) return;
    wait = std::min(2 * wait, ControllerClient::kMaxReconnectWait);
  }
}

bool ClientLine::pause(Duration wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return stopping_; });
  return !stopping_;
}

// Returns when the connection is over, with the reason.
Status ClientLine::serve_connection(const std::string& address) {
  const auto connection = std::make_shared<Connection>();
  connection->address = address;
  const StubPtr stub = dial_(address);
  if (options_.successor) connection->context.AddMetadata(kNodeKey, options_.node_name);
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return cancelled("the node leaves the overlay");
    connection_ = connection;
    stub_ = stub;
    number = ++connections_;
    welcome_end_ = Clock::now() + std::min(bounded(options_.connect_timeout), candidates_.patience());
  }
  outbox_->wake_up();
  {
    const std::lock_guard lock(connection->write_mutex);
    connection->stream = stub->Attach(&connection->context);
  }
  v1::NodeEvent hello;
  hello.mutable_hello()->set_protocol_version(kControlProtocolVersion);
  hello.mutable_hello()->set_node(options_.node_name);
  hello.mutable_hello()->set_address(options_.node_address);
  hello.mutable_hello()->set_incarnation(incarnation_);
  if (options_.successor) {
    hello.mutable_hello()->set_successor(options_.successor->address);
    hello.mutable_hello()->set_standing(options_.successor->standing);
  }
  beats_.introduce(*hello.mutable_hello());
  if (auto past = recollection_.past()) *hello.mutable_hello()->mutable_past() = *std::move(past);
  write(connection, hello);

  parts_.emplace(options_.node_name);
  Status reason;
  for (v1::ControllerEvent event; reason.is_ok() && connection->stream->Read(&event);) {
    reason = handle(event, number);
  }
  if (!reason.is_ok()) connection->context.TryCancel();
  {
    const std::lock_guard lock(connection->write_mutex);
    connection->over = true;
  }
  const Status ended = from_grpc(connection->stream->Finish());
  if (!reason.is_ok()) return reason;
  return ended.is_ok() ? unavailable("the controller ended the connection") : ended;
}

void ClientLine::believe(const std::string& fingerprint) {
  if (!options_.identity || options_.identity->name() || fingerprint.empty()) return;
  const Status believed = options_.identity->believe({fingerprint});
  if (!believed.is_ok())
    log(LogLevel::kWarning, "controller", "a node will be refused: {}", believed.message());
}

Status ClientLine::handle(const v1::ControllerEvent& event, std::uint64_t connection) {
  using Event = v1::ControllerEvent::EventCase;
  switch (event.event_case()) {
    case Event::kWelcome: welcome(event.welcome()); break;
    case Event::kAddress:
      candidates_.learn(event.address().peer(), event.address().standing(), event.address().successor());
      recollection_.note_address(event.address());
      believe(event.address().fingerprint());
      call_if(events_.on_address, event.address().peer(), event.address().address(),
              event.address().incarnation());
      break;
    case Event::kRevoked:
      if (options_.identity) options_.identity->set_revoked(from_message(event.revoked()));
      if (events_.on_revoked) events_.on_revoked();
      break;
    case Event::kPlan:
      if (expects_signed_plans(options_.identity))
        return unauthenticated("a plan came that no controller has signed");
      return handle_plan(event.plan(), connection);
    case Event::kSignedPlan: return handle_signed(event.signed_plan(), connection);
    case Event::kActivate: {
      const Epoch epoch(event.activate().epoch());
      if (events_.on_activate) events_.on_activate(epoch, event.activate().moves());
      const std::lock_guard lock(mutex_);
      activated_ = epoch;
      changed_.notify_all();
      break;
    }
    case Event::kGone:
      candidates_.forget(event.gone().peer());
      recollection_.forget_address(event.gone().peer());
      call_if(events_.on_gone, event.gone().peer(), event.gone().reason(), from_message(event.gone()));
      break;
    case Event::kClosed: {
      const std::lock_guard lock(mutex_);
      closing_.erase({event.closed().group(), event.closed().number()});
      changed_.notify_all();
      break;
    }
    case Event::kUnplanned:
      call_if(events_.on_unplanned, from_message(event.unplanned()), event.unplanned().reason());
      break;
    case Event::kExamine: examine(event.examine(), connection); break;
    case Event::kLook: call_if(events_.on_look, event.look().peer()); break;
    case Event::EVENT_NOT_SET: break;  // of a later release
  }
  return {};
}

Status ClientLine::handle_signed(const v1::SignedPlan& plan, std::uint64_t connection) {
  if (!expects_signed_plans(options_.identity))
    return failed_precondition("the controller has an authority, and this node has no identity of it");
  SQUARE_ASSIGN_OR_RETURN(const v1::PlanPart part, open_plan(plan, options_.node_name, *options_.identity));
  return handle_plan(part, connection);
}

Status ClientLine::handle_plan(const v1::PlanPart& part, std::uint64_t connection) {
  if (parts_->lacks_base(part)) {
    log(LogLevel::kWarning, {.component = kComponent, .node = options_.node_name},
        "node {}: plan {} was told against plan {}, which is not here: asks for all of it",
        options_.node_name, part.epoch(), part.base_epoch());
    outbox_->push(lacking_event(Epoch(part.epoch())), connection);
    return {};
  }
  auto plan = parts_->read(part);
  if (!plan.is_ok()) return plan.status().with_context(fmt::format("plan {}", part.epoch()));
  const auto installed = [outbox = outbox_, connection](Epoch epoch) {
    outbox->push(installed_event(epoch), connection);
  };
  SQUARE_RETURN_IF_ERROR(recollection_.note_plan(*plan));
  events_.on_plan ? events_.on_plan(*plan, installed) : installed((*plan)->epoch);
  return {};
}

void ClientLine::examine(const v1::Inquiry& inquiry, std::uint64_t connection) {
  if (!events_.on_examine) return;
  ExamineQuestion question;
  for (const v1::Address& peer : inquiry.peers()) question.peers.push_back({peer.peer(), peer.address()});
  question.time = bounded(Duration(static_cast<std::int64_t>(inquiry.time_nanoseconds())));
  const std::int64_t received = wall_nanoseconds();
  events_.on_examine(std::move(question),
                     [outbox = outbox_, connection, received, number = inquiry.number()](std::string report) {
                       v1::NodeEvent event;
                       v1::Examined& examined = *event.mutable_examined();
                       examined.set_inquiry(number);
                       examined.set_received_nanoseconds(received);
                       examined.set_answered_nanoseconds(wall_nanoseconds());
                       examined.set_report_json(std::move(report));
                       outbox->push(std::move(event), connection);
                     });
}

void ClientLine::welcome(const v1::Welcome& message) {
  {
    const std::lock_guard lock(mutex_);
    const auto lease = static_cast<std::int64_t>(
        std::min<std::uint64_t>(message.lease_nanoseconds(), static_cast<std::uint64_t>(kMaxWait.count())));
    heartbeat_ = std::clamp(Duration(lease) / kHeartbeatsPerLease, Duration(std::chrono::milliseconds(1)),
                            kLongestBeat);
    welcomed_ = ever_welcomed_ = true;
    if (connection_) candidates_.welcomed(connection_->address);
    for (const auto& [group, number] : closing_) outbox_->push(closed_event(group, number), connections_);
    if (broken_links_) outbox_->push(broken_links_event(*broken_links_), connections_);
    changed_.notify_all();
  }
  outbox_->wake_up();
}

void ClientLine::write(const ConnectionPtr& connection, const v1::NodeEvent& event) {
  const std::lock_guard lock(connection->write_mutex);
  // A failed write needs nothing: the reader sees the end of the connection, too.
  if (!connection->over && connection->stream) connection->stream->Write(event);
}

void ClientLine::report_broken_links(LinkTroubles troubles) {
  const std::lock_guard lock(mutex_);
  broken_links_ = std::move(troubles);
  if (welcomed_) outbox_->push(broken_links_event(*broken_links_), connections_);
}

bool ClientLine::is_connected() const {
  const std::lock_guard lock(mutex_);
  return welcomed_;
}

void ClientLine::report_sights(const std::vector<BlockSight>& sights) {
  v1::NodeEvent event;
  *event.mutable_sights() = to_message(sights);
  const std::lock_guard lock(mutex_);
  if (welcomed_ && outbox_->has_room()) outbox_->push(std::move(event), connections_);
}

// Beats the heart, gives up an unanswered hello; returns when to come back, null to end.
std::optional<ClientLine::Clock::time_point> ClientLine::keep_time(Clock::time_point& next_beat) {
  ConnectionPtr connection;
  bool beating = false;
  Clock::time_point wake = Clock::now() + kMaxWait;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ && connection_ == nullptr) return std::nullopt;
    connection = connection_;
    const Clock::time_point now = Clock::now();
    if (welcomed_) {
      beating = now >= next_beat;
      next_beat = beating ? now + heartbeat_ : std::min(next_beat, now + heartbeat_);
      wake = next_beat;
    } else if (connection && now >= welcome_end_) {
      connection->context.TryCancel();
      wake = now + ControllerClient::kMinReconnectWait;
    } else if (connection) {
      wake = welcome_end_;
    }
  }
  if (beating) {
    write(connection, beats_.next());
  }
  return wake;
}

void ClientLine::write_loop() {
  Clock::time_point next_beat = Clock::now();
  while (const auto wake = keep_time(next_beat)) {
    std::deque<Outbox::Entry> entries;
    {
      std::unique_lock lock(outbox_->mutex);
      outbox_->condition.wait_until(lock, *wake,
                                    [this] { return outbox_->wake || !outbox_->entries.empty(); });
      outbox_->wake = false;
      entries.swap(outbox_->entries);
    }
    if (entries.empty()) continue;
    std::unique_lock lock(mutex_);
    const ConnectionPtr connection = connection_;
    const std::uint64_t number = connections_;
    lock.unlock();
    for (const Outbox::Entry& entry : entries) {
      if (connection && entry.connection == number) write(connection, entry.event);
    }
  }
}

}  // namespace square::controller
