// The master's end of a member's line.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "controller/grpc/hello_deadline.h"
#include "ps/protocol.h"
#include "square/v1/parameter_server.grpc.pb.h"

namespace square::ps {

// A member that does not read is cut off here.
inline constexpr std::size_t kMaxQueuedOrders = 65'536;

// What is heard on lines. Called from threads of gRPC; must not block.
struct MemberEvents {
  // Nothing more is read of that line while somebody keeps `reading`: so what waits to be heard is bounded.
  std::function<void(PeerId, v1::PsReport, std::shared_ptr<const void> reading)> on_report;
  // The last of a line.
  std::function<void(PeerId)> on_lost;
  // Whether the caller may say who it is with these words. Empty: everybody may.
  std::function<Status(const grpc::CallbackServerContext&, const v1::PsHello&)> check_hello{};
  // A whole message has come, before anything else is said of it.
  std::function<void(const grpc::CallbackServerContext&, std::uint64_t bytes)> on_message{};
};

class MemberCall final : public grpc::ServerBidiReactor<v1::PsReport, v1::PsOrder>,
                         public std::enable_shared_from_this<MemberCall> {
 public:
  // The call keeps itself alive until gRPC is done with it.
  static std::shared_ptr<MemberCall> begin(PeerId peer, const MemberEvents& events,
                                           grpc::CallbackServerContext* context);
  // One that is refused at once.
  static MemberCall* refuse(grpc::CallbackServerContext* context, const Status& reason);

  void send(v1::PsOrder order);
  // Ends it once what was sent is written.
  void close(const Status& reason);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  MemberCall(PeerId peer, const MemberEvents* events, grpc::CallbackServerContext* context)
      : peer_(peer), events_(events), context_(context) {}
  void write_next();
  void read_next();
  void finish_if_idle();

  const PeerId peer_;
  const MemberEvents* const events_;  // null: refused
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<MemberCall> self_;
  v1::PsReport incoming_;
  controller::HelloDeadline hello_;

  std::mutex mutex_;
  std::deque<v1::PsOrder> outgoing_;  // the first is being written
  bool is_writing_ = false;
  bool is_finished_ = false;
  std::optional<Status> reason_;  // set: it is to end
};

}  // namespace square::ps
