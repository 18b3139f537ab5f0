// The master's calls over gRPC.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "controller/granting.h"
#include "controller/grpc/doorkeeper.h"
#include "ps/protocol.h"
#include "square/v1/parameter_server.grpc.pb.h"

namespace square::ps {

// A member that does not read is cut off here.
inline constexpr std::size_t kMaxQueuedOrders = 65'536;

// Called from threads of gRPC; must not block.
struct MasterEvents {
  // Nothing more is read of that line while somebody keeps `reading`: so what waits to be heard is bounded.
  std::function<void(PeerId, v1::PsReport, std::shared_ptr<const void> reading)> on_report;
  // The last of a line.
  std::function<void(PeerId)> on_lost;
  // `answer` runs once, on any thread.
  std::function<void(std::function<void(v1::PsAnswer)> answer)> on_question;
};

class MasterService final : public v1::ParameterServer::CallbackService {
 public:
  // Without an identity everyone is let in.
  MasterService(std::shared_ptr<Identity> identity, MasterEvents events)
      : identity_(std::move(identity)),
        granting_(controller::granting_of(identity_)),
        events_(std::move(events)) {}
  // Connections are known there once a call over them was let in. Before the first call.
  void admit_through(controller::Doorkeeper& door) { door_ = &door; }

  void send(PeerId peer, v1::PsOrder order);
  // Ends the line once what was sent is written.
  void close(PeerId peer, const Status& reason);
  // All lines, and those that come.
  void close_all(const Status& reason);

  grpc::ServerBidiReactor<v1::PsReport, v1::PsOrder>* Attach(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, const v1::PsQuestion* question,
                                v1::PsAnswer* answer) override;

 private:
  class Line;
  using LinePtr = std::shared_ptr<Line>;

  // A member lives on a node of the overlay, which is who its certificate names, and which the operator lets
  // parameter servers use.
  Status check_hello(const grpc::CallbackServerContext& context, const v1::PsHello& hello);
  LinePtr line(PeerId peer);

  const std::shared_ptr<Identity> identity_;
  const std::shared_ptr<const controller::Granting> granting_;  // null: nobody grants
  controller::Doorkeeper* door_ = nullptr;
  const MasterEvents events_;
  std::mutex mutex_;
  PeerId last_ = 0;
  Status closed_;
  std::map<PeerId, LinePtr> lines_;
  std::set<std::string> admitted_;  // who had a grant; that may be over when it comes back
};

}  // namespace square::ps
