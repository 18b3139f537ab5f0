#include "controller/grpc/control_wire.h"

#include <chrono>
#include <utility>

#include "controller/protocol.h"

namespace square::controller {
namespace {

// What gRPC says where a deadline is over.
constexpr const char* kGrpcLate = "Deadline Exceeded";

template <typename Response>
Result<Response> outcome_of(const grpc::Status& status, Response& response) {
  Status outcome = from_grpc(status);
  if (outcome.is_ok()) return std::move(response);
  const bool is_late = outcome.code() == StatusCode::kDeadlineExceeded && outcome.message() == kGrpcLate;
  return is_late ? deadline_exceeded("") : std::move(outcome);
}

}  // namespace

// One question to a controller: lives until it is answered on the strand.
template <typename Response>
struct GrpcControlWire::Question {
  StubPtr stub;
  Answered<Response> answered;
  CallQueue::ContextPtr context = std::make_shared<grpc::ClientContext>();
  Response response{};
  grpc::Status status{};
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader{};
};

void GrpcControlWire::dial(Number connection, const std::string& address) {
  const auto heard = [this, connection](const v1::ControllerEvent& event) {
    events_.heard(connection, event);
  };
  const auto ended = [this, connection](const Status& reason) {
    connections_.erase(connection);
    events_.ended(connection, reason);
  };
  const auto stream = std::make_shared<Stream>(queue_, executor_, dial_(address), kMaxUnsentEvents,
                                               Stream::Events{{}, heard, ended});
  connections_.emplace(connection, stream);
  stream->begin(kNodeKey, node_);
}

void GrpcControlWire::send(Number connection, const v1::NodeEvent& event) {
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second->send(event);
}

std::size_t GrpcControlWire::waiting(Number connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? 0 : found->second->waiting();
}

void GrpcControlWire::close(Number connection) {
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second->cancel();
}

template <typename Request, typename Response, typename Prepare>
void GrpcControlWire::ask(Number connection, Number call, const Request& request, TimePoint end,
                          Answered<Response> answered, Prepare prepare) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) {
    executor_.post([answered] { answered(unavailable("the connection to the controller broke")); });
    return;
  }
  using Asked = Question<Response>;
  const auto asked = std::make_shared<Asked>(Asked{found->second->stub(), std::move(answered)});
  // gRPC knows deadlines by the system's clock, and takes the difference at once.
  asked->context->set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::microseconds>(end - steady_clock().now()));
  if (!queue_.begin(asked->context)) return;
  calls_.emplace(call, asked->context);
  asked->reader = (asked->stub.get()->*prepare)(asked->context.get(), request, queue_.get());
  asked->reader->StartCall();
  asked->reader->Finish(&asked->response, &asked->status, CallQueue::then([this, asked, call](bool /*ok*/) {
    executor_.post([this, asked, call] {
      const auto answered = std::move(asked->answered);
      if (calls_.erase(call) != 0) answered(outcome_of(asked->status, asked->response));
    });
    queue_.end(asked->context);
  }));
}

void GrpcControlWire::ask(Number connection, Number call, const v1::RegisterGroupRequest& question,
                          TimePoint end, Answered<v1::RegisterGroupResponse> answered) {
  ask(connection, call, question, end, std::move(answered), &Stub::PrepareAsyncRegisterGroup);
}

void GrpcControlWire::ask(Number connection, Number call, const v1::RegroupRequest& question, TimePoint end,
                          Answered<v1::RegroupResponse> answered) {
  ask(connection, call, question, end, std::move(answered), &Stub::PrepareAsyncRegroup);
}

void GrpcControlWire::ask(Number connection, Number call, const v1::ListKeySharesRequest& question,
                          TimePoint end, Answered<v1::ListKeySharesResponse> answered) {
  ask(connection, call, question, end, std::move(answered), &Stub::PrepareAsyncListKeyShares);
}

void GrpcControlWire::cancel(Number call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  found->second->TryCancel();
  calls_.erase(found);
}

}  // namespace square::controller
