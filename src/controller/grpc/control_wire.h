// The wire of a node's side of control: gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "controller/node_control/wire.h"
#include "square/executor.h"
#include "square/v1/controller.grpc.pb.h"

namespace square::controller {

// A controller that reads nothing of a node is cut off here.
inline constexpr std::size_t kMaxUnsentEvents = 16'384;

// What is heard waits for the strand, an event of each connection at most: gRPC reads the next one then. One
// thread of its own.
class GrpcControlWire final : public ControlWire {
 public:
  using StubPtr = std::shared_ptr<v1::Controller::Stub>;
  struct Events {
    std::function<void(Number, const v1::ControllerEvent&)> heard;
    std::function<void(Number, const Status&)> ended;
  };
  // `dial` makes a new channel to an address: one whose connection was refused waits for as long as an
  // attempt may take before the next. `executor` runs the strand. `node`: said to a controller that stands
  // by, where it is not empty.
  using Dial = std::function<StubPtr(const std::string& address)>;
  GrpcControlWire(Executor& executor, Dial dial, std::string node);
  ~GrpcControlWire() override { stop(); }
  GrpcControlWire(const GrpcControlWire&) = delete;
  GrpcControlWire& operator=(const GrpcControlWire&) = delete;

  // Before anything is dialled.
  void tell(Events events) { events_ = std::move(events); }
  // Ends everything, and waits until gRPC calls nothing more here. From any thread. Idempotent.
  void stop();

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
  struct Then;
  class Connection;
  using ConnectionPtr = std::shared_ptr<Connection>;
  template <typename Request, typename Response>
  struct Question;
  template <typename Request, typename Response, typename Begin>
  void begin(Number connection, Number call, const Request& request, TimePoint end,
             Answered<Response> answered, const Begin& begin);
  template <typename Request, typename Response>
  void answer(Question<Request, Response>& question, Number call);
  bool forget_call(Number call);
  void forget_connection(Number connection);
  [[nodiscard]] ConnectionPtr find(Number connection) const;
  void over();
  void run();

  Executor& executor_;
  const Dial dial_;
  const std::string node_;
  Events events_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::size_t under_way_ = 0;  // connections and calls that gRPC has not done with
  std::map<Number, ConnectionPtr> connections_;
  std::map<Number, std::shared_ptr<grpc::ClientContext>> calls_;
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

}  // namespace square::controller
