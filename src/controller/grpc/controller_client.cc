#include "square/controller_client.h"

#include "base/check.h"
#include "controller/grpc/channel.h"
#include "controller/grpc/control_wire.h"
#include "controller/node_control/candidates.h"

namespace square {

Result<std::unique_ptr<ControllerClient>> ControllerClient::connect(const ControllerClientOptions& options,
                                                                    ControlledNode& node) {
  SQUARE_ASSIGN_OR_RETURN(std::vector<std::string> controllers,
                          controller::usual_addresses(options.controller_address));
  const auto dial = [identity = options.identity,
                     are_several = controllers.size() > 1](const std::string& address) {
    return controller::GrpcControlWire::StubPtr(
        v1::Controller::NewStub(controller::open_channel(address, identity, are_several)));
  };
  return begin(options, std::move(controllers), node, [&](Executor& strand) {
    return std::make_unique<controller::GrpcControlWire>(
        strand, dial, options.successor ? options.node_name : std::string());
  });
}

}  // namespace square
