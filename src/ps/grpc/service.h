// The master's calls over gRPC.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "controller/granting.h"
#include "controller/grpc/doorkeeper.h"
#include "ps/grpc/member_call.h"

namespace square::ps {

// What is heard besides; `answer` runs once, on any thread.
struct MasterEvents {
  MemberEvents members;
  std::function<void(std::function<void(v1::PsAnswer)> answer)> on_question;
};

class MasterService final : public v1::ParameterServer::CallbackService {
 public:
  // Without an identity everyone is let in.
  MasterService(std::shared_ptr<Identity> identity, MasterEvents events);
  // Connections are known there once a call over them was let in. Before the first call.
  void admit_through(controller::Doorkeeper& door) { door_ = &door; }

  void send(PeerId peer, v1::PsOrder order);
  void close(PeerId peer, const Status& reason);
  // All lines, and those that come.
  void close_all(const Status& reason);

  grpc::ServerBidiReactor<v1::PsReport, v1::PsOrder>* Attach(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, const v1::PsQuestion* question,
                                v1::PsAnswer* answer) override;

 private:
  // A member lives on a node of the overlay, which is who its certificate names, and which the operator lets
  // parameter servers use.
  Status check_hello(const grpc::CallbackServerContext& context, const v1::PsHello& hello);
  std::shared_ptr<MemberCall> call(PeerId peer);

  const std::shared_ptr<Identity> identity_;
  const std::shared_ptr<const controller::Granting> granting_;  // null: nobody grants
  controller::Doorkeeper* door_ = nullptr;
  const MasterEvents events_;
  MemberEvents heard_;
  std::mutex mutex_;
  PeerId last_ = 0;
  Status closed_;
  std::map<PeerId, std::shared_ptr<MemberCall>> calls_;
  std::set<std::string> admitted_;  // who had a grant; that may be over when it comes back
};

}  // namespace square::ps
