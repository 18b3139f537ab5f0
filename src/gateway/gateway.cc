#include "square/gateway.h"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <mutex>

#include "base/check.h"
#include "base/log.h"
#include "base/net/socket.h"
#include "gateway/gateway_core.h"

namespace square {
namespace {

using gateway::EventLoop;
using gateway::GatewayCore;

constexpr Duration kShortestLease = std::chrono::milliseconds(500);
// Connections that wait to be accepted.
constexpr int kBacklog = 128;

Status check_options(const GatewayOptions& options) {
  if (options.max_attachments == 0 || options.max_groups == 0 || options.max_operations == 0) {
    return invalid_argument("max_attachments, max_groups and max_operations must be at least 1");
  }
  if (options.tenant_staging_bytes == 0 || options.staging_bytes == 0) {
    return invalid_argument("tenant_staging_bytes and staging_bytes must be at least 1");
  }
  if (options.lease < kShortestLease) {
    return invalid_argument(fmt::format("lease must be at least {} s, not {}", to_seconds(kShortestLease),
                                        to_seconds(options.lease)));
  }
  return {};
}

Result<net::Listener> listen_at(const GatewayOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(const net::HostPort address, net::parse_host_port(options.bind_address));
  if (options.token.empty() && !net::is_loopback(address.host)) {
    return invalid_argument(
        fmt::format("other machines can reach {}: set a token, the same for the gateway and for who attaches",
                    options.bind_address));
  }
  return net::listen_on(address, kBacklog);
}

}  // namespace

class Gateway::Core {
 public:
  Core(std::shared_ptr<EventLoop> loop, std::shared_ptr<GatewayCore> parts)
      : loop_(std::move(loop)), parts_(std::move(parts)), address_(parts_->address()) {
    parts_->begin();
    loop_->start("square-gateway", gateway::kTickInterval, [parts = parts_.get()] { parts->tick(); });
  }

  ~Core() { stop(); }

  [[nodiscard]] const std::string& address() const { return address_; }

  Statistics statistics() {
    if (is_stopped_) return {};
    const auto answer = std::make_shared<std::promise<Statistics>>();
    auto statistics = answer->get_future();
    loop_->post([parts = parts_.get(), answer] { answer->set_value(parts->statistics()); });
    return statistics.wait_for(DataPlane::kDrainTime) == std::future_status::ready ? statistics.get()
                                                                                   : Statistics{};
  }

  void stop() {
    const std::lock_guard lock(stop_mutex_);
    if (is_stopped_.exchange(true)) return;
    const auto drained = std::make_shared<std::promise<void>>();
    auto is_drained = drained->get_future();
    loop_->post([parts = parts_.get(), drained] { parts->stop([drained] { drained->set_value(); }); });
    is_drained.wait_for(DataPlane::kDrainTime);
    loop_->stop();
  }

 private:
  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<GatewayCore> parts_;
  const std::string address_;
  std::mutex stop_mutex_;
  std::atomic<bool> is_stopped_ = false;
};

Result<std::unique_ptr<Gateway>> Gateway::serve(MemberHost& host, GatewayOptions options) {
  SQUARE_RETURN_IF_ERROR(check_options(options));
  SQUARE_ASSIGN_OR_RETURN(net::Listener listener, listen_at(options));
  SQUARE_ASSIGN_OR_RETURN(auto loop, EventLoop::make());
  log(LogLevel::kInfo, "gateway", "{}: serves processes at {}", host.name(), listener.address.to_string());
  auto parts = std::make_shared<GatewayCore>(host, std::move(options), loop, std::move(listener));
  return std::unique_ptr<Gateway>(new Gateway(std::make_shared<Core>(std::move(loop), std::move(parts))));
}

Gateway::Gateway(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Gateway::~Gateway() { core_->stop(); }

const std::string& Gateway::address() const { return core_->address(); }
Gateway::Statistics Gateway::statistics() const { return core_->statistics(); }
void Gateway::stop() { core_->stop(); }

}  // namespace square
