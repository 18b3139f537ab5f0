#include "ps/grpc/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/net/address.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square::ps {
namespace {

constexpr Duration kMemberTick = std::chrono::milliseconds(50);
constexpr Duration kBeat = std::chrono::milliseconds(200);
// A little longer than a controller's lease.
constexpr Duration kNameTime = std::chrono::seconds(12);
constexpr Duration kNameWait = std::chrono::milliseconds(200);

std::uint64_t draw_member() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32U) | device()) | 1U;
}

std::unique_ptr<v1::ParameterServer::Stub> stub_to(const std::string& address,
                                                   const std::shared_ptr<Identity>& identity) {
  return v1::ParameterServer::NewStub(controller::open_channel(
      address, trust::channel_credentials(identity, {{Role::kController, Role::kServer}, ""}),
      {.message_bytes = controller::kMaxRequestBytes,
       .keepalive_time = Member::kKeepalive,
       .keepalive_timeout = Member::kKeepaliveTimeout,
       .connect_time = Member::kConnectTime,
       .min_wait = Member::kMinWait,
       .max_wait = Member::kMaxWait}));
}

// Where the master listens everywhere, so does its controller: it is reached where the master is.
Result<std::string> controller_of(const v1::PsAnswer& answer, const std::string& master) {
  SQUARE_ASSIGN_OR_RETURN(net::HostPort controller, net::parse_host_port(answer.controller()));
  if (controller.host != "0.0.0.0" && controller.host != "::") return answer.controller();
  SQUARE_ASSIGN_OR_RETURN(const net::HostPort known, net::parse_host_port(master));
  controller.host = known.host;
  return controller.to_string();
}

}  // namespace

Result<v1::PsAnswer> ask_master(const std::string& address, const std::shared_ptr<Identity>& identity,
                                Duration timeout) {
  const auto stub = stub_to(address, identity);
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

Member::Member(MemberOptions options, std::unique_ptr<Node> node)
    : options_(std::move(options)),
      incarnation_(draw_member()),
      node_(std::move(node)),
      lines_(std::make_unique<CommunicatorLines>(*node_)) {}

Member::~Member() { stop(); }

void Member::stop() {
  std::shared_ptr<Line> line;
  run([&] { line = line_; });
  if (line) line->drain(kMaxWait);
  calls_.stop();
  node_->stop();  // first: who opens a line waits for it
  lines_->stop();
  strand_.stop();
}

Result<std::unique_ptr<Member>> Member::join(const MemberOptions& options) {
  if (options.name.empty()) return invalid_argument("a member of parameter servers needs a name of its own");
  SQUARE_ASSIGN_OR_RETURN(const v1::PsAnswer answer,
                          ask_master(options.master_address, options.identity, options.connect_timeout));
  NodeOptions node;
  node.name = options.name;
  SQUARE_ASSIGN_OR_RETURN(node.controller_address, controller_of(answer, options.master_address));
  node.bind_address = options.bind_address;
  node.advertised_address = options.advertised_address;
  node.identity = options.identity;
  node.insecure = options.insecure;
  // Who was killed, and begins anew, is taken for its former self until that is given up.
  const TimePoint end = steady_clock().now() + std::min(options.connect_timeout, kNameTime);
  for (;;) {
    auto joined = Node::join(node);
    if (joined.is_ok()) return std::unique_ptr<Member>(new Member(options, std::move(*joined)));
    const bool is_taken = joined.status().code() == StatusCode::kAlreadyExists;
    if (!is_taken || steady_clock().now() >= end) return joined.status();
    std::this_thread::sleep_for(kNameWait);
  }
}

void Member::attach(MemberHandlers handlers) {
  strand_.post([this, handlers = std::move(handlers)] {
    handlers_ = handlers;
    dial();
    tick();
  });
}

void Member::dial() {
  dialled_ = steady_clock().now();
  const auto begun = [this] {
    is_attached_ = true;
    handlers_.on_attached();
  };
  const auto heard = [this](const v1::PsOrder& order) { handlers_.on_order(order); };
  const auto ended = [this](const Status& /*reason*/) { over(); };
  line_ = std::make_shared<Line>(calls_, strand_, stub_to(options_.master_address, options_.identity),
                                 kMaxQueued, Line::Events{begun, heard, ended});
  line_->begin();
}

void Member::over() {
  is_attached_ = false;
  // A line that stood for a while was a good one.
  const TimePoint now = steady_clock().now();
  if (now - dialled_ > kMaxWait) wait_ = kMinWait;
  handlers_.on_detached();
  strand_.post_at(now + wait_, [this] { dial(); });
  wait_ = std::min(2 * wait_, kMaxWait);
}

void Member::send(v1::PsReport report) {
  if (!is_attached_) return;
  if (report.has_hello() && options_.identity)
    report.mutable_hello()->set_grant(options_.identity->grant_of(CommunicatorLines::kTenant));
  line_->send(std::move(report));
}

void Member::tick() {
  const TimePoint now = steady_clock().now();
  if (now >= next_beat_) {
    v1::PsReport report;
    report.set_beat(true);
    send(std::move(report));
    next_beat_ = now + kBeat;
  }
  handlers_.on_time();
  strand_.post_at(steady_clock().now() + kMemberTick, [this] { tick(); });
}

bool Member::run(const std::function<void()>& task) {
  // A strand that is stopped drops the task, and the last hold on the promise with it.
  auto promise = std::make_shared<std::promise<bool>>();
  auto done = promise->get_future();
  strand_.post([&task, promise = std::move(promise)] {
    task();
    promise->set_value(true);
  });
  try {
    return done.get();
  } catch (const std::future_error&) {
    return false;
  }
}

}  // namespace square::ps
