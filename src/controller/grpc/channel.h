// Channels from a node, or an operator, to a controller.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "square/identity.h"

namespace square::controller {

// `are_several`: another controller may lead meanwhile, so a silent one is noticed sooner.
std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::shared_ptr<Identity>& identity,
                                            bool are_several = false);

}  // namespace square::controller
