#include "square/gateway.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "gateway/gateway_server.h"

namespace square {
namespace {

constexpr Duration kShortestLease = std::chrono::milliseconds(500);
// Connections that wait to be accepted.
constexpr int kBacklog = 128;

Status check_options(const GatewayOptions& options) {
  if (options.max_attachments == 0 || options.max_attachments_of_other == 0 || options.max_groups == 0 ||
      options.max_operations == 0) {
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

Result<gateway::LocalListener> listen_at(const GatewayOptions& options, const std::string& node) {
  const bool for_everybody =
      std::ranges::any_of(options.users, [](const GatewayUser& one) { return one.user != geteuid(); });
  std::string path = options.socket_path;
  if (path.empty() && for_everybody) {
    return invalid_argument(
        "a gateway that serves other users needs a path that they reach: name one, as /run/square/NODE.sock");
  }
  if (path.empty()) {
    SQUARE_ASSIGN_OR_RETURN(path, gateway::own_socket_path(node));
  }
  return gateway::LocalListener::listen(path, for_everybody, kBacklog);
}

}  // namespace

Result<std::unique_ptr<Gateway>> Gateway::serve(MemberHost& host, GatewayOptions options) {
  SQUARE_RETURN_IF_ERROR(check_options(options));
  SQUARE_ASSIGN_OR_RETURN(gateway::LocalListener listener, listen_at(options, host.name()));
  SQUARE_ASSIGN_OR_RETURN(auto loop, gateway::EventLoop::make());
  log(LogLevel::kInfo, "gateway", "{}: serves processes at {}", host.name(), listener.path());
  return gateway::with_new_threads([&]() -> Result<std::unique_ptr<Gateway>> {
    auto server = std::make_shared<gateway::GatewayServer>(host, std::move(options), std::move(loop),
                                                           std::move(listener));
    SQUARE_RETURN_IF_ERROR(server->start());
    return std::unique_ptr<Gateway>(new Gateway(std::move(server)));
  });
}

Gateway::Gateway(std::shared_ptr<gateway::GatewayServer> server) : server_(std::move(server)) {}
Gateway::~Gateway() {
  stop();
  // A forked child: the threads cannot be waited for, and the socket is the parent's.
  if (server_->process().is_forked()) static_cast<void>(new std::shared_ptr(std::move(server_)));
}

const std::string& Gateway::socket_path() const { return server_->path(); }
Gateway::Statistics Gateway::statistics() const {
  return server_->process().is_forked() ? Statistics() : server_->statistics();
}
void Gateway::stop() {
  if (!server_->process().is_forked()) server_->stop();
}

}  // namespace square
