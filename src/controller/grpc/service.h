// The controller's calls over gRPC, or those of one that stands by.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "controller/coordinator.h"
#include "controller/granting.h"
#include "controller/grpc/attach_call.h"
#include "controller/grpc/doorkeeper.h"
#include "controller/grpc/inquiries.h"
#include "controller/grpc/refusal_log.h"
#include "square/v1/controller.grpc.pb.h"

namespace square::controller {

inline constexpr std::size_t kMaxWaiting = 4096;

class ControllerService final : public v1::Controller::CallbackService {
 public:
  // Without an identity everyone is let in.
  explicit ControllerService(std::shared_ptr<Identity> identity)
      : identity_(std::move(identity)),
        granting_(granting_of(identity_)),
        signer_(signer_of(identity_)),
        inquiries_(std::make_shared<Inquiries>()) {}

  // Until then it stands by: every call is answered with UNAVAILABLE and kStandsBy.
  void serve(Coordinator& coordinator) { coordinator_ = &coordinator; }
  // Connections are known there once a call over them was let in. Before the first call.
  void admit_through(Doorkeeper& door) { door_ = &door; }
  // Tells all nodes that are there what is believed no more; those that come hear it from their lines.
  void revoke(const std::vector<Revocation>& revoked);
  // Answers what nodes have been asked; before the server is shut down.
  void stop() { inquiries_->stop(); }
  // How many nodes have called while it stood by, and lately.
  [[nodiscard]] std::size_t waiting() const;

  grpc::ServerBidiReactor<v1::NodeEvent, v1::ControllerEvent>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* RegisterGroup(grpc::CallbackServerContext* context,
                                          const v1::RegisterGroupRequest* request,
                                          v1::RegisterGroupResponse* response) override;
  grpc::ServerUnaryReactor* Regroup(grpc::CallbackServerContext* context, const v1::RegroupRequest* request,
                                    v1::RegroupResponse* response) override;
  grpc::ServerUnaryReactor* ListKeyShares(grpc::CallbackServerContext* context,
                                          const v1::ListKeySharesRequest* request,
                                          v1::ListKeySharesResponse* response) override;
  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context, const v1::GetPlanRequest* request,
                                    v1::GetPlanResponse* response) override;
  grpc::ServerUnaryReactor* ListLinks(grpc::CallbackServerContext* context,
                                      const v1::ListLinksRequest* request,
                                      v1::ListLinksResponse* response) override;
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override;
  grpc::ServerUnaryReactor* Examine(grpc::CallbackServerContext* context, const v1::ExamineRequest* request,
                                    v1::ExamineResponse* response) override;

 private:
  // Errors: UNAUTHENTICATED; RESOURCE_EXHAUSTED where the caller has too many connections; UNAVAILABLE while
  // it stands by.
  // `request`: what has come with the call.
  [[nodiscard]] Status check(const grpc::CallbackServerContext& context,
                             const google::protobuf::MessageLite& request) const;
  // The same for what nodes alone may do, as `node`.
  [[nodiscard]] Status check_node(const grpc::CallbackServerContext& context,
                                  const google::protobuf::MessageLite& request,
                                  const std::string& node) const;
  // The same for what is the operator's and its nodes'.
  [[nodiscard]] Status check_no_tenant(const grpc::CallbackServerContext& context,
                                       const google::protobuf::MessageLite& request) const;
  // Ends a call, and notes whoever had no right to it. `asked`: what for.
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext& context, std::string_view asked,
                                   const Status& status);
  // Who asks, where the operator's authority says so.
  [[nodiscard]] std::optional<IdentityName> caller(const grpc::CallbackServerContext& context) const;
  // What they may see: a controller's certificate all, a tenant's and a node's their own.
  [[nodiscard]] Plan view_for(const grpc::CallbackServerContext& context, const Plan& plan) const;
  [[nodiscard]] std::vector<NodeInformation> nodes_for(const grpc::CallbackServerContext& context) const;
  void note_waiting(const grpc::CallbackServerContext& context) const;

  std::atomic<Coordinator*> coordinator_ = nullptr;
  const std::shared_ptr<Identity> identity_;
  const std::shared_ptr<const Granting> granting_;  // null: nobody grants
  const std::shared_ptr<PlanSigner> signer_;
  Doorkeeper* door_ = nullptr;
  const std::shared_ptr<Inquiries> inquiries_;
  Suspicions suspicions_;
  RefusalLog refusals_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<AttachCall>> lines_;
  mutable std::map<std::string, TimePoint> waiting_;  // nodes, and when they called last
};

}  // namespace square::controller
