#include "controller/grpc/control_wire.h"

#include <pthread.h>

#include <deque>
#include <utility>

#include "controller/grpc/status.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

// What gRPC says where a deadline is over.
constexpr const char* kGrpcLate = "Deadline Exceeded";

}  // namespace

// What is to follow when gRPC is done with an operation.
struct GrpcControlWire::Then {
  std::function<void(bool ok)> call;
};

// Lives until gRPC is done with it. The wire lives longer.
class GrpcControlWire::Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(GrpcControlWire& wire, Number number, StubPtr stub)
      : wire_(wire), number_(number), stub_(std::move(stub)) {}

  void begin(const std::string& node) {
    if (!node.empty()) context_.AddMetadata(kNodeKey, node);
    stream_ = stub_->PrepareAsyncAttach(&context_, &wire_.queue_);
    stream_->StartCall(then([this](bool ok) { ok ? started() : stop_reading(); }));
  }

  void send(const v1::NodeEvent& event) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (outgoing_.size() >= kMaxUnsentEvents) return context_.TryCancel();
    outgoing_.push_back(event);
    write_next();
  }

  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return outgoing_.size();
  }
  void cancel() { context_.TryCancel(); }
  [[nodiscard]] const StubPtr& stub() const { return stub_; }

 private:
  // Keeps the connection until then.
  Then* then(std::function<void(bool)> call) {
    return new Then{[self = shared_from_this(), call = std::move(call)](bool ok) { call(ok); }};
  }

  void started() {
    {
      const std::lock_guard lock(mutex_);
      has_started_ = true;
      write_next();
    }
    read_next();
  }

  void read_next() {
    incoming_.Clear();
    stream_->Read(&incoming_, then([this](bool ok) { ok ? hand_over() : stop_reading(); }));
  }

  void hand_over() {
    wire_.executor_.post([self = shared_from_this()] {
      self->wire_.events_.heard(self->number_, self->incoming_);
      self->read_next();
    });
  }

  void stop_reading() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    finish_if_idle();
  }

  // With mutex_ held, as finish_if_idle().
  void write_next() {
    if (!has_started_ || is_writing_ || is_over_ || outgoing_.empty()) return;
    is_writing_ = true;
    stream_->Write(outgoing_.front(), then([this](bool /*ok*/) { written(); }));
  }

  // One that failed needs nothing more: reading ends as well.
  void written() {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    outgoing_.pop_front();
    write_next();
    finish_if_idle();
  }

  void finish_if_idle() {
    if (is_over_ && !is_writing_) stream_->Finish(&status_, then([this](bool /*ok*/) { finished(); }));
  }

  void finished() {
    wire_.executor_.post(
        [&wire = wire_, number = number_, ended = from_grpc(status_)] { wire.events_.ended(number, ended); });
    wire_.forget_connection(number_);
  }

  GrpcControlWire& wire_;
  const Number number_;
  const StubPtr stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::NodeEvent, v1::ControllerEvent>> stream_;
  v1::ControllerEvent incoming_;
  grpc::Status status_;
  mutable std::mutex mutex_;
  bool has_started_ = false;
  bool is_writing_ = false;
  bool is_over_ = false;
  std::deque<v1::NodeEvent> outgoing_;  // the first is being written
};

// One question to a controller: lives until gRPC is done with it.
template <typename Request, typename Response>
struct GrpcControlWire::Question {
  StubPtr stub;
  std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
  Request request;
  Response response{};
  grpc::Status status{};
  Answered<Response> answered{};
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader{};
};

GrpcControlWire::GrpcControlWire(Executor& executor, Dial dial, std::string node)
    : executor_(executor), dial_(std::move(dial)), node_(std::move(node)), thread_([this] {
        pthread_setname_np(pthread_self(), "square-control");
        run();
      }) {}

// gRPC's threads for callbacks of clients are the process's, sleep 100 ms now and then, and must not drop the
// last channel.
void GrpcControlWire::run() {
  void* tag = nullptr;
  for (bool is_ok = false; queue_.Next(&tag, &is_ok);) {
    const std::unique_ptr<Then> then(static_cast<Then*>(tag));
    then->call(is_ok);
  }
}

void GrpcControlWire::dial(Number connection, const std::string& address) {
  const auto made = std::make_shared<Connection>(*this, connection, dial_(address));
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    connections_.emplace(connection, made);
    ++under_way_;
  }
  made->begin(node_);
}

GrpcControlWire::ConnectionPtr GrpcControlWire::find(Number connection) const {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : found->second;
}

void GrpcControlWire::send(Number connection, const v1::NodeEvent& event) {
  if (const auto found = find(connection)) found->send(event);
}

std::size_t GrpcControlWire::waiting(Number connection) const {
  const auto found = find(connection);
  return found ? found->waiting() : 0;
}

void GrpcControlWire::close(Number connection) {
  if (const auto found = find(connection)) found->cancel();
}

template <typename Request, typename Response, typename Begin>
void GrpcControlWire::begin(Number connection, Number call, const Request& request, TimePoint end,
                            Answered<Response> answered, const Begin& begin) {
  const auto found = find(connection);
  if (!found) {
    executor_.post([answered] { answered(unavailable("the connection to the controller broke")); });
    return;
  }
  const auto question = std::make_shared<Question<Request, Response>>();
  question->stub = found->stub();
  question->request = request;
  question->answered = std::move(answered);
  // gRPC knows deadlines by the system's clock, and takes the difference at once.
  question->context->set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::microseconds>(end - steady_clock().now()));
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    calls_.emplace(call, question->context);
    ++under_way_;
  }
  question->reader = begin(*question);
  question->reader->StartCall();
  question->reader->Finish(&question->response, &question->status,
                           new Then{[this, question, call](bool) { answer(*question, call); }});
}

// On the thread of the queue.
template <typename Request, typename Response>
void GrpcControlWire::answer(Question<Request, Response>& question, Number call) {
  Status outcome = from_grpc(question.status);
  if (outcome.code() == StatusCode::kDeadlineExceeded && outcome.message() == kGrpcLate)
    outcome = deadline_exceeded("");
  auto answer = outcome.is_ok() ? Result<Response>(std::move(question.response)) : Result<Response>(outcome);
  if (forget_call(call)) {
    executor_.post(
        [answered = std::move(question.answered), answer = std::move(answer)] { answered(answer); });
  }
}

void GrpcControlWire::ask(Number connection, Number call, const v1::RegisterGroupRequest& question,
                          TimePoint end, Answered<v1::RegisterGroupResponse> answered) {
  begin(connection, call, question, end, std::move(answered), [this](auto& asked) {
    return asked.stub->PrepareAsyncRegisterGroup(asked.context.get(), asked.request, &queue_);
  });
}

void GrpcControlWire::ask(Number connection, Number call, const v1::RegroupRequest& question, TimePoint end,
                          Answered<v1::RegroupResponse> answered) {
  begin(connection, call, question, end, std::move(answered), [this](auto& asked) {
    return asked.stub->PrepareAsyncRegroup(asked.context.get(), asked.request, &queue_);
  });
}

void GrpcControlWire::ask(Number connection, Number call, const v1::ListKeySharesRequest& question,
                          TimePoint end, Answered<v1::ListKeySharesResponse> answered) {
  begin(connection, call, question, end, std::move(answered), [this](auto& asked) {
    return asked.stub->PrepareAsyncListKeyShares(asked.context.get(), asked.request, &queue_);
  });
}

void GrpcControlWire::cancel(Number call) {
  std::shared_ptr<grpc::ClientContext> context;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(call);
    if (found == calls_.end()) return;
    context = std::move(found->second);
    calls_.erase(found);
  }
  context->TryCancel();
}

// False where it was cancelled.
bool GrpcControlWire::forget_call(Number call) {
  const std::lock_guard lock(mutex_);
  over();
  return calls_.erase(call) != 0;
}

void GrpcControlWire::forget_connection(Number connection) {
  const std::lock_guard lock(mutex_);
  over();
  connections_.erase(connection);
}

void GrpcControlWire::over() {
  --under_way_;
  changed_.notify_all();
}

void GrpcControlWire::stop() {
  std::unique_lock lock(mutex_);
  if (std::exchange(is_stopping_, true)) return;
  const auto connections = connections_;
  const auto calls = calls_;
  lock.unlock();
  for (const auto& [number, connection] : connections) connection->cancel();
  for (const auto& [number, context] : calls) context->TryCancel();
  lock.lock();
  changed_.wait(lock, [this] { return under_way_ == 0; });
  lock.unlock();
  queue_.Shutdown();
  thread_.join();
}

}  // namespace square::controller
