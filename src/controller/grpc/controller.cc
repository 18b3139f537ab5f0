#include "square/controller.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <future>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "base/own_process.h"
#include "controller/coordinator_thread.h"
#include "controller/grpc/doorkeeper.h"
#include "controller/grpc/lead_watch.h"
#include "controller/grpc/revocation_watch.h"
#include "controller/grpc/server_settings.h"
#include "controller/grpc/service.h"
#include "controller/node_control/candidates.h"
#include "controller/protocol.h"
#include "store/store.h"
#include "trust/grpc/credentials.h"

namespace square {
namespace {

using controller::Answer;
using controller::Coordinator;
using controller::CoordinatorThread;

// What gRPC may hold for all connections together, messages on their way in included.
constexpr std::size_t kServerMemoryBytes = std::size_t{1} << 30U;
// How long stop() lets lines end by themselves before it cuts them.
constexpr Duration kStopWait = std::chrono::milliseconds(200);
Result<net::HostPort> check_address(const ControllerOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(net::HostPort address, net::parse_host_port(options.bind_address));
  SQUARE_RETURN_IF_ERROR(check_exposure(address.host, options.identity, options.insecure, "the controller"));
  if (const auto& known = options.identity ? options.identity->name() : std::nullopt;
      known && known->role != Role::kController) {
    return invalid_argument(
        fmt::format("a controller has the identity of {}: issue one of its own", to_string(*known)));
  }
  // gRPC does not say why it cannot listen.
  SQUARE_RETURN_IF_ERROR(net::listen_on(address, 1).status());
  return address;
}

}  // namespace

class Controller::Core {
 public:
  // Serves what `running` decides; without one it stands by.
  Core(ControllerOptions options, Scenario scenario, std::unique_ptr<CoordinatorThread> running)
      : options_(std::move(options)), scenario_(std::move(scenario)), service_(options_.identity) {
    if (running) take(std::move(running));
  }
  ~Core() { stop(); }
  [[nodiscard]] const OwnProcess& process() const { return process_; }

  // Of the store that it has: nothing where another controller has it meanwhile.
  void watch(controller::LeadWatch::Held hold) {
    lead_ = controller::LeadWatch::watch(
        std::move(hold), {.take = {}, .lost = [this](const std::string& why) { step_down(why); }});
  }
  // Leads when it gets hold of the store of its options, if they name one.
  void wait_for_store() {
    if (options_.store.empty()) return;
    lead_ = controller::LeadWatch::stand_by(options_.store,
                                            {.take = [this](auto store) { return lead(std::move(store)); },
                                             .lost = [this](const std::string& why) { step_down(why); }});
  }

  Status wake(const std::vector<LostController>& lost) {
    const std::lock_guard lock(stop_mutex_);
    if (is_stopped_) return unavailable("the controller stopped");
    if (running() != nullptr) return {};
    if (lead_)
      return failed_precondition("this controller leads when it has the store, not when it is told to");
    SQUARE_ASSIGN_OR_RETURN(auto made, decide(store::make_memory_store()));
    made->coordinator().presume_gone(lost);
    take(std::move(made));
    return {};
  }

  Status serve() {
    SQUARE_ASSIGN_OR_RETURN(net::HostPort bound, check_address(options_));
    grpc::ServerBuilder builder;
    controller::apply_server_settings(builder, "square.controller", kServerMemoryBytes);
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
    log(LogLevel::kInfo, "controller", "listens at {}", bound.to_string());
    return {};
  }

  void stop() {
    const std::lock_guard one(end_mutex_);
    {
      const std::lock_guard lock(stop_mutex_);
      is_stopped_ = true;
    }
    lead_.reset();  // it may be waiting for the lock
    const std::lock_guard lock(stop_mutex_);
    revocations_.reset();
    if (running_) running_->coordinator().stop();
    service_.stop();
    if (door_) door_->close();
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
  [[nodiscard]] bool has_stepped_down() const { return has_stepped_down_; }
  [[nodiscard]] CoordinatorThread* running() const { return awake_; }
  [[nodiscard]] std::size_t waiting() const { return service_.waiting(); }

 private:
  Result<std::unique_ptr<CoordinatorThread>> decide(std::unique_ptr<store::Store> store) {
    return CoordinatorThread::create(options_.lease, options_.install_timeout, scenario_, std::move(store),
                                     controller::granting_of(options_.identity));
  }

  Status lead(std::unique_ptr<store::Store> store) {
    const std::lock_guard lock(stop_mutex_);
    if (is_stopped_) return unavailable("the controller stopped");
    const std::uint64_t term = store->term();
    SQUARE_ASSIGN_OR_RETURN(auto made, decide(std::move(store)));
    take(std::move(made));
    log(LogLevel::kInfo, "controller", "leads, in term {} of its store", term);
    return {};
  }

  // Its nodes look for the one that leads.
  void step_down(const std::string& why) {
    log(LogLevel::kError, "controller", "leads no more: {}; start it again to stand by", why);
    has_stepped_down_ = true;
    running()->coordinator().stop();
  }

  void take(std::unique_ptr<CoordinatorThread> running) {
    running_ = std::move(running);
    awake_ = running_.get();
    service_.serve(running_->coordinator());
    revocations_ = std::make_unique<controller::RevocationWatch>(
        options_.identity, [this](const std::vector<Revocation>& revoked) { service_.revoke(revoked); });
  }

  const OwnProcess process_;
  const ControllerOptions options_;
  const Scenario scenario_;
  std::unique_ptr<CoordinatorThread> running_;
  std::unique_ptr<controller::RevocationWatch> revocations_;  // goes before what it tells
  std::atomic<CoordinatorThread*> awake_ = nullptr;
  std::atomic<bool> has_stepped_down_ = false;
  bool is_stopped_ = false;
  controller::ControllerService service_;
  std::string address_;
  std::mutex end_mutex_;  // taken before the other
  std::mutex stop_mutex_;
  std::unique_ptr<controller::Doorkeeper> door_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<controller::LeadWatch> lead_;  // goes first
};

Result<std::unique_ptr<Controller>> Controller::start(ControllerOptions options, Scenario scenario) {
  SQUARE_RETURN_IF_ERROR(check_address(options).status());  // before the time that planning takes
  SQUARE_ASSIGN_OR_RETURN(std::unique_ptr<store::Store> store, store::open_store(options.store));
  const auto hold = store->hold();
  SQUARE_ASSIGN_OR_RETURN(
      auto running, CoordinatorThread::create(options.lease, options.install_timeout, scenario,
                                              std::move(store), controller::granting_of(options.identity)));
  auto core = std::make_unique<Core>(std::move(options), std::move(scenario), std::move(running));
  core->watch(hold);
  return serve(std::move(core));
}

Result<std::unique_ptr<Controller>> Controller::stand_by(ControllerOptions options, Scenario scenario) {
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  SQUARE_ASSIGN_OR_RETURN(auto made,
                          serve(std::make_unique<Core>(std::move(options), std::move(scenario), nullptr)));
  made->core_->wait_for_store();
  return made;
}

Result<std::unique_ptr<Controller>> Controller::serve(std::unique_ptr<Core> core) {
  SQUARE_RETURN_IF_ERROR(core->serve());
  return std::unique_ptr<Controller>(new Controller(std::move(core)));
}

Status Controller::wake(const std::vector<LostController>& lost) { return core_->wake(lost); }
bool Controller::stands_by() const { return core_->running() == nullptr; }
bool Controller::has_stepped_down() const { return core_->has_stepped_down(); }
std::size_t Controller::waiting() const { return core_->waiting(); }

Controller::Controller(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Controller::~Controller() {
  // A forked child: the threads cannot be waited for.
  if (core_ && core_->process().is_forked()) static_cast<void>(core_.release());
}

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

void Controller::stop() {
  if (!core_->process().is_forked()) core_->stop();
}

}  // namespace square
