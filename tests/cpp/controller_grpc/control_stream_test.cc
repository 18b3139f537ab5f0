// Both ends of a control stream, with small bounds, and what the other end may do.
#include "controller/grpc/control_stream.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

#include "base/net/socket.h"
#include "controller/grpc/control_call.h"
#include "controller_grpc/fixture.h"
#include "square/thread_executor.h"
#include "square/v1/controller.grpc.pb.h"

using namespace square;
using namespace square::test;

namespace {

constexpr std::size_t kFew = 8;          // messages that may wait
constexpr std::size_t kLarge = 1 << 20;  // bytes: more than HTTP/2 sends to an end that does not read
constexpr Duration kPromptly = std::chrono::seconds(5);

using Callee = controller::ControlCall<v1::NodeEvent, v1::ControllerEvent>;
using Stream = controller::ControlStream<v1::Controller, v1::NodeEvent, v1::ControllerEvent>;

v1::NodeEvent node_event(std::uint64_t number, std::size_t bytes = 0) {
  v1::NodeEvent event;
  event.mutable_examined()->set_inquiry(number);
  event.mutable_examined()->set_report_json(std::string(bytes, ' '));
  return event;
}

std::shared_ptr<v1::ControllerEvent> controller_event(const std::string& name, std::size_t bytes = 0) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_gone()->set_peer(name);
  event->mutable_gone()->set_reason(std::string(bytes, ' '));
  return event;
}

// Takes what comes, or leaves the first event unread.
class TestCall final : public Callee {
 public:
  TestCall(grpc::CallbackServerContext& context, bool reads)
      : Callee(context, {kFew, "it does not read", std::chrono::seconds(1)}), reads_(reads) {}
  void accept() { known(); }
  std::atomic<std::uint64_t> next = 0;  // how many came in order

 private:
  void heard(v1::NodeEvent& event) override {
    if (event.examined().inquiry() == next) ++next;
    if (reads_) read_next();
  }
  const bool reads_;
};

class TestServer final : public v1::Controller::CallbackService {
 public:
  explicit TestServer(bool reads = true) : reads_(reads) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~TestServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  grpc::ServerBidiReactor<v1::NodeEvent, v1::ControllerEvent>* Attach(
      grpc::CallbackServerContext* context) override {
    auto call = std::make_shared<TestCall>(*context, reads_);
    call->begin();
    calls_.set_value(call);
    return call.get();
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // Of its one call.
  std::shared_ptr<TestCall> call() { return calls_.get_future().get(); }

 private:
  const bool reads_;
  int port_ = 0;
  std::promise<std::shared_ptr<TestCall>> calls_;
  std::unique_ptr<grpc::Server> server_;
};

// A caller, which is stopped before its strand.
struct Caller {
  explicit Caller(const std::string& address) {
    constexpr Duration kWait = std::chrono::milliseconds(100);
    const auto channel = controller::open_channel(address, grpc::InsecureChannelCredentials(),
                                                  {16 * kLarge, 2s, 3s, 20s, kWait, kWait});
    stream =
        std::make_shared<Stream>(queue, strand, v1::Controller::NewStub(channel), kFew,
                                 Stream::Events{[this] { begun.release(); },
                                                [this](const v1::ControllerEvent& event) {
                                                  going_on.acquire();
                                                  heard += event.gone().peer();
                                                  going_on.release();
                                                },
                                                [this](const Status& status) { ended.set_value(status); }});
    stream->begin();
  }
  ~Caller() { queue.stop(); }

  std::binary_semaphore going_on{1};  // taken: the strand is held up
  std::counting_semaphore<> begun{0};
  std::string heard;  // of the strand, until it has ended
  std::promise<Status> ended;
  ThreadExecutor strand;
  controller::CallQueue queue;
  std::shared_ptr<Stream> stream;
};

}  // namespace

TEST_CASE("what was sent arrives in order, and nothing once the stream is to end") {
  TestServer server;
  Caller caller(server.address());
  const auto call = server.call();
  call->accept();
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (caller.stream->waiting() == kFew) caller.stream->drain(kPatience);
    caller.stream->send(node_event(i));
  }
  caller.stream->drain(kPatience);
  CHECK(caller.stream->waiting() == 0);
  CHECK(eventually([&] { return call->next == 100; }));
  for (const auto* name : {"a", "b", "c"}) call->push(controller_event(name));
  call->end(aborted("that was all"), false);
  CHECK(call->push(controller_event("d")));
  const Status reason = caller.ended.get_future().get();
  call->end(cancelled("another reason"), true);
  CHECK(reason.code() == StatusCode::kAborted);
  CHECK(reason.message() == "that was all");
  CHECK(caller.heard == "abc");
  caller.stream->send(node_event(100));
  CHECK(caller.stream->waiting() == 0);
}

TEST_CASE("a server that does not read is cut off where the queue is full") {
  TestServer server(false);
  Caller caller(server.address());
  const auto call = server.call();
  call->accept();
  auto ended = caller.ended.get_future();
  for (std::uint64_t i = 0; ended.wait_for(1ms) != std::future_status::ready; ++i) {
    REQUIRE(i < 10'000);
    caller.stream->send(node_event(i, kLarge));
    CHECK(caller.stream->waiting() <= kFew);
  }
  CHECK(ended.get().code() == StatusCode::kCancelled);
  CHECK(call->next == 1);
  call->end(Status::ok(), true);
}

TEST_CASE("a caller that does not read is cut off where the queue is full") {
  TestServer server;
  Caller caller(server.address());
  const auto call = server.call();
  call->accept();
  caller.going_on.acquire();
  int pushed = 0;
  while (call->push(controller_event("", kLarge))) REQUIRE(++pushed < 10'000);
  CHECK(pushed >= static_cast<int>(kFew));
  call->end(Status::ok(), true);
  caller.going_on.release();
  CHECK_FALSE(caller.ended.get_future().get().is_ok());
}

TEST_CASE("a caller has a time for a hello that is accepted, and no longer") {
  TestServer server;
  TestServer other;
  Caller silent(server.address());
  Caller known(other.address());
  other.call()->accept();
  const Status reason = silent.ended.get_future().get();
  CHECK(reason.code() == StatusCode::kDeadlineExceeded);
  CHECK(reason.message() == "a line without a hello");
  CHECK(known.ended.get_future().wait_for(100ms) == std::future_status::timeout);
}

TEST_CASE("a caller stops at once, whatever its server does") {
  const auto listener = net::listen_on(net::parse_host_port("127.0.0.1:0").value(), 1);
  REQUIRE(listener.is_ok());
  const auto stop = [](Caller& caller) {
    const auto begin = std::chrono::steady_clock::now();
    caller.queue.stop();
    CHECK(std::chrono::steady_clock::now() - begin < kPromptly);
    CHECK_FALSE(caller.ended.get_future().get().is_ok());
  };
  SUBCASE("it accepts no connection") {
    Caller caller(listener->address.to_string());
    caller.stream->send(node_event(0));
    stop(caller);
  }
  SUBCASE("it refuses connections") {
    Caller caller("127.0.0.1:1");
    stop(caller);
  }
  SUBCASE("it answers nothing") {
    TestServer server;
    Caller caller(server.address());
    caller.begun.acquire();
    stop(caller);
  }
  SUBCASE("a message is being written") {
    TestServer server(false);
    Caller caller(server.address());
    const auto call = server.call();
    call->accept();
    for (std::uint64_t i = 0; i < kFew; ++i) caller.stream->send(node_event(i, kLarge));
    REQUIRE(eventually([&] { return caller.stream->waiting() < kFew; }));
    stop(caller);
    CHECK(caller.stream->waiting() > 0);
    call->end(Status::ok(), true);
  }
  SUBCASE("it talks on") {
    TestServer server;
    Caller caller(server.address());
    const auto call = server.call();
    std::atomic<bool> is_over = false;
    std::thread talker([&] {
      while (!is_over) call->push(controller_event(""));
    });
    caller.begun.acquire();
    stop(caller);
    is_over = true;
    talker.join();
  }
  SUBCASE("and dials no more") {
    TestServer server;
    Caller caller(server.address());
    stop(caller);
    const auto late =
        std::make_shared<Stream>(caller.queue, caller.strand, caller.stream->stub(), kFew, Stream::Events{});
    late->begin();
    late->send(node_event(0));
  }
}
