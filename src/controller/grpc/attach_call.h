// The gRPC end of a node's line.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "controller/coordinator.h"
#include "controller/grpc/doorkeeper.h"
#include "controller/grpc/hello_deadline.h"
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

class AttachCall final : public grpc::ServerBidiReactor<v1::NodeEvent, v1::ControllerEvent>,
                         public NodeLine,
                         public std::enable_shared_from_this<AttachCall> {
 public:
  // The call keeps itself alive until gRPC is done with it.
  // `host`: what it tells of the node; lives longer.
  struct Host {
    Coordinator& coordinator;
    Inquiries& inquiries;
    Suspicions& suspicions;
    std::shared_ptr<PlanSigner> signer;  // null: plans are not signed
    RefusalLog& refusals;
    Doorkeeper* door;  // null: nobody counts connections
  };
  static std::shared_ptr<AttachCall> begin(const Host& host, std::shared_ptr<Identity> identity,
                                           grpc::CallbackServerContext* context);
  // A call that is refused at once.
  static AttachCall* refuse(grpc::CallbackServerContext* context, Status reason);

  void send(std::shared_ptr<const v1::ControllerEvent> event) override;
  void close(Status reason, bool at_once) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  AttachCall(std::optional<Host> host, std::shared_ptr<Identity> identity,
             grpc::CallbackServerContext* context);

  Status admit();
  [[nodiscard]] Status check_identity() const;
  Status receive();
  void write_next();
  void finish_if_idle();

  const std::optional<Host> host_;  // none: refused
  const std::shared_ptr<Identity> identity_;
  std::optional<PeerCertificate> certificate_;  // of the node
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<AttachCall> self_;

  HelloDeadline hello_;

  // Of the reading callbacks, which come one at a time.
  v1::NodeEvent incoming_;
  std::string node_;      // empty before it has joined
  std::string admitted_;  // as it has said in its hello
  bool said_goodbye_ = false;

  std::mutex mutex_;
  std::deque<std::shared_ptr<const v1::ControllerEvent>> outgoing_;  // the first is being written
  bool writing_ = false;
  bool cancelling_ = false;
  bool finished_ = false;
  std::optional<Status> reason_;  // set: the line is to end
};

}  // namespace square::controller
