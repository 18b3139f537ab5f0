// The wire of a node's side of control: gRPC.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "controller/grpc/control_stream.h"
#include "controller/node_control/wire.h"
#include "square/v1/controller.grpc.pb.h"

namespace square::controller {

// A controller that reads nothing of a node is cut off here.
inline constexpr std::size_t kMaxUnsentEvents = 16'384;

// The executor runs the node's strand, and outlives stop().
class GrpcControlWire final : public ControlWire {
 public:
  using Stub = v1::Controller::Stub;
  using StubPtr = std::shared_ptr<Stub>;
  // `dial` makes a new channel to an address: one whose connection was refused waits for as long as an
  // attempt may take before the next. `node`: said to a controller that stands by, where it is not empty.
  using Dial = std::function<StubPtr(const std::string& address)>;
  GrpcControlWire(Executor& executor, Dial dial, std::string node)
      : executor_(executor), dial_(std::move(dial)), node_(std::move(node)) {}

  // Waits until gRPC calls nothing more here.
  void stop() override { queue_.stop(); }

  void dial(Number connection, const std::string& address) override;
  void send(Number connection, const v1::NodeEvent& event) override;
  [[nodiscard]] std::size_t waiting(Number connection) const override;
  void close(Number connection) override;
  void ask(Number connection, Number call, const v1::RegisterGroupRequest& question, TimePoint end,
           Answered<v1::RegisterGroupResponse> answered) override;
  void ask(Number connection, Number call, const v1::RegroupRequest& question, TimePoint end,
           Answered<v1::RegroupResponse> answered) override;
  void ask(Number connection, Number call, const v1::ListKeySharesRequest& question, TimePoint end,
           Answered<v1::ListKeySharesResponse> answered) override;
  void cancel(Number call) override;

 private:
  using Stream = ControlStream<v1::Controller, v1::NodeEvent, v1::ControllerEvent>;
  template <typename Response>
  struct Question;
  template <typename Request, typename Response, typename Prepare>
  void ask(Number connection, Number call, const Request& request, TimePoint end, Answered<Response> answered,
           Prepare prepare);

  Executor& executor_;
  const Dial dial_;
  const std::string node_;
  // Of the strand.
  std::map<Number, std::shared_ptr<Stream>> connections_;
  std::map<Number, CallQueue::ContextPtr> calls_;
  CallQueue queue_;
};

}  // namespace square::controller
