#include "square/controller.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <atomic>
#include <future>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "controller/candidates.h"
#include "controller/coordinator_thread.h"
#include "controller/grpc/service.h"
#include "controller/protocol.h"
#include "store/store.h"

namespace square {
namespace {

using controller::Answer;
using controller::Coordinator;
using controller::CoordinatorThread;

// What gRPC may hold for all connections together, messages on their way in included.
constexpr std::size_t kServerMemoryBytes = std::size_t{1} << 30U;
// How long stop() lets lines end by themselves before it cuts them.
constexpr Duration kStopWait = std::chrono::milliseconds(200);
// Clients ask this often, at the most, whether the controller is still there.
constexpr Duration kMinPingInterval = std::chrono::milliseconds(500);

int milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

Result<net::HostPort> check_address(const ControllerOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(net::HostPort address, net::parse_host_port(options.bind_address));
  if (!net::is_loopback(address.host) && options.token.empty()) {
    return invalid_argument(
        fmt::format("{} can be reached from other machines: set a token, the same on controller and nodes",
                    options.bind_address));
  }
  // gRPC does not say why it cannot listen.
  SQUARE_RETURN_IF_ERROR(net::listen_on(address, 1).status());
  return address;
}

std::unique_ptr<grpc::Server> start_server(const net::HostPort& address, grpc::Service& service, int& port) {
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("square.controller");
  quota.Resize(kServerMemoryBytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(controller::kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Only uncompressed messages: a compressed one may unpack to any size.
  builder.AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             milliseconds(kMinPingInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddListeningPort(address.to_string(), grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

}  // namespace

class Controller::Core {
 public:
  // Serves what `running` decides; without one it stands by.
  Core(ControllerOptions options, Scenario scenario, std::unique_ptr<CoordinatorThread> running)
      : options_(std::move(options)), scenario_(std::move(scenario)), service_(options_.token) {
    if (running) take(std::move(running));
  }
  ~Core() { stop(); }

  Status wake(const std::vector<std::string>& gone) {
    const std::lock_guard lock(stop_mutex_);
    if (is_stopped_) return unavailable("the controller stopped");
    if (running() != nullptr) return {};
    SQUARE_ASSIGN_OR_RETURN(auto made,
                            CoordinatorThread::create(options_.lease, options_.install_timeout, scenario_));
    made->coordinator().presume_gone({gone.begin(), gone.end()});
    take(std::move(made));
    return {};
  }

  Status serve() {
    SQUARE_ASSIGN_OR_RETURN(net::HostPort bound, check_address(options_));
    int port = 0;
    server_ = start_server(bound, service_, port);
    if (!server_ || port == 0) {
      return unavailable(
          fmt::format("cannot listen at {}; choose another address or port", options_.bind_address));
    }
    bound.port = static_cast<std::uint16_t>(port);
    address_ = options_.advertised_address.empty() ? bound.to_string() : options_.advertised_address;
    log(LogLevel::kInfo, "controller", "listens at {}", bound.to_string());
    return {};
  }

  void stop() {
    const std::lock_guard lock(stop_mutex_);
    is_stopped_ = true;
    if (running_) running_->coordinator().stop();
    service_.stop();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + kStopWait);
    server_.reset();
    if (running_) running_->join();
  }

  Result<Answer> demand(controller::Demand demand) {
    CoordinatorThread* const decides = running();
    if (decides == nullptr) return unavailable(controller::kStandsBy);
    // Shared: the caller may be gone before set_value() has returned.
    const auto promise = std::make_shared<std::promise<Result<Answer>>>();
    auto answer = promise->get_future();
    decides->coordinator().submit(
        std::move(demand), [promise](Result<Answer> result) { promise->set_value(std::move(result)); });
    return answer.get();
  }

  Result<Epoch> demand_epoch(controller::Demand wanted) {
    SQUARE_ASSIGN_OR_RETURN(const Answer answer, demand(std::move(wanted)));
    return answer.epoch;
  }

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] CoordinatorThread* running() const { return awake_; }
  [[nodiscard]] std::size_t waiting() const { return service_.waiting(); }

 private:
  void take(std::unique_ptr<CoordinatorThread> running) {
    running_ = std::move(running);
    awake_ = running_.get();
    service_.serve(running_->coordinator());
  }

  const ControllerOptions options_;
  const Scenario scenario_;
  std::unique_ptr<CoordinatorThread> running_;
  std::atomic<CoordinatorThread*> awake_ = nullptr;
  bool is_stopped_ = false;
  controller::ControllerService service_;
  std::string address_;
  std::mutex stop_mutex_;
  std::unique_ptr<grpc::Server> server_;
};

Result<std::unique_ptr<Controller>> Controller::start(ControllerOptions options, Scenario scenario) {
  SQUARE_RETURN_IF_ERROR(check_address(options).status());  // before the time that planning takes
  SQUARE_ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::open_store(options.store));
  SQUARE_ASSIGN_OR_RETURN(auto running, CoordinatorThread::create(options.lease, options.install_timeout,
                                                                  scenario, std::move(store)));
  return serve(std::make_unique<Core>(std::move(options), std::move(scenario), std::move(running)));
}

Result<std::unique_ptr<Controller>> Controller::stand_by(ControllerOptions options, Scenario scenario) {
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  return serve(std::make_unique<Core>(std::move(options), std::move(scenario), nullptr));
}

Result<std::unique_ptr<Controller>> Controller::serve(std::unique_ptr<Core> core) {
  SQUARE_RETURN_IF_ERROR(core->serve());
  return std::unique_ptr<Controller>(new Controller(std::move(core)));
}

Status Controller::wake(const std::vector<std::string>& gone) { return core_->wake(gone); }
bool Controller::stands_by() const { return core_->running() == nullptr; }
std::size_t Controller::waiting() const { return core_->waiting(); }

Controller::Controller(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Controller::~Controller() = default;

std::string Controller::address() const { return core_->address(); }

Result<Epoch> Controller::set_policy(PolicySpec policy) { return core_->demand_epoch(std::move(policy)); }

Result<Epoch> Controller::set_topology(Topology topology) { return core_->demand_epoch(std::move(topology)); }

Result<GroupRegistration> Controller::register_group(const GroupSpec& group) {
  SQUARE_ASSIGN_OR_RETURN(Answer answer, core_->demand(group));
  return GroupRegistration{std::move(answer.collectives), answer.epoch, answer.group};
}

std::shared_ptr<const Plan> Controller::plan() const {
  if (stands_by()) return nullptr;
  const controller::PublishedPlanPtr active = core_->running()->coordinator().active();
  return active ? active->plan : nullptr;
}

std::vector<NodeInformation> Controller::nodes() const {
  if (stands_by()) return {};
  return core_->running()->coordinator().nodes();
}

Status Controller::wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const {
  if (stands_by()) return unavailable(controller::kStandsBy);
  return core_->running()->wait_for_nodes(names, timeout);
}

void Controller::stop() { core_->stop(); }

}  // namespace square
