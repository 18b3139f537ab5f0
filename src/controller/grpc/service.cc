#include "controller/grpc/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "controller/answers.h"
#include "controller/grpc/attach_call.h"
#include "controller/grpc/status.h"
#include "controller/node_control/candidates.h"
#include "controller/own_view.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square::controller {

Status ControllerService::check(const grpc::CallbackServerContext& context,
                                const google::protobuf::MessageLite& request) const {
  SQUARE_RETURN_IF_ERROR(trust::check_caller(identity_, *context.auth_context(), {}, ""));
  if (door_ != nullptr) SQUARE_RETURN_IF_ERROR(door_->know(context, request.ByteSizeLong()));
  if (coordinator_ != nullptr) return {};
  note_waiting(context);
  return unavailable(kStandsBy);
}

Status ControllerService::check_node(const grpc::CallbackServerContext& context,
                                     const google::protobuf::MessageLite& request,
                                     const std::string& node) const {
  SQUARE_RETURN_IF_ERROR(check(context, request));
  // The operator's own process alone is nobody's node.
  if (identity_ && node.empty()) return permission_denied("who asks has to name its node");
  return trust::check_caller(identity_, *context.auth_context(), {Role::kNode, Role::kServer}, node);
}

Status ControllerService::check_no_tenant(const grpc::CallbackServerContext& context,
                                          const google::protobuf::MessageLite& request) const {
  SQUARE_RETURN_IF_ERROR(check(context, request));
  return trust::check_caller(identity_, *context.auth_context(),
                             {Role::kController, Role::kNode, Role::kServer}, "");
}

grpc::ServerUnaryReactor* ControllerService::answer(grpc::CallbackServerContext& context,
                                                    std::string_view asked, const Status& status) {
  refusals_.note(context, asked, status);
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

std::optional<IdentityName> ControllerService::caller(const grpc::CallbackServerContext& context) const {
  if (!identity_ || !identity_->name()) return std::nullopt;
  const auto shown = trust::certificate_of(*context.auth_context());
  return shown ? shown->name : std::nullopt;
}

Plan ControllerService::view_for(const grpc::CallbackServerContext& context, const Plan& plan) const {
  const auto who = caller(context);
  if (!who || who->role == Role::kController) return plan;
  return who->role == Role::kTenant ? view_of_tenant(plan, who->name) : view_of_node(plan, who->name);
}

std::vector<NodeInformation> ControllerService::nodes_for(const grpc::CallbackServerContext& context) const {
  std::vector<NodeInformation> nodes = coordinator_.load()->nodes();
  const auto who = caller(context);
  if (!who || who->role != Role::kTenant) return nodes;
  const PublishedPlanPtr plan = coordinator_.load()->active();
  return nodes_of_tenant(std::move(nodes), plan ? plan->plan.get() : nullptr, who->name);
}

void ControllerService::note_waiting(const grpc::CallbackServerContext& context) const {
  const auto found = context.client_metadata().find(kNodeKey);
  if (found == context.client_metadata().end() || found->second.size() > kMaxNodeNameBytes) return;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() < kMaxWaiting)
    waiting_[std::string(found->second.data(), found->second.size())] = steady_clock().now();
}

void ControllerService::revoke(const std::vector<Revocation>& revoked) {
  auto event = std::make_shared<v1::ControllerEvent>();
  *event->mutable_revoked() = to_message(revoked);
  std::vector<std::weak_ptr<AttachCall>> lines;
  {
    const std::lock_guard lock(mutex_);
    lines = lines_;
  }
  for (const auto& line : lines) {
    if (const auto call = line.lock()) call->send(event);
  }
}

std::size_t ControllerService::waiting() const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = steady_clock().now();
  std::erase_if(waiting_, [&](const auto& entry) { return now - entry.second > kWaitingTime; });
  return waiting_.size();
}

grpc::ServerBidiReactor<v1::NodeEvent, v1::ControllerEvent>* ControllerService::Attach(
    grpc::CallbackServerContext* context) {
  // A line that never says hello makes nobody known.
  Status allowed = trust::check_caller(identity_, *context->auth_context(), {Role::kNode, Role::kServer}, "");
  if (allowed.is_ok() && coordinator_ == nullptr) allowed = check(*context, v1::NodeEvent());
  refusals_.note(*context, "a line", allowed);
  if (allowed.is_ok() && door_ != nullptr && !door_->begin_line(context->peer()))
    allowed = resource_exhausted("this connection has opened too many lines");
  if (!allowed.is_ok()) return RefusedCall<v1::NodeEvent, v1::ControllerEvent>::begin(allowed);
  const auto call = std::make_shared<AttachCall>(
      AttachCall::Host{*coordinator_, *inquiries_, suspicions_, signer_, refusals_, door_}, identity_,
      *context);
  call->begin();
  const std::lock_guard lock(mutex_);
  std::erase_if(lines_, [](const auto& line) { return line.expired(); });
  lines_.push_back(call);
  return call.get();
}

grpc::ServerUnaryReactor* ControllerService::RegisterGroup(grpc::CallbackServerContext* context,
                                                           const v1::RegisterGroupRequest* request,
                                                           v1::RegisterGroupResponse* response) {
  if (const Status allowed = check_node(*context, *request, request->node()); !allowed.is_ok())
    return answer(*context, "a group", allowed);
  auto group = from_message(*request);
  if (!group.is_ok()) return answer(*context, "a group", group.status());
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const std::string asked = fmt::format("a group of tenant \"{:.100}\"", group->tenant);
  coordinator_.load()->submit(std::move(*group),
                              [this, context, asked, reactor, response](const Result<Answer>& answer) {
                                refusals_.note(*context, asked, answer.status());
                                if (answer.is_ok()) *response = to_message(*answer);
                                reactor->Finish(to_grpc(answer.status()));
                              });
  return reactor;
}

grpc::ServerUnaryReactor* ControllerService::Regroup(grpc::CallbackServerContext* context,
                                                     const v1::RegroupRequest* request,
                                                     v1::RegroupResponse* response) {
  if (const Status allowed = check_node(*context, *request, request->node()); !allowed.is_ok())
    return answer(*context, "another group", allowed);
  // It waits, and must not hold much.
  const auto is_long = [](const std::string& name) { return name.size() > kMaxGroupNameBytes; };
  if (request->grants_size() > static_cast<int>(Identity::kMaxGrants) ||
      request->tenants_size() > static_cast<int>(Identity::kMaxGrants) ||
      std::ranges::any_of(request->tenants(), is_long))
    return answer(*context, "another group", invalid_argument("it names too many tenants"));
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  controller::answer(
      *coordinator_.load(), *request,
      [reactor, response](Result<v1::RegroupResponse> answer) {
        if (answer.is_ok()) *response = *std::move(answer);
        reactor->Finish(to_grpc(answer.status()));
      },
      granting_.get());
  return reactor;
}

grpc::ServerUnaryReactor* ControllerService::ListKeyShares(grpc::CallbackServerContext* context,
                                                           const v1::ListKeySharesRequest* request,
                                                           v1::ListKeySharesResponse* response) {
  Status status = check_no_tenant(*context, *request);
  if (status.is_ok() && request->nodes_size() > static_cast<int>(kMaxGroupMembers))
    status = invalid_argument(fmt::format("more than {} nodes", kMaxGroupMembers));
  if (status.is_ok()) *response = shares_of(*request, coordinator_.load()->nodes());
  return answer(*context, "shares of keys", status);
}

grpc::ServerUnaryReactor* ControllerService::GetPlan(grpc::CallbackServerContext* context,
                                                     const v1::GetPlanRequest* request,
                                                     v1::GetPlanResponse* response) {
  Status status = check(*context, *request);
  const PublishedPlanPtr plan = status.is_ok() ? coordinator_.load()->active() : nullptr;
  if (plan) {
    std::string json = to_json(view_for(*context, *plan->plan));
    if (json.size() > kMaxPlanBytes) {
      status = resource_exhausted(
          fmt::format("the plan takes {} bytes, more than {}", json.size(), kMaxPlanBytes));
    } else {
      response->mutable_plan()->set_epoch(plan->plan->epoch.value());
      response->mutable_plan()->set_json(std::move(json));
    }
  } else if (status.is_ok()) {
    status = not_found("there is no plan yet: no group is registered");
  }
  return answer(*context, "the plan", status);
}

grpc::ServerUnaryReactor* ControllerService::ListNodes(grpc::CallbackServerContext* context,
                                                       const v1::ListNodesRequest* request,
                                                       v1::ListNodesResponse* response) {
  const Status status = check(*context, *request);
  if (status.is_ok()) {
    for (const NodeInformation& node : nodes_for(*context)) {
      v1::ListNodesResponse::Node& added = *response->add_nodes();
      added.set_name(node.name);
      added.set_address(node.address);
      added.set_connected(node.connected);
      added.set_installed(node.installed.value());
      added.set_protocol_version(node.protocol_version);
    }
  }
  return answer(*context, "the nodes", status);
}

grpc::ServerUnaryReactor* ControllerService::ListLinks(grpc::CallbackServerContext* context,
                                                       const v1::ListLinksRequest* request,
                                                       v1::ListLinksResponse* response) {
  const Status status = check_no_tenant(*context, *request);
  if (status.is_ok()) *response = coordinator_.load()->links();
  return answer(*context, "the links", status);
}

grpc::ServerUnaryReactor* ControllerService::Examine(grpc::CallbackServerContext* context,
                                                     const v1::ExamineRequest* request,
                                                     v1::ExamineResponse* response) {
  if (const Status allowed = check_no_tenant(*context, *request); !allowed.is_ok())
    return answer(*context, "an examination", allowed);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const auto longest = static_cast<std::uint64_t>(kMaxInquiryTime.count());
  const Duration time(static_cast<std::int64_t>(std::min(request->time_nanoseconds(), longest)));
  inquiries_->begin(coordinator_.load()->attendance(), time,
                    [this, reactor, response](const Result<v1::ExamineResponse>& answer) {
                      if (answer.is_ok()) *response = *answer;
                      if (answer.is_ok()) suspicions_.list(*response);
                      reactor->Finish(to_grpc(answer.status()));
                    });
  return reactor;
}

}  // namespace square::controller
