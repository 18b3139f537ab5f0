#include "square/controller_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/net/address.h"
#include "controller/grpc/client_line.h"
#include "controller/grpc/inquiries.h"
#include "controller/grpc/key_exchange.h"
#include "controller/grpc/status.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square {
namespace {

// A machine that does not answer a ping, sent after some silence, is gone: the line is built anew.
constexpr Duration kKeepaliveTime = std::chrono::seconds(2);
constexpr Duration kKeepaliveTimeout = std::chrono::seconds(3);
// Where another controller may lead meanwhile.
constexpr Duration kShortKeepaliveTime = std::chrono::seconds(1);
constexpr Duration kShortKeepaliveTimeout = std::chrono::milliseconds(1500);
// An attempt to connect may take so long.
constexpr Duration kConnectTime = std::chrono::seconds(5);
// A registration that the controller did not live to answer is asked for again after so long.
constexpr Duration kRetryPause = std::chrono::milliseconds(50);
// Between attempts to register a name that others have not closed yet.
constexpr Duration kMinBusyWait = std::chrono::milliseconds(2);
constexpr Duration kMaxBusyWait = std::chrono::milliseconds(50);
// Registrations whose answers are kept for other members of the group at this node.
constexpr std::size_t kMaxAnswered = 64;

// The controller answers so long before the time is over, if it can.
constexpr Duration kAnswerTime = std::chrono::milliseconds(500);
// What is examined takes its time; then the answer has so long to come.
constexpr Duration kExaminedTime = std::chrono::seconds(1);

// What gRPC says where a deadline is over.
constexpr const char* kGrpcLate = "Deadline Exceeded";

int grpc_milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::shared_ptr<Identity>& identity,
                                            bool are_several = false) {
  grpc::ChannelArguments arguments;
  // The largest plan and its envelope.
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxPlanBytes + controller::kPlanEnvelopeBytes));
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  // A connection and a back-off of its own, and no proxy of the web on the way.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   grpc_milliseconds(ControllerClient::kMinReconnectWait));
  // What an attempt may take, two round trips at least; and the wait after one that failed, which is why a
  // line dials with a new channel each time.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, grpc_milliseconds(kConnectTime));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, grpc_milliseconds(ControllerClient::kMaxReconnectWait));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   grpc_milliseconds(are_several ? kShortKeepaliveTime : kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   grpc_milliseconds(are_several ? kShortKeepaliveTimeout : kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, trust::channel_credentials(identity, {{Role::kController}, ""}),
                                   arguments);
}

// The outcome of a call, or of its end at that time: gRPC's own deadlines may be late by as much as the
// system's clock is set. `begin` is given what the call is to tell its outcome.
template <typename Begin>
grpc::Status call_until(grpc::ClientContext& context, std::chrono::steady_clock::time_point end,
                        const Begin& begin) {
  std::promise<grpc::Status> promise;
  auto answered = promise.get_future();
  begin([&promise](grpc::Status status) { promise.set_value(std::move(status)); });
  if (answered.wait_until(end) == std::future_status::ready) return answered.get();
  context.TryCancel();
  const grpc::Status status = answered.get();
  return status.error_code() == grpc::StatusCode::CANCELLED
             ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, kGrpcLate)
             : status;
}

}  // namespace

class ControllerClient::Core {
 public:
  Core(const ControllerClientOptions& options, const std::vector<std::string>& controllers,
       ControllerEvents events)
      : options_(options),
        recollection_(options.node_name),
        exchange_(
            options.group_keys,
            [this](const auto& request, auto& response, auto end) {
              return call(end, [&](v1::Controller::Stub& stub, grpc::ClientContext& context, auto done) {
                stub.async()->ListKeyShares(&context, &request, &response, std::move(done));
              });
            },
            [this](Duration wait) {
              std::unique_lock lock(mutex_);
              return !changed_.wait_for(lock, wait, [this] { return stopping_; });
            }),
        line_(
            options, controllers, std::move(events),
            [identity = options.identity, are_several = controllers.size() > 1](const std::string& address) {
              return controller::ClientLine::StubPtr(
                  v1::Controller::NewStub(open_channel(address, identity, are_several)));
            },
            recollection_) {}

  ~Core() { stop({}); }

  void stop(const FinishedOperations& finished) {
    const std::lock_guard one(stop_mutex_);
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (grpc::ClientContext* call : calls_) call->TryCancel();
      changed_.notify_all();
    }
    line_.stop(finished);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return callers_ == 0; });
  }

  Status wait_for_welcome() { return line_.wait_for_welcome(); }

  void note_use(CollectiveId collective, std::uint64_t bytes) { line_.note_use(collective, bytes); }

  void report_broken_links(LinkTroubles troubles) { line_.report_broken_links(std::move(troubles)); }
  [[nodiscard]] bool is_connected() const { return line_.is_connected(); }
  void report_sights(const std::vector<BlockSight>& sights) { line_.report_sights(sights); }
  [[nodiscard]] std::string controller() const { return line_.controller(); }

  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) {
    const auto end = std::chrono::steady_clock::now() + controller::bounded(timeout);
    GroupSpec own = group;
    own.registrant = options_.node_name;
    own.closed_number = recollection_.closed_number(group.name);
    if (options_.identity) own.grant = options_.identity->grant_of(group.tenant);
    SQUARE_RETURN_IF_ERROR(line_.wait_until_closed(group.name, end));
    const controller::Registering registering(recollection_, group.name);
    std::optional<Status> refused;
    for (Duration pause = kMinBusyWait;; pause = std::min(2 * pause, kMaxBusyWait)) {
      auto registered = register_once(own, timeout, end);
      const StatusCode code = registered.status().code();
      // A last try whose time ends before its answer knows less than the one before it.
      if (code == StatusCode::kDeadlineExceeded && refused) return deadline_exceeded(refused->message());
      if (code != StatusCode::kAborted) return registered;
      refused = registered.status();
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, pause, [this] { return stopping_; })) return left();
      if (std::chrono::steady_clock::now() >= end) return deadline_exceeded(refused->message());
    }
  }

  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout) {
    const auto end = std::chrono::steady_clock::now() + controller::bounded(timeout);
    {
      const std::lock_guard lock(mutex_);
      ++callers_;
    }
    auto regrouped = regroup_in_time(request, end);
    const std::lock_guard lock(mutex_);
    --callers_;
    changed_.notify_all();
    return regrouped;
  }

  void close_group(const std::string& group, std::uint64_t number) {
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(answered_, [&](const Answered& one) { return one.group == group; });
    }
    recollection_.forget_group(group, number);
    line_.close_group(group, number);
  }

 private:
  static Status left() { return cancelled("the node leaves the overlay"); }

  Result<GroupRegistration> register_once(const GroupSpec& group, Duration timeout,
                                          std::chrono::steady_clock::time_point end) {
    const v1::RegisterGroupRequest request = controller::to_message(group);
    const std::string key = request.SerializeAsString();
    const std::uint64_t losses = line_.losses();
    const auto own = std::make_shared<UnderWay>();
    {
      std::unique_lock lock(mutex_);
      ++callers_;
      const std::optional<Status> failure = wait_for_neighbours(lock, key, end);
      const GroupRegistration* const known = find_answered(key, losses);
      if (stopping_ || failure || known != nullptr) {
        --callers_;
        changed_.notify_all();
        if (stopping_) return left();
        if (failure) return *failure;
        return *known;
      }
      under_way_.insert_or_assign(key, own);
    }
    auto registered = register_in_time(group, request, {timeout, end});
    const std::lock_guard lock(mutex_);
    if (registered.is_ok()) answered_.push_front({key, group.name, *registered, line_.losses()});
    if (answered_.size() > kMaxAnswered) answered_.pop_back();
    own->is_over = true;
    if (!registered.is_ok() && std::chrono::steady_clock::now() < end) own->failure = registered.status();
    if (const auto found = under_way_.find(key); found != under_way_.end() && found->second == own)
      under_way_.erase(found);
    --callers_;
    changed_.notify_all();
    return registered;
  }

  // A registration that the controller has answered on this very line.
  struct Answered {
    std::string key;
    std::string group;
    GroupRegistration made;
    std::uint64_t losses = 0;
  };

  // A registration that some member waits for; others of the node that register the same wait with it.
  struct UnderWay {
    bool is_over = false;
    std::optional<Status> failure;  // not if its member's own time was over
  };

  // Until nobody has the same registration under way. The failure is theirs, too, who waited.
  std::optional<Status> wait_for_neighbours(std::unique_lock<std::mutex>& lock, const std::string& key,
                                            std::chrono::steady_clock::time_point end) {
    while (!stopping_ && std::chrono::steady_clock::now() < end) {
      const auto found = under_way_.find(key);
      if (found == under_way_.end()) return std::nullopt;
      const auto other = found->second;
      changed_.wait_until(lock, end, [&] { return stopping_ || other->is_over; });
      if (other->failure) return other->failure;
    }
    return std::nullopt;
  }

  [[nodiscard]] const GroupRegistration* find_answered(const std::string& key, std::uint64_t losses) const {
    const auto found = std::ranges::find_if(
        answered_, [&](const Answered& one) { return one.losses == losses && one.key == key; });
    return found == answered_.end() ? nullptr : &found->made;
  }

  struct Patience {
    Duration timeout;
    controller::ClientLine::Clock::time_point end;
  };

  // A controller that is lost comes back, or another does: then it is asked again.
  Result<GroupRegistration> register_in_time(const GroupSpec& group, const v1::RegisterGroupRequest& request,
                                             const Patience& patience) {
    for (;;) {
      SQUARE_RETURN_IF_ERROR(
          line_.wait_for_line(patience.end).with_context(fmt::format("group \"{}\"", group.name)));
      const std::uint64_t losses = line_.losses();
      auto registered = call_register(group, request, patience, losses);
      if (registered.is_ok()) recollection_.note_group(group, *registered);
      // A controller that stops cancels what it has not answered.
      const StatusCode code = registered.status().code();
      const bool is_lost = code == StatusCode::kUnavailable || code == StatusCode::kCancelled;
      std::unique_lock lock(mutex_);
      if (stopping_ || !is_lost || std::chrono::steady_clock::now() + kRetryPause >= patience.end) {
        return registered;
      }
      changed_.wait_for(lock, kRetryPause, [this] { return stopping_; });
    }
  }

  Result<GroupRegistration> call_register(const GroupSpec& group, const v1::RegisterGroupRequest& request,
                                          const Patience& patience, std::uint64_t losses) {
    v1::RegisterGroupRequest keyed = request;
    const auto running = recollection_.number_of(group.name);
    keyed.set_keys(recollection_.keys_of(group.name));
    v1::RegisterGroupResponse response;
    Status status = ask_to_register(keyed, response, patience);
    // Nobody has brought a key yet.
    if (status.is_ok() && exchange_.is_on() && response.keys().empty()) {
      SQUARE_ASSIGN_OR_RETURN(*keyed.mutable_keys(), exchange_.make(group, patience.end));
      response.Clear();
      status = ask_to_register(keyed, response, patience);
    }
    if (!status.is_ok()) return explain(status, group, patience.timeout);
    GroupRegistration registration;
    for (const auto id : response.collectives()) registration.collectives.emplace_back(id);
    registration.epoch = Epoch(response.epoch());
    registration.number = response.number();
    registration.wrapped_keys = response.keys();
    if (registration.collectives.size() != group.collectives.size()) {
      return internal_error(fmt::format("the controller answered {} collectives of group \"{}\" for {}",
                                        registration.collectives.size(), group.name,
                                        group.collectives.size()));
    }
    // The answer and the activation come on two streams: the plan must be active here as well.
    SQUARE_RETURN_IF_ERROR(line_.wait_for_activation(registration.epoch, losses, patience.end)
                               .with_context(fmt::format("group \"{}\"", group.name)));
    if (running && *running != registration.number) {
      close_group(group.name, *running);
      close_group(group.name, registration.number);
      return failed_precondition(
          fmt::format("group \"{}\" has ended without node \"{}\", which the controller had taken for gone: "
                      "make a new group",
                      group.name, options_.node_name));
    }
    auto key = exchange_.open(group, registration.number, registration.wrapped_keys);
    if (!key.is_ok()) {
      // With a key that is not for this process it has no part in the group, which ends when all have left
      // it.
      close_group(group.name, registration.number);
      return key.status();
    }
    registration.key = *std::move(key);
    return registration;
  }

  Status ask_to_register(const v1::RegisterGroupRequest& request, v1::RegisterGroupResponse& response,
                         const Patience& patience) {
    return call(patience.end, [&](v1::Controller::Stub& stub, grpc::ClientContext& context, auto done) {
      stub.async()->RegisterGroup(&context, &request, &response, std::move(done));
    });
  }

  // A controller that is lost comes back, or another does: then it is asked again.
  Result<GroupSpec> regroup_in_time(const RegroupRequest& request,
                                    controller::ClientLine::Clock::time_point end) {
    for (;;) {
      SQUARE_RETURN_IF_ERROR(
          line_.wait_for_line(end).with_context(fmt::format("group \"{}\"", request.group)));
      auto regrouped = call_regroup(request, end);
      const StatusCode code = regrouped.status().code();
      const bool is_lost = code == StatusCode::kUnavailable || code == StatusCode::kCancelled;
      std::unique_lock lock(mutex_);
      if (stopping_) return left();
      if (!is_lost || std::chrono::steady_clock::now() + kRetryPause >= end) return regrouped;
      changed_.wait_for(lock, kRetryPause, [this] { return stopping_; });
    }
  }

  Result<GroupSpec> call_regroup(const RegroupRequest& request,
                                 controller::ClientLine::Clock::time_point end) {
    v1::RegroupRequest message = controller::to_message(request);
    message.set_node(options_.node_name);
    if (request.joiner != 0 && options_.identity) {
      std::vector<std::string> grants = options_.identity->grants();
      if (!request.tenants.empty()) grants.clear();
      for (const std::string& tenant : request.tenants) grants.push_back(options_.identity->grant_of(tenant));
      for (std::string& grant : grants) message.add_grants(std::move(grant));
    }
    // The controller, which knows who is awaited, says so first.
    const Duration left_over = end - std::chrono::steady_clock::now();
    const Duration patience = left_over - std::min(kAnswerTime, left_over / 4);
    message.set_timeout_nanoseconds(static_cast<std::uint64_t>(std::max(Duration(0), patience).count()));
    v1::RegroupResponse response;
    const Status status = call(end, [&](v1::Controller::Stub& stub, grpc::ClientContext& context, auto done) {
      stub.async()->Regroup(&context, &message, &response, std::move(done));
    });
    SQUARE_RETURN_IF_ERROR(status.with_context(fmt::format("controller at {}", line_.controller())));
    return controller::from_message(response.group());
  }

  // `begin` is given the stub, the context and what to tell of the outcome.
  template <typename Begin>
  Status call(controller::ClientLine::Clock::time_point end, const Begin& begin) {
    grpc::ClientContext context;
    // gRPC knows deadlines by the system's clock, and takes the difference at once.
    context.set_deadline(std::chrono::system_clock::now() + (end - std::chrono::steady_clock::now()));
    // There is one: the line has been welcomed.
    const auto stub = line_.stub();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return left();
      calls_.insert(&context);
    }
    const Status status = controller::from_grpc(
        call_until(context, end, [&](auto done) { begin(*stub, context, std::move(done)); }));
    const std::lock_guard lock(mutex_);
    calls_.erase(&context);
    return status;
  }

  [[nodiscard]] Status explain(const Status& status, const GroupSpec& group, Duration timeout) const {
    // gRPC's own words for these say nothing of what was asked.
    if (status.code() == StatusCode::kDeadlineExceeded && status.message() == kGrpcLate) {
      return deadline_exceeded(fmt::format("group \"{}\" was not planned and installed within {:.3g} s",
                                           group.name, to_seconds(timeout)));
    }
    if (status.code() == StatusCode::kCancelled) {
      return cancelled(fmt::format("group \"{}\": the registration was given up", group.name));
    }
    return status.with_context(fmt::format("controller at {}", line_.controller()));
  }

  const ControllerClientOptions options_;
  controller::Recollection recollection_;
  const controller::KeyExchange exchange_;
  controller::ClientLine line_;
  std::mutex stop_mutex_;  // one stops, others wait for it
  std::mutex mutex_;
  std::condition_variable changed_;  // what follows
  bool stopping_ = false;
  std::size_t callers_ = 0;
  std::set<grpc::ClientContext*> calls_;
  // The members of a group at one node register the same, mostly at the same time: one asks for all.
  std::map<std::string, std::shared_ptr<UnderWay>> under_way_;
  std::deque<Answered> answered_;  // the newest first
};

Result<std::unique_ptr<ControllerClient>> ControllerClient::connect(ControllerClientOptions options,
                                                                    ControllerEvents events) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> controllers,
                          controller::usual_addresses(options.controller_address));
  auto core = std::make_unique<Core>(options, controllers, std::move(events));
  SQUARE_RETURN_IF_ERROR(core->wait_for_welcome());
  return std::unique_ptr<ControllerClient>(new ControllerClient(std::move(core)));
}

ControllerClient::ControllerClient(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ControllerClient::~ControllerClient() = default;

void ControllerClient::stop(const FinishedOperations& finished) { core_->stop(finished); }

std::string ControllerClient::controller() const { return core_->controller(); }

Result<GroupRegistration> ControllerClient::register_group(const GroupSpec& group, Duration timeout) {
  return core_->register_group(group, timeout);
}

Result<GroupSpec> ControllerClient::regroup(const RegroupRequest& request, Duration timeout) {
  return core_->regroup(request, timeout);
}

void ControllerClient::close_group(const std::string& group, std::uint64_t number) {
  core_->close_group(group, number);
}

void ControllerClient::note_use(CollectiveId collective, std::uint64_t bytes) {
  core_->note_use(collective, bytes);
}

void ControllerClient::report_sights(const std::vector<BlockSight>& sights) { core_->report_sights(sights); }

void ControllerClient::report_broken_links(LinkTroubles troubles) {
  core_->report_broken_links(std::move(troubles));
}

bool ControllerClient::is_connected() const { return core_->is_connected(); }

namespace {

// A call of one question, answered within `timeout` by the first of the controllers that leads.
template <typename Call>
Status ask_controller(const std::string& controller_address, const std::shared_ptr<Identity>& identity,
                      Duration timeout, const Call& call) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> controllers,
                          controller::usual_addresses(controller_address));
  const auto end = std::chrono::steady_clock::now() + controller::bounded(timeout);
  Status status;
  for (std::size_t i = 0; i < controllers.size(); ++i) {
    const auto stub = v1::Controller::NewStub(open_channel(controllers[i], identity));
    grpc::ClientContext context;
    // One that says nothing leaves the others their share.
    const Duration left = end - std::chrono::steady_clock::now();
    const Duration patience = left / static_cast<int>(controllers.size() - i);
    context.set_deadline(std::chrono::system_clock::now() + patience);
    status = controller::from_grpc(call_until(context, std::chrono::steady_clock::now() + patience,
                                              [&](auto done) { call(*stub, context, std::move(done)); }));
    const bool is_away =
        status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
    if (!is_away) break;
  }
  return status.with_context(fmt::format("controller at {}", controller_address));
}

Duration nanoseconds(std::uint64_t count) {
  return Duration(static_cast<Duration::rep>(std::min<std::uint64_t>(count, controller::kMaxWait.count())));
}

LinkInformation from_message(const v1::ListLinksResponse::Link& link) {
  LinkInformation information{link.from(), link.to(), {}, link.planned_bps(), {}, {}, {}};
  information.given = {.capacity_bps = link.capacity_bps(),
                       .latency = nanoseconds(link.latency_nanoseconds()),
                       .price_usd_per_gb = link.price_usd_per_gb(),
                       .capacity_stddev_bps = link.capacity_stddev_bps(),
                       .is_fixed = link.is_fixed()};
  information.measured.peer = link.to();
  information.measured.capacity_bps = link.measured().capacity_bps();
  information.measured.is_probed = link.measured().is_probed();
  information.measured.round_trip = nanoseconds(link.measured().round_trip_nanoseconds());
  information.age = nanoseconds(link.measured().age_nanoseconds());
  constexpr double kMillisecondsPerSecond = 1e3;
  for (const v1::LinkHistory::Point& point : link.history().points()) {
    information.history.push_back({static_cast<double>(point.milliseconds()) / kMillisecondsPerSecond,
                                   point.capacity_bps(), point.is_probed()});
  }
  return information;
}

}  // namespace

Result<OverlayInformation> list_links(const std::string& controller_address,
                                      const std::shared_ptr<Identity>& identity, Duration timeout) {
  v1::ListLinksResponse response;
  const v1::ListLinksRequest request;
  SQUARE_RETURN_IF_ERROR(
      ask_controller(controller_address, identity, timeout, [&](auto& stub, auto& context, auto done) {
        stub.async()->ListLinks(&context, &request, &response, std::move(done));
      }));
  OverlayInformation overlay;
  for (const auto& node : response.nodes()) {
    SQUARE_RETURN_IF_ERROR(
        overlay.topology.add_node({node.name(), node.egress_bps(), node.ingress_bps()}).status());
  }
  for (const auto& link : response.links()) {
    overlay.links.push_back(from_message(link));
    SQUARE_RETURN_IF_ERROR(
        overlay.topology.add_link(link.from(), link.to(), overlay.links.back().given).status());
  }
  return overlay;
}

Result<std::vector<NodeInformation>> list_nodes(const std::string& controller_address,
                                                const std::shared_ptr<Identity>& identity, Duration timeout) {
  v1::ListNodesResponse response;
  const v1::ListNodesRequest request;
  SQUARE_RETURN_IF_ERROR(
      ask_controller(controller_address, identity, timeout, [&](auto& stub, auto& context, auto done) {
        stub.async()->ListNodes(&context, &request, &response, std::move(done));
      }));
  std::vector<NodeInformation> nodes;
  for (const auto& node : response.nodes()) {
    nodes.push_back({node.name(), node.address(), node.connected(), Epoch(node.installed())});
  }
  return nodes;
}

Result<Examination> examine(const std::string& controller_address, const std::shared_ptr<Identity>& identity,
                            Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> controllers,
                          controller::usual_addresses(controller_address));
  const Duration time = std::clamp(timeout, controller::kMinInquiryTime, controller::kMaxInquiryTime);
  v1::ExamineRequest request;
  request.set_time_nanoseconds(static_cast<std::uint64_t>(time.count()));
  v1::ExamineResponse response;
  // Each of them has the time that it takes.
  const Duration patience = (time + kExaminedTime) * static_cast<int>(controllers.size());
  SQUARE_RETURN_IF_ERROR(
      ask_controller(controller_address, identity, patience, [&](auto& stub, auto& context, auto done) {
        stub.async()->Examine(&context, &request, &response, std::move(done));
      }));
  Examination found{response.version(), response.protocol_version(), {}};
  for (const v1::Suspicion& one : response.suspicions()) {
    constexpr double kMillisecondsPerSecond = 1e3;
    found.suspicions.push_back({one.from(), one.to(), one.count(), SessionId(one.session()),
                                static_cast<double>(one.milliseconds()) / kMillisecondsPerSecond});
  }
  for (const auto& node : response.nodes()) {
    found.nodes.push_back({node.name(),
                           node.address(),
                           node.connected(),
                           node.answered(),
                           {node.peers().begin(), node.peers().end()},
                           Duration(node.clock_ahead_nanoseconds()),
                           Duration(node.clock_doubt_nanoseconds()),
                           node.report_json()});
  }
  return found;
}

}  // namespace square
