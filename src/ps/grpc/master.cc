// The master as a process runs it: its state machine on a strand, behind gRPC.
#include "ps/master/master.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <mutex>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "controller/grpc/doorkeeper.h"
#include "controller/grpc/server_settings.h"
#include "controller/protocol.h"
#include "ps/grpc/member.h"
#include "ps/grpc/service.h"
#include "ps/status.h"
#include "square/controller.h"
#include "square/parameter_server.h"
#include "square/thread_executor.h"
#include "trust/grpc/credentials.h"

namespace square::ps {
namespace {

constexpr std::size_t kMasterMemoryBytes = std::size_t{1} << 30U;
constexpr Duration kStopWait = std::chrono::milliseconds(300);
constexpr Duration kTick = std::chrono::milliseconds(20);

std::uint64_t draw_maker() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32U) | device()) | 1U;
}

Result<net::HostPort> check_bind_address(const MasterOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(net::HostPort address, net::parse_host_port(options.bind_address));
  SQUARE_RETURN_IF_ERROR(check_exposure(address.host, options.identity, options.insecure, "the master"));
  // gRPC does not say why it cannot listen.
  SQUARE_RETURN_IF_ERROR(net::listen_on(address, 1).status());
  return address;
}

}  // namespace

class Master::Core {
 public:
  explicit Core(MasterOptions options)
      : options_(std::move(options)),
        state_(
            options_.training, draw_maker(),
            [this](PeerId peer, v1::PsOrder order) { service_.send(peer, std::move(order)); },
            [this](PeerId peer) { service_.close(peer, unavailable("the master ended the line")); }),
        service_(options_.identity, events()) {}
  ~Core() { stop(); }

  Status serve() {
    SQUARE_ASSIGN_OR_RETURN(net::HostPort bound, check_bind_address(options_));
    SQUARE_RETURN_IF_ERROR(have_controller(bound));
    grpc::ServerBuilder builder;
    controller::apply_server_settings(builder, "square.ps", kMasterMemoryBytes);
    builder.RegisterService(&service_);
    SQUARE_ASSIGN_OR_RETURN(
        door_,
        controller::Doorkeeper::listen(
            bound, builder, trust::server_credentials(options_.identity, {{}, controller::kMaxHandshakes})));
    server_ = builder.BuildAndStart();
    if (!server_) {
      return unavailable(
          fmt::format("cannot listen at {}; choose another address or port", options_.bind_address));
    }
    bound.port = door_->address().port;
    service_.admit_through(*door_);
    door_->open();
    address_ = options_.advertised_address.empty() ? bound.to_string() : options_.advertised_address;
    strand_.post([this] { tick(); });
    log(LogLevel::kInfo, "ps", "master listens at {}", bound.to_string());
    return {};
  }

  MasterStatus status() {
    auto promise = std::make_shared<std::promise<MasterStatus>>();
    auto made = promise->get_future();
    strand_.post([this, promise] { promise->set_value(to_status(state_.answer())); });
    return made.wait_for(kStopWait) == std::future_status::ready ? made.get() : MasterStatus();
  }

  void stop() {
    const std::lock_guard lock(stop_mutex_);
    service_.close_all(unavailable("the master stopped"));
    if (door_) door_->close();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + kStopWait);
    server_.reset();
    strand_.stop();
    if (controller_) controller_->stop();
  }

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const std::string& controller() const { return controller_address_; }

 private:
  Status have_controller(const net::HostPort& master) {
    controller_address_ = options_.controller_address;
    if (!controller_address_.empty()) return {};
    ControllerOptions own;
    const auto port = static_cast<std::uint16_t>(master.port == 0 ? 0 : master.port + 1);
    own.bind_address = net::HostPort{master.host, port}.to_string();
    own.identity = options_.identity;
    own.insecure = options_.insecure;
    SQUARE_ASSIGN_OR_RETURN(controller_, Controller::start(own, options_.scenario));
    controller_address_ = controller_->address();
    return {};
  }

  MasterEvents events() {
    return {[this](PeerId peer, v1::PsReport report, std::shared_ptr<const void> reading) {
              strand_.post([this, peer, report = std::move(report), reading = std::move(reading)] {
                state_.on_report(peer, report, steady_clock().now());
              });
            },
            [this](PeerId peer) {
              strand_.post([this, peer] { state_.on_line_lost(peer, steady_clock().now()); });
            },
            [this](std::function<void(v1::PsAnswer)> answer) {
              strand_.post([this, answer = std::move(answer)] {
                v1::PsAnswer made = state_.answer();
                made.set_controller(controller_address_);
                answer(std::move(made));
              });
            }};
  }

  void tick() {
    state_.on_time(steady_clock().now());
    strand_.post_at(steady_clock().now() + kTick, [this] { tick(); });
  }

  const MasterOptions options_;
  std::unique_ptr<Controller> controller_;
  std::string controller_address_;
  std::string address_;
  ThreadExecutor strand_;
  MasterState state_;
  MasterService service_;
  std::mutex stop_mutex_;
  std::unique_ptr<controller::Doorkeeper> door_;
  std::unique_ptr<grpc::Server> server_;
};

Result<std::unique_ptr<Master>> Master::start(MasterOptions options) {
  SQUARE_RETURN_IF_ERROR(check(options.training));
  auto core = std::make_unique<Core>(std::move(options));
  SQUARE_RETURN_IF_ERROR(core->serve());
  return std::unique_ptr<Master>(new Master(std::move(core)));
}

Master::Master(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Master::~Master() = default;
std::string Master::address() const { return core_->address(); }
std::string Master::controller() const { return core_->controller(); }
MasterStatus Master::status() { return core_->status(); }
void Master::stop() { core_->stop(); }

Result<MasterStatus> ask_master_status(const std::string& address, const std::shared_ptr<Identity>& identity,
                                       Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const v1::PsAnswer answer, ask_master(address, identity, timeout));
  return to_status(answer);
}

}  // namespace square::ps
