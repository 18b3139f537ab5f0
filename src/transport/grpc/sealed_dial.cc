#include "transport/grpc/sealed_dial.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>

#include <utility>

#include "base/check.h"
#include "base/net/address.h"
#include "trust/grpc/credentials.h"

namespace square::rpc {

Result<SealedDial> dial_sealed(const std::shared_ptr<Identity>& identity, const std::string& node,
                               const std::string& address, grpc::ChannelArguments arguments,
                               Duration silence_deadline) {
  const auto to = net::parse_host_port(address);
  if (!to.is_ok()) return unavailable(to.status().message());
  // One connection of its own, at once, to that host and nobody between; what is lost is the link's to mend.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  SealedDial dial;
  dial.socket = std::make_shared<CaughtSocket>(silence_deadline);
  catch_sockets(arguments, dial.socket);
  dial.channel = grpc::CreateCustomChannel(
      to->to_string(), trust::channel_credentials(identity, {{Role::kNode, Role::kServer}, node}), arguments);
  return dial;
}

}  // namespace square::rpc
