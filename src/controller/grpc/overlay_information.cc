#include "square/overlay_information.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/check.h"
#include "controller/grpc/channel.h"
#include "controller/grpc/inquiries.h"
#include "controller/grpc/status.h"
#include "controller/node_control/candidates.h"
#include "controller/protocol.h"
#include "square/v1/controller.grpc.pb.h"

namespace square {
namespace {

// What is examined takes its time; then the answer has this long to come.
constexpr Duration kExaminedTime = std::chrono::seconds(1);

// The outcome of a call, or of its end at that time: gRPC's own deadlines may be late by as much as the
// system's clock is set. `begin` is given what the call is to tell its outcome.
template <typename Begin>
grpc::Status call_until(grpc::ClientContext& context, std::chrono::steady_clock::time_point end,
                        const Begin& begin) {
  std::promise<grpc::Status> promise;
  auto answered = promise.get_future();
  begin([&promise](grpc::Status status) { promise.set_value(std::move(status)); });
  if (answered.wait_until(end) == std::future_status::ready) return answered.get();
  context.TryCancel();
  const grpc::Status status = answered.get();
  return status.error_code() == grpc::StatusCode::CANCELLED
             ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded")
             : status;
}

// A call of one question, answered within `timeout` by the first of the controllers that leads.
template <typename Call>
Status ask_controller(const std::string& controller_address, const std::shared_ptr<Identity>& identity,
                      Duration timeout, const Call& call) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> controllers,
                          controller::usual_addresses(controller_address));
  const auto end = std::chrono::steady_clock::now() + controller::bounded(timeout);
  Status status;
  for (std::size_t i = 0; i < controllers.size(); ++i) {
    const auto stub = v1::Controller::NewStub(controller::open_channel(controllers[i], identity));
    grpc::ClientContext context;
    // One that says nothing leaves the others their share.
    const Duration left = end - std::chrono::steady_clock::now();
    const Duration patience = left / static_cast<int>(controllers.size() - i);
    context.set_deadline(std::chrono::system_clock::now() + patience);
    status = controller::from_grpc(call_until(context, std::chrono::steady_clock::now() + patience,
                                              [&](auto done) { call(*stub, context, std::move(done)); }));
    const bool is_away =
        status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
    if (!is_away) break;
  }
  return status.with_context(fmt::format("controller at {}", controller_address));
}

Duration nanoseconds(std::uint64_t count) {
  return Duration(static_cast<Duration::rep>(std::min<std::uint64_t>(count, controller::kMaxWait.count())));
}

LinkInformation from_message(const v1::ListLinksResponse::Link& link) {
  LinkInformation information{link.from(), link.to(), {}, link.planned_bps(), {}, {}, {}};
  information.given = {.capacity_bps = link.capacity_bps(),
                       .latency = nanoseconds(link.latency_nanoseconds()),
                       .price_usd_per_gb = link.price_usd_per_gb(),
                       .capacity_stddev_bps = link.capacity_stddev_bps(),
                       .is_fixed = link.is_fixed()};
  information.measured.peer = link.to();
  information.measured.capacity_bps = link.measured().capacity_bps();
  information.measured.is_probed = link.measured().is_probed();
  information.measured.round_trip = nanoseconds(link.measured().round_trip_nanoseconds());
  information.age = nanoseconds(link.measured().age_nanoseconds());
  constexpr double kMillisecondsPerSecond = 1e3;
  for (const v1::LinkHistory::Point& point : link.history().points()) {
    information.history.push_back({static_cast<double>(point.milliseconds()) / kMillisecondsPerSecond,
                                   point.capacity_bps(), point.is_probed()});
  }
  return information;
}

}  // namespace

Result<OverlayInformation> list_links(const std::string& controller_address,
                                      const std::shared_ptr<Identity>& identity, Duration timeout) {
  v1::ListLinksResponse response;
  const v1::ListLinksRequest request;
  SQUARE_RETURN_IF_ERROR(
      ask_controller(controller_address, identity, timeout, [&](auto& stub, auto& context, auto done) {
        stub.async()->ListLinks(&context, &request, &response, std::move(done));
      }));
  OverlayInformation overlay;
  for (const auto& node : response.nodes()) {
    SQUARE_RETURN_IF_ERROR(
        overlay.topology.add_node({node.name(), node.egress_bps(), node.ingress_bps()}).status());
  }
  for (const auto& link : response.links()) {
    overlay.links.push_back(from_message(link));
    SQUARE_RETURN_IF_ERROR(
        overlay.topology.add_link(link.from(), link.to(), overlay.links.back().given).status());
  }
  return overlay;
}

Result<std::vector<NodeInformation>> list_nodes(const std::string& controller_address,
                                                const std::shared_ptr<Identity>& identity, Duration timeout) {
  v1::ListNodesResponse response;
  const v1::ListNodesRequest request;
  SQUARE_RETURN_IF_ERROR(
      ask_controller(controller_address, identity, timeout, [&](auto& stub, auto& context, auto done) {
        stub.async()->ListNodes(&context, &request, &response, std::move(done));
      }));
  std::vector<NodeInformation> nodes;
  for (const auto& node : response.nodes()) {
    nodes.push_back({node.name(),
                     node.address(),
                     node.connected(),
                     Epoch(node.installed()),
                     {},
                     node.protocol_version()});
  }
  return nodes;
}

Result<Examination> examine(const std::string& controller_address, const std::shared_ptr<Identity>& identity,
                            Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> controllers,
                          controller::usual_addresses(controller_address));
  const Duration time = std::clamp(timeout, controller::kMinInquiryTime, controller::kMaxInquiryTime);
  v1::ExamineRequest request;
  request.set_time_nanoseconds(static_cast<std::uint64_t>(time.count()));
  v1::ExamineResponse response;
  // Each of them has the time that it takes.
  const Duration patience = (time + kExaminedTime) * static_cast<int>(controllers.size());
  SQUARE_RETURN_IF_ERROR(
      ask_controller(controller_address, identity, patience, [&](auto& stub, auto& context, auto done) {
        stub.async()->Examine(&context, &request, &response, std::move(done));
      }));
  Examination found{response.version(), response.protocol_version(), {}};
  for (const v1::Suspicion& one : response.suspicions()) {
    constexpr double kMillisecondsPerSecond = 1e3;
    found.suspicions.push_back({one.from(), one.to(), one.count(), SessionId(one.session()),
                                static_cast<double>(one.milliseconds()) / kMillisecondsPerSecond});
  }
  for (const auto& node : response.nodes()) {
    found.nodes.push_back({node.name(),
                           node.address(),
                           node.connected(),
                           node.answered(),
                           {node.peers().begin(), node.peers().end()},
                           Duration(node.clock_ahead_nanoseconds()),
                           Duration(node.clock_doubt_nanoseconds()),
                           node.report_json()});
  }
  return found;
}

}  // namespace square
