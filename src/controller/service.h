// The controller's calls over gRPC.
#pragma once

#include <string>

#include "controller/coordinator.h"
#include "square/v1/controller.grpc.pb.h"

namespace square::controller {

class ControllerService final : public v1::Controller::CallbackService {
 public:
  // An empty token lets everyone in.
  ControllerService(Coordinator& coordinator, std::string token)
      : coordinator_(coordinator), token_(std::move(token)) {}

  grpc::ServerBidiReactor<v1::NodeEvent, v1::ControllerEvent>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* RegisterGroup(grpc::CallbackServerContext* context,
                                          const v1::RegisterGroupRequest* request,
                                          v1::RegisterGroupResponse* response) override;
  grpc::ServerUnaryReactor* Regroup(grpc::CallbackServerContext* context, const v1::RegroupRequest* request,
                                    v1::RegroupResponse* response) override;
  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context, const v1::GetPlanRequest* request,
                                    v1::GetPlanResponse* response) override;
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override;

 private:
  [[nodiscard]] Status check_token(const grpc::CallbackServerContext& context) const;

  Coordinator& coordinator_;
  const std::string token_;
};

}  // namespace square::controller
