// What the controller answers to questions of nodes, as messages.
#pragma once

#include <vector>

#include "controller/requests.h"
#include "square/controller.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

v1::RegisterGroupResponse to_message(const Answer& answer);
// What is known of the nodes that are asked for, in that order.
v1::ListKeySharesResponse shares_of(const v1::ListKeySharesRequest& request,
                                    std::vector<NodeInformation> nodes);

}  // namespace square::controller
