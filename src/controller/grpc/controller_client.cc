#include "square/controller_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/net/address.h"
#include "controller/grpc/control_wire.h"
#include "controller/grpc/inquiries.h"
#include "controller/grpc/status.h"
#include "controller/node_control/node_control.h"
#include "controller/protocol.h"
#include "square/thread_executor.h"
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
// An answer may be that late where the strand is held up.
constexpr Duration kStrandTime = std::chrono::seconds(1);
// What is examined takes its time; then the answer has so long to come.
constexpr Duration kExaminedTime = std::chrono::seconds(1);

// What gRPC says where a deadline is over.
constexpr const char* kGrpcLate = "Deadline Exceeded";

std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::shared_ptr<Identity>& identity,
                                            bool are_several = false) {
  return controller::open_channel(
      address, trust::channel_credentials(identity, {{Role::kController}, ""}),
      {.message_bytes = kMaxPlanBytes + controller::kPlanEnvelopeBytes,
       .keepalive_time = are_several ? kShortKeepaliveTime : kKeepaliveTime,
       .keepalive_timeout = are_several ? kShortKeepaliveTimeout : kKeepaliveTimeout,
       .connect_time = kConnectTime,
       .min_wait = ControllerClient::kMinReconnectWait,
       .max_wait = ControllerClient::kMaxReconnectWait});
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

// What a blocked caller waits for. Where the strand has stopped before it answered, nobody does.
template <typename T>
class Reply {
 public:
  ~Reply() {
    if (!is_told_) promise_.set_value(cancelled("the node leaves the overlay"));
  }
  void tell(Result<T> result) {
    is_told_ = true;
    promise_.set_value(std::move(result));
  }
  std::future<Result<T>> future() { return promise_.get_future(); }

 private:
  bool is_told_ = false;
  std::promise<Result<T>> promise_;
};

// What the node was given to call later, and may call when the client is gone.
class Gate {
 public:
  void close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  template <typename Function>
  void pass(const Function& function) {
    const std::lock_guard lock(mutex_);
    if (is_open_) function();
  }

 private:
  std::mutex mutex_;
  bool is_open_ = true;
};

ControllerEvents guarded(ControllerEvents events, const std::shared_ptr<Gate>& gate) {
  if (events.on_plan) {
    events.on_plan = [gate, inner = std::move(events.on_plan)](std::shared_ptr<const Plan> plan,
                                                               std::function<void(Epoch)> installed) {
      inner(std::move(plan),
            [gate, installed = std::move(installed)](Epoch epoch) { gate->pass([&] { installed(epoch); }); });
    };
  }
  if (events.on_examine) {
    events.on_examine = [gate, inner = std::move(events.on_examine)](
                            ExamineQuestion question, std::function<void(std::string)> answer) {
      inner(std::move(question), [gate, answer = std::move(answer)](std::string report) {
        gate->pass([&] { answer(std::move(report)); });
      });
    };
  }
  return events;
}

std::uint64_t draw_incarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace

// The strand of the node's side of control, its wire, and callers that wait.
class ControllerClient::Core {
 public:
  Core(const ControllerClientOptions& options, std::vector<std::string> controllers, ControllerEvents events)
      : options_(options),
        wire_(
            executor_,
            [identity = options.identity, are_several = controllers.size() > 1](const std::string& address) {
              return controller::GrpcControlWire::StubPtr(
                  v1::Controller::NewStub(open_channel(address, identity, are_several)));
            },
            options.successor ? options.node_name : std::string()),
        control_(wire_, steady_clock(), executor_, options_of(std::move(controllers)),
                 guarded(std::move(events), gate_)) {
    wire_.tell({[this](auto connection, const auto& event) { control_.heard(connection, event); },
                [this](auto connection, const Status& reason) { control_.ended(connection, reason); }});
  }

  ~Core() { stop({}); }

  Status connect() {
    const auto answer = std::make_shared<Reply<bool>>();
    auto settled = answer->future();
    executor_.post([this, answer] {
      control_.start([this, answer](const Status& outcome) {
        answer->tell(outcome.is_ok() ? Result<bool>(true) : Result<bool>(outcome));
      });
    });
    return settled.get().status();
  }

  void stop(const FinishedOperations& finished) {
    SQUARE_CHECK(!executor_.is_on_strand(), "an event does not stop the client that it comes from");
    const std::lock_guard one(stop_mutex_);
    if (std::exchange(is_stopped_, true)) return;
    const auto answer = std::make_shared<Reply<bool>>();
    auto left = answer->future();
    executor_.post([this, finished, answer] { control_.leave(finished, [answer] { answer->tell(true); }); });
    left.wait();
    if (waking_.joinable()) waking_.join();
    wire_.stop();
    gate_->close();
    executor_.stop();
  }

  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) {
    auto registered =
        wait<GroupRegistration>(timeout, [this, group, timeout, begun = steady_clock().now()](auto done) {
          control_.register_group(group, begun, timeout, std::move(done));
        });
    if (registered) return *std::move(registered);
    return deadline_exceeded(fmt::format("group \"{}\" was not planned and installed within {:.3g} s",
                                         group.name, to_seconds(timeout)));
  }

  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout) {
    auto regrouped =
        wait<GroupSpec>(timeout, [this, request, timeout, begun = steady_clock().now()](auto done) {
          control_.regroup(request, begun, timeout, std::move(done));
        });
    if (regrouped) return *std::move(regrouped);
    return deadline_exceeded(
        fmt::format("group \"{}\" did not go on within {:.3g} s", request.group, to_seconds(timeout)));
  }

  // What follows does not wait.
  void close_group(const std::string& group, std::uint64_t number) {
    executor_.post([this, group, number] { control_.close_group(group, number); });
  }
  void report_broken_links(LinkTroubles troubles) {
    executor_.post(
        [this, told = std::move(troubles)]() mutable { control_.report_broken_links(std::move(told)); });
  }
  void report_sights(const std::vector<BlockSight>& sights) {
    executor_.post([this, sights] { control_.report_sights(sights); });
  }
  void note_use(CollectiveId collective, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_[collective] += bytes;
  }
  [[nodiscard]] bool is_connected() const {
    const std::lock_guard lock(mutex_);
    return is_welcome_;
  }
  [[nodiscard]] std::string controller() const {
    const std::lock_guard lock(mutex_);
    return controller_;
  }

 private:
  controller::NodeControlOptions options_of(std::vector<std::string> controllers) {
    controller_ = controllers.front();
    controller::NodeControlOptions made;
    made.node = options_.node_name;
    made.address = options_.node_address;
    made.incarnation = draw_incarnation();
    made.controllers = std::move(controllers);
    made.connect_timeout = options_.connect_timeout;
    made.identity = options_.identity;
    made.group_keys = options_.group_keys;
    made.changed = [this] { mirror(); };
    made.take_used = [this] {
      const std::lock_guard lock(mutex_);
      return std::exchange(used_, {});
    };
    if (options_.successor) {
      made.successor = controller::Successor{
          options_.successor->address, options_.successor->standing, options_.successor->waiting,
          [this](const std::vector<std::string>& gone, std::function<void(Status)> woken) {
            wake(gone, std::move(woken));
          }};
    }
    return made;
  }

  // On a thread of its own: it reads what there is of the overlay.
  void wake(const std::vector<std::string>& gone, std::function<void(Status)> woken) {
    if (waking_.joinable()) waking_.join();
    waking_ = std::thread([this, gone, woken = std::move(woken)] {
      executor_.post([woken, outcome = options_.successor->wake(gone)] { woken(outcome); });
    });
  }

  // For other threads.
  void mirror() {
    const std::lock_guard lock(mutex_);
    is_welcome_ = control_.is_welcome();
    controller_ = control_.controller();
  }

  // What `begin` brought about; nothing where the strand is held up.
  template <typename T, typename Begin>
  std::optional<Result<T>> wait(Duration timeout, Begin begin) {
    auto answer = std::make_shared<Reply<T>>();
    auto answered = answer->future();
    const auto end = std::chrono::steady_clock::now() + controller::bounded(timeout) + kStrandTime;
    executor_.post([begin = std::move(begin), answer = std::move(answer)] {
      begin([answer](Result<T> result) { answer->tell(std::move(result)); });
    });
    if (answered.wait_until(end) != std::future_status::ready) return std::nullopt;
    return answered.get();
  }

  const ControllerClientOptions options_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::mutex stop_mutex_;  // one stops, others wait for it
  bool is_stopped_ = false;
  mutable std::mutex mutex_;  // what follows
  controller::UsedBytes used_;
  bool is_welcome_ = false;
  std::string controller_;

  ThreadExecutor executor_;
  controller::GrpcControlWire wire_;
  controller::NodeControl control_;
  std::thread waking_;
};

Result<std::unique_ptr<ControllerClient>> ControllerClient::connect(ControllerClientOptions options,
                                                                    ControllerEvents events) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> controllers,
                          controller::usual_addresses(options.controller_address));
  auto core = std::make_unique<Core>(options, controllers, std::move(events));
  SQUARE_RETURN_IF_ERROR(core->connect());
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
    nodes.push_back({node.name(),
                     node.address(),
                     node.connected(),
                     Epoch(node.installed()),
                     {},
                     node.protocol_version()});
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
