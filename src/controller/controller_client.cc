#include "square/controller_client.h"

#include <fmt/format.h>

#include <future>
#include <mutex>
#include <random>
#include <utility>

#include "base/check.h"
#include "controller/local_control_wire.h"
#include "controller/node_control/node_control.h"
#include "controller/protocol.h"
#include "square/thread_executor.h"

namespace square {
namespace {

// An answer may be this late where the strand is held up.
constexpr Duration kStrandTime = std::chrono::seconds(1);
// No other node dials a node that is alone.
constexpr const char* kNoAddress = "-";

// What a blocked caller waits for. Where the strand stops before it answers, the caller hears so.
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

std::uint64_t draw_incarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace

// The node's side of control, its strand and its wire.
struct ControllerClient::Core {
  Core(const ControllerClientOptions& options, std::vector<std::string> controllers, ControlledNode& node,
       const MakeWire& make_wire)
      : wire(make_wire(*executor)),
        control(*wire, steady_clock(), executor, {options, draw_incarnation(), std::move(controllers)},
                node) {}

  // What `begin` tells the function that it is given; it is called on the strand.
  template <typename T, typename Begin>
  Result<T> wait(Duration timeout, std::string late, Begin begin) {
    auto reply = std::make_shared<Reply<T>>();
    auto answered = reply->future();
    const auto end = std::chrono::steady_clock::now() + controller::bounded(timeout) + kStrandTime;
    executor->post([begin = std::move(begin), reply = std::move(reply)] {
      begin([reply](Result<T> result) { reply->tell(std::move(result)); });
    });
    if (answered.wait_until(end) == std::future_status::ready) return answered.get();
    return deadline_exceeded(std::move(late));
  }

  const std::shared_ptr<ThreadExecutor> executor = std::make_shared<ThreadExecutor>();
  const std::unique_ptr<controller::ControlWire> wire;
  controller::NodeControl control;
  std::mutex stop_mutex;  // one stops, others wait for it
  bool is_stopped = false;
};

Result<std::unique_ptr<ControllerClient>> ControllerClient::begin(const ControllerClientOptions& options,
                                                                  std::vector<std::string> controllers,
                                                                  ControlledNode& node,
                                                                  const MakeWire& make_wire) {
  auto core = std::make_unique<Core>(options, std::move(controllers), node, make_wire);
  std::unique_ptr<ControllerClient> client(new ControllerClient(std::move(core)));
  const auto settled =
      client->core_->wait<bool>(controller::kMaxWait, "", [&control = client->core_->control](auto done) {
        control.start([done](const Status& outcome) {
          done(outcome.is_ok() ? Result<bool>(true) : Result<bool>(outcome));
        });
      });
  SQUARE_RETURN_IF_ERROR(settled.status());
  return client;
}

Result<std::unique_ptr<ControllerClient>> ControllerClient::alone(const std::string& name,
                                                                  ControlledNode& node) {
  ControllerClientOptions options;
  options.node_name = name;
  options.node_address = kNoAddress;
  return begin(options, {""}, node, [&name](Executor& strand) {
    return std::make_unique<controller::LocalControlWire>(name, strand);
  });
}

ControllerClient::ControllerClient(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ControllerClient::~ControllerClient() { stop(); }

void ControllerClient::stop(const FinishedOperations& finished) {
  SQUARE_CHECK(!core_->executor->is_on_strand(), "an event does not stop the client that it comes from");
  const std::lock_guard one(core_->stop_mutex);
  if (std::exchange(core_->is_stopped, true)) return;
  static_cast<void>(
      core_->wait<bool>(controller::kMaxWait, "", [core = core_.get(), finished](const auto& done) {
        core->control.leave(finished, [done] { done(true); });
      }));
  core_->wire->stop();
  core_->executor->stop();
}

Result<GroupRegistration> ControllerClient::register_group(const GroupSpec& group, Duration timeout) {
  return core_->wait<GroupRegistration>(
      timeout,
      fmt::format("group \"{}\" was not planned and installed within {:.3g} s", group.name,
                  to_seconds(timeout)),
      [&control = core_->control, group, timeout, begun = steady_clock().now()](auto done) {
        control.register_group(group, begun, timeout, std::move(done));
      });
}

Result<GroupSpec> ControllerClient::regroup(const RegroupRequest& request, Duration timeout) {
  return core_->wait<GroupSpec>(
      timeout, fmt::format("group \"{}\" did not go on within {:.3g} s", request.group, to_seconds(timeout)),
      [&control = core_->control, request, timeout, begun = steady_clock().now()](auto done) {
        control.regroup(request, begun, timeout, std::move(done));
      });
}

void ControllerClient::close_group(const std::string& group, std::uint64_t number) {
  core_->executor->post([&control = core_->control, group, number] { control.close_group(group, number); });
}

void ControllerClient::report_sights(const std::vector<BlockSight>& sights) {
  core_->executor->post([&control = core_->control, sights] { control.report_sights(sights); });
}

void ControllerClient::report_broken_links(LinkTroubles troubles) {
  core_->executor->post([&control = core_->control, told = std::move(troubles)]() mutable {
    control.report_broken_links(std::move(told));
  });
}

}  // namespace square
