#include "ps/grpc/member_line.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "controller/grpc/status.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square::ps {
namespace {

int milliseconds_of(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& address,
                                          const std::shared_ptr<Identity>& identity) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds_of(MemberLine::kKeepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds_of(MemberLine::kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, milliseconds_of(MemberLine::kMinWait));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, milliseconds_of(MemberLine::kMaxWait));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(controller::kMaxRequestBytes);
  return grpc::CreateCustomChannel(
      address, trust::channel_credentials(identity, {{Role::kController, Role::kServer}, ""}), arguments);
}

}  // namespace

Result<v1::PsAnswer> ask_master(const std::string& address, const std::shared_ptr<Identity>& identity,
                                Duration timeout) {
  const auto stub = v1::ParameterServer::NewStub(channel_to(address, identity));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(timeout));
  v1::PsAnswer answer;
  const grpc::Status status = stub->Ask(&context, {}, &answer);
  if (status.ok()) return answer;
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
      status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return unavailable(
        fmt::format("no master answers at {} within {:.3g} s; start one with `square ps master`", address,
                    to_seconds(timeout)));
  }
  return controller::from_grpc(status).with_context(fmt::format("master at {}", address));
}

// A sync stream takes one reader and one writer.
struct MemberLine::Connection {
  grpc::ClientContext context;
  std::unique_ptr<v1::ParameterServer::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PsReport, v1::PsOrder>> stream;
  std::mutex write_mutex;
  bool is_over = false;  // under write_mutex
};

MemberLine::MemberLine(std::string address, std::shared_ptr<Identity> identity, LineEvents events)
    : address_(std::move(address)), identity_(std::move(identity)), events_(std::move(events)) {}

void MemberLine::start() {
  reader_ = std::thread([this] { read_loop(); });
  writer_ = std::thread([this] { write_loop(); });
}

MemberLine::~MemberLine() { stop(); }

void MemberLine::send(v1::PsReport report) {
  const std::lock_guard lock(mutex_);
  if (!connection_ || queue_.size() >= kMaxQueued) return;
  queue_.push_back(std::move(report));
  changed_.notify_all();
}

bool MemberLine::pause(Duration wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return is_stopping_; });
  return !is_stopping_;
}

void MemberLine::read_loop() {
  Duration wait = kMinWait;
  do {
    const TimePoint begun = steady_clock().now();
    const Status reason = serve();
    // A line that stood for a while was a good one.
    if (steady_clock().now() - begun > kMaxWait) wait = kMinWait;
    events_.on_detached(reason);
    if (!pause(wait)) return;
    wait = std::min(2 * wait, kMaxWait);
  } while (true);
}

Status MemberLine::serve() {
  const auto connection = std::make_shared<Connection>();
  connection->stub = v1::ParameterServer::NewStub(channel_to(address_, identity_));
  connection->context.set_wait_for_ready(false);
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return cancelled("the member leaves");
    dialled_ = connection;
  }
  // Without the lock: it may take as long as the network does not answer.
  connection->stream = connection->stub->Attach(&connection->context);
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    connection_ = connection;
  }
  events_.on_attached();
  for (v1::PsOrder order; connection->stream->Read(&order);) {
    events_.on_order(std::move(order));
    order = {};
  }
  {
    const std::lock_guard lock(mutex_);
    connection_ = nullptr;
    dialled_ = nullptr;
    queue_.clear();
    changed_.notify_all();
  }
  {
    const std::lock_guard lock(connection->write_mutex);
    connection->is_over = true;
  }
  const Status ended = controller::from_grpc(connection->stream->Finish());
  return ended.is_ok() ? unavailable("the master ended the line") : ended;
}

void MemberLine::write_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const v1::PsReport report = std::move(queue_.front());
    queue_.pop_front();
    const std::shared_ptr<Connection> connection = connection_;
    lock.unlock();
    if (connection) {
      const std::lock_guard writing(connection->write_mutex);
      if (!connection->is_over) connection->stream->Write(report);
    }
    lock.lock();
    changed_.notify_all();
  }
}

void MemberLine::stop() {
  std::shared_ptr<Connection> connection;
  {
    std::unique_lock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kMaxWait, [this] { return queue_.empty(); });
    connection = dialled_;
  }
  if (connection) connection->context.TryCancel();
  if (reader_.joinable()) reader_.join();
  if (writer_.joinable()) writer_.join();
}

}  // namespace square::ps
