#include "square/grpc_transport.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/net/address.h"
#include "transport/grpc/transport.h"

namespace square {
namespace {

Status check_options(const GrpcTransportOptions& options) {
  if (options.node_name.empty() || options.node_name.size() > kMaxNameBytes) {
    return invalid_argument(
        fmt::format("node_name has {} bytes, allowed are 1 to {}", options.node_name.size(), kMaxNameBytes));
  }
  if (options.threads < 1 || options.threads > kMaxTransportThreads) {
    return invalid_argument(
        fmt::format("threads is {}, allowed are 1 to {}", options.threads, kMaxTransportThreads));
  }
  if (options.silence_deadline < kMinSilenceDeadline || options.silence_deadline > kMaxSilenceDeadline) {
    return invalid_argument(fmt::format("silence_deadline is {} s, allowed are {} to {}",
                                        to_seconds(options.silence_deadline), to_seconds(kMinSilenceDeadline),
                                        to_seconds(kMaxSilenceDeadline)));
  }
  // Less than this and a single full frame could stall for ever.
  constexpr std::size_t kMinQuotaBytes = 16 * kMaxFrameBytes;
  if (options.memory_quota_bytes < kMinQuotaBytes) {
    return invalid_argument(
        fmt::format("memory_quota_bytes is {}, the least is {}", options.memory_quota_bytes, kMinQuotaBytes));
  }
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<Transport>> make_grpc_transport(GrpcTransportOptions options) {
  SQUARE_RETURN_IF_ERROR(check_options(options));
  auto bind = net::parse_host_port(options.bind_address);
  if (!bind.is_ok()) return bind.status().with_context("bind_address");
  const std::string who = fmt::format("node \"{}\"", options.node_name);
  SQUARE_RETURN_IF_ERROR(check_exposure(bind->host, options.identity, options.insecure, who));
  if (const auto& known = options.identity ? options.identity->name() : std::nullopt;
      known &&
      (known->name != options.node_name || (known->role != Role::kNode && known->role != Role::kServer))) {
    return invalid_argument(
        fmt::format("{} has the identity of {}: issue one of its own", who, to_string(*known)));
  }
  if (!options.advertised_address.empty()) {
    auto advertised = net::parse_host_port(options.advertised_address);
    if (!advertised.is_ok()) return advertised.status().with_context("advertised_address");
  } else if (net::is_wildcard(bind->host)) {
    return invalid_argument(
        fmt::format("binding to {} needs an advertised_address: peers cannot dial it; name this machine",
                    options.bind_address));
  }
  std::string advertised = options.advertised_address;
  return std::unique_ptr<Transport>(
      std::make_unique<rpc::GrpcTransport>(std::move(options), *std::move(bind), std::move(advertised)));
}

}  // namespace square
