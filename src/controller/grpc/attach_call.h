// The gRPC end of a node's line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "controller/coordinator.h"
#include "controller/grpc/control_call.h"
#include "controller/grpc/doorkeeper.h"
#include "controller/grpc/inquiries.h"
#include "controller/grpc/refusal_log.h"
#include "controller/grpc/suspicions.h"
#include "controller/node_line.h"
#include "controller/plan_signature.h"
#include "square/identity.h"
#include "square/v1/controller.grpc.pb.h"

namespace square::controller {

// A node that does not read is cut off here: the addresses of every node, a few times over.
inline constexpr std::size_t kMaxQueuedEvents = 4 * kMaxNodes;

class AttachCall final : public ControlCall<v1::NodeEvent, v1::ControllerEvent>, public NodeLine {
 public:
  // What the call tells of the node; lives longer.
  struct Host {
    Coordinator& coordinator;
    Inquiries& inquiries;
    Suspicions& suspicions;
    std::shared_ptr<PlanSigner> signer;  // null: plans are not signed
    RefusalLog& refusals;
    Doorkeeper* door;  // null: nobody counts connections
  };
  AttachCall(Host host, std::shared_ptr<Identity> identity, grpc::CallbackServerContext& context)
      : ControlCall(context, {kMaxQueuedEvents, "the node does not read what the controller says"}),
        host_(std::move(host)),
        identity_(std::move(identity)) {}

  void send(std::shared_ptr<const v1::ControllerEvent> event) override;
  void close(Status reason, bool at_once) override { end(std::move(reason), at_once); }

 private:
  void heard(v1::NodeEvent& event) override;
  void lost() override;
  Status admit(v1::Hello& hello);
  [[nodiscard]] Status check_identity() const;
  Status receive(v1::NodeEvent& event);

  const Host host_;
  const std::shared_ptr<Identity> identity_;
  std::optional<PeerCertificate> certificate_;  // of the node

  // Of the reading callbacks, which come one at a time.
  std::string node_;      // empty before it has joined
  std::string admitted_;  // as it has said in its hello
  bool said_goodbye_ = false;
};

}  // namespace square::controller
