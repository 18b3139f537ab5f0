#include "controller/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/check.h"

namespace square::controller {
namespace {

Status refusal(const char* what, const std::vector<std::string>& nodes, Duration waited) {
  return deadline_exceeded(fmt::format("{} did not install the plan within {:.3g} s and {} disconnected: {}",
                                       what, to_seconds(waited), nodes.size() == 1 ? "was" : "were",
                                       fmt::join(nodes, ", ")));
}

// Of the late nodes, the members of the group; all of them where it is no group that was asked for.
std::vector<std::string> late_members(const GroupSpec* group, const std::vector<std::string>& late) {
  if (group == nullptr) return late;
  std::vector<std::string> members;
  for (const std::string& name : late) {
    if (std::ranges::find(group->nodes, name) != group->nodes.end()) members.push_back(name);
  }
  return members;
}

}  // namespace

Status Requests::add(Demand demand, Reply& reply, TimePoint now) {
  if (pending_.size() >= kMaxPendingRequests) {
    return resource_exhausted(
        fmt::format("{} registrations are waiting already; try later", pending_.size()));
  }
  pending_.push_back(std::make_shared<Request>(Request{std::move(demand), std::move(reply), now}));
  return {};
}

std::vector<const Demand*> Requests::take_batch(TimePoint now,
                                                const std::function<bool(const GroupSpec&)>& must_wait) {
  std::vector<RequestPtr> waiting;
  for (RequestPtr& request : pending_) {
    const GroupSpec* const group = std::get_if<GroupSpec>(&request->demand);
    const bool waits = group != nullptr && now < request->received + patience_ && must_wait(*group);
    (waits ? waiting : batch_).push_back(std::move(request));
  }
  pending_ = std::move(waiting);
  std::vector<const Demand*> demands;
  for (const RequestPtr& request : batch_) demands.push_back(&request->demand);
  return demands;
}

void Requests::judge(std::vector<Verdict> verdicts, Deferred& deferred) {
  SQUARE_CHECK(verdicts.size() == batch_.size(), "one verdict for each demand");
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Verdict& verdict = verdicts[i];
    if (verdict.status.is_ok()) {
      planned_.emplace_back(std::move(batch_[i]),
                            Answer{std::move(verdict.collectives), Epoch(0), verdict.group});
    } else {
      answer(batch_[i], verdict.status, deferred);
    }
  }
  batch_.clear();
}

void Requests::answer_planned(const Activation& activation, Deferred& deferred) {
  for (auto& [request, planned] : planned_) {
    const GroupSpec* const group = std::get_if<GroupSpec>(&request->demand);
    const std::vector<std::string> late = late_members(group, activation.late);
    if (late.empty()) {
      planned.epoch = activation.epoch;
      answer(request, std::move(planned), deferred);
    } else {
      answer(request, refusal(group != nullptr ? "members of the group" : "nodes", late, patience_),
             deferred);
    }
  }
  planned_.clear();
}

void Requests::fail_all(const Status& reason, Deferred& deferred) {
  for (const RequestPtr& request : pending_) answer(request, reason, deferred);
  for (const RequestPtr& request : batch_) answer(request, reason, deferred);
  for (const auto& [request, planned] : planned_) answer(request, reason, deferred);
  pending_.clear();
  planned_.clear();
}

void Requests::answer(const RequestPtr& request, Result<Answer> result, Deferred& deferred) {
  if (std::exchange(request->answered, true)) return;
  deferred.push_back([request, result = std::move(result)] { request->reply(result); });
}

Requests::TimePoint Requests::next_end(TimePoint latest) const {
  for (const RequestPtr& request : pending_) latest = std::min(latest, request->received + patience_);
  return latest;
}

}  // namespace square::controller
