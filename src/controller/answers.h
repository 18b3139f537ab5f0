// What the controller does about the messages of nodes, over whatever wire they come.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controller/coordinator.h"
#include "square/controller.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Of a line that has joined, what is for the coordinator; the hello, examinations and sights are not.
void take(Coordinator& coordinator, const std::string& node, const NodeLine* line,
          const v1::NodeEvent& event);
// `answered` is called once, on any thread.
void answer(Coordinator& coordinator, const v1::RegisterGroupRequest& question,
            std::function<void(Result<v1::RegisterGroupResponse>)> answered);
// `granting`: null where groups need no grants.
void answer(Coordinator& coordinator, const v1::RegroupRequest& question,
            std::function<void(Result<v1::RegroupResponse>)> answered, const Granting* granting = nullptr);
void answer(const Coordinator& coordinator, const v1::ListKeySharesRequest& question,
            const std::function<void(Result<v1::ListKeySharesResponse>)>& answered);

v1::RegisterGroupResponse to_message(const Answer& answer);
// What is known of the nodes that are asked for, in that order.
v1::ListKeySharesResponse shares_of(const v1::ListKeySharesRequest& request,
                                    std::vector<NodeInformation> nodes);

}  // namespace square::controller
