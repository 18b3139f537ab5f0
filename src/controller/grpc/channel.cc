#include "controller/grpc/channel.h"

#include "controller/grpc/control_stream.h"
#include "controller/protocol.h"
#include "square/controller_client.h"
#include "trust/grpc/credentials.h"

namespace square::controller {
namespace {

// A machine that does not answer a ping, sent after some silence, is gone: the line is built anew.
constexpr Duration kKeepaliveTime = std::chrono::seconds(2);
constexpr Duration kKeepaliveTimeout = std::chrono::seconds(3);
// Where another controller may lead meanwhile.
constexpr Duration kShortKeepaliveTime = std::chrono::seconds(1);
constexpr Duration kShortKeepaliveTimeout = std::chrono::milliseconds(1500);
// An attempt to connect may take this long.
constexpr Duration kConnectTime = std::chrono::seconds(5);

}  // namespace

std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::shared_ptr<Identity>& identity, bool are_several) {
  return open_channel(address, trust::channel_credentials(identity, {{Role::kController}, ""}),
                      {.message_bytes = kMaxPlanBytes + kPlanEnvelopeBytes,
                       .keepalive_time = are_several ? kShortKeepaliveTime : kKeepaliveTime,
                       .keepalive_timeout = are_several ? kShortKeepaliveTimeout : kKeepaliveTimeout,
                       .connect_time = kConnectTime,
                       .min_wait = ControllerClient::kMinReconnectWait,
                       .max_wait = ControllerClient::kMaxReconnectWait});
}

}  // namespace square::controller
