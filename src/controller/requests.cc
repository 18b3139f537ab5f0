#include "controller/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "controller/granting.h"

namespace square::controller {
namespace {

Status refusal(const char* what, const std::vector<std::string>& nodes,
               const std::map<std::string, Duration>& unheard, Duration waited) {
  std::vector<std::string> texts;
  for (const std::string& node : nodes) {
    const auto silence = unheard.find(node);
    texts.push_back(silence == unheard.end()
                        ? node
                        : fmt::format("{} (nothing has come over its line to the controller for {:.3g} s)",
                                      node, to_seconds(silence->second)));
  }
  return deadline_exceeded(fmt::format("{} did not install the plan within {:.3g} s and {} disconnected: {}",
                                       what, to_seconds(waited), nodes.size() == 1 ? "was" : "were",
                                       fmt::join(texts, ", ")));
}

}  // namespace

Status Requests::add(Demand demand, Reply& reply, TimePoint now) {
  if (pending_.size() >= kMaxPendingRequests) {
    return resource_exhausted(
        fmt::format("{} registrations are waiting already; try later", pending_.size()));
  }
  if (const GroupSpec* const group = std::get_if<GroupSpec>(&demand)) turns_.ask(group->tenant, now);
  pending_.push_back(std::make_shared<Request>(Request{std::move(demand), std::move(reply), now}));
  return {};
}

void Requests::refuse_late(TimePoint now, const Status& reason, Deferred& deferred) {
  std::erase_if(pending_, [&](const RequestPtr& request) {
    const bool is_late = now >= request->received + patience_;
    if (is_late) answer(request, reason, deferred);
    return is_late;
  });
  std::erase_if(planned_, [&](const Planned& planned) {
    if (!planned.active) answer(planned.request, reason, deferred);
    return !planned.active;
  });
}

void Requests::refuse(const std::function<Status(const Demand&)>& check, Deferred& deferred) {
  std::erase_if(pending_, [&](const RequestPtr& request) {
    const Status refused = check(request->demand);
    if (!refused.is_ok()) answer(request, refused, deferred);
    return !refused.is_ok();
  });
}

std::vector<const Demand*> Requests::take_batch(TimePoint now,
                                                const std::function<bool(const GroupSpec&)>& must_wait) {
  std::vector<RequestPtr> waiting;
  for (RequestPtr& request : pending_) {
    const GroupSpec* const group = std::get_if<GroupSpec>(&request->demand);
    const bool waits = group != nullptr && now < request->received + patience_ &&
                       (now < turns_.due(group->tenant) || must_wait(*group));
    (waits ? waiting : batch_).push_back(std::move(request));
  }
  pending_ = std::move(waiting);
  std::vector<const Demand*> demands;
  for (const RequestPtr& request : batch_) demands.push_back(&request->demand);
  return demands;
}

void Requests::charge(Duration took, TimePoint now) {
  std::map<std::string, double> sessions;
  double all = 0;
  for (const RequestPtr& request : batch_) {
    const GroupSpec* const group = std::get_if<GroupSpec>(&request->demand);
    if (group == nullptr) continue;
    const auto asked = 1.0 + static_cast<double>(sessions_of(*group));
    sessions[group->tenant] += asked;
    all += asked;
  }
  for (const auto& [tenant, asked] : sessions)
    turns_.charge(tenant, std::chrono::duration_cast<Duration>(took * (asked / all)), now);
}

void Requests::judge(std::vector<Verdict> verdicts, Deferred& deferred) {
  SQUARE_CHECK(verdicts.size() == batch_.size(), "one verdict for each demand");
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Verdict& verdict = verdicts[i];
    if (verdict.status.is_ok()) {
      planned_.push_back({std::move(batch_[i]), Answer{std::move(verdict.collectives), Epoch(0),
                                                       verdict.group, std::move(verdict.keys)}});
    } else {
      answer(batch_[i], verdict.status, deferred);
    }
  }
  batch_.clear();
}

// The members of the group; all of them where it is no group that was asked for.
std::vector<std::string> Requests::of_interest(const Request& request,
                                               const std::vector<std::string>& nodes) {
  const GroupSpec* const group = std::get_if<GroupSpec>(&request.demand);
  if (group == nullptr) return nodes;
  std::vector<std::string> members;
  for (const std::string& name : nodes) {
    if (std::ranges::find(group->nodes, name) != group->nodes.end()) members.push_back(name);
  }
  return members;
}

bool Requests::has_planned() const {
  return std::ranges::any_of(planned_, [](const Planned& planned) { return !planned.active; });
}

void Requests::note(const Settlement& settlement) {
  for (Planned& planned : planned_) {
    for (const std::string& name : of_interest(*planned.request, settlement.late)) {
      if (std::ranges::find(planned.late, name) == planned.late.end()) planned.late.push_back(name);
      const auto silence = settlement.unheard.find(name);
      if (silence != settlement.unheard.end()) planned.unheard.insert_or_assign(name, silence->second);
    }
    if (!planned.active) planned.active = settlement.activated;
  }
}

Requests::TheTold Requests::answer_planned(const std::function<std::vector<std::string>(Epoch)>& awaited,
                                           Deferred& deferred) {
  TheTold told;
  std::erase_if(planned_, [&](Planned& planned) {
    if (!planned.active) return false;
    const Request& request = *planned.request;
    const bool is_late = !planned.late.empty();
    if (!is_late && !of_interest(request, awaited(*planned.active)).empty()) return false;
    if (const GroupSpec* const group = std::get_if<GroupSpec>(&request.demand)) {
      Told& members = told[{group->name, planned.made.group}];
      (is_late ? members.out : members.in).push_back(group->registrant);
    }
    if (!is_late) {
      planned.made.epoch = *planned.active;
      answer(planned.request, std::move(planned.made), deferred);
    } else {
      const bool is_group = std::holds_alternative<GroupSpec>(request.demand);
      answer(planned.request,
             refusal(is_group ? "members of the group" : "nodes", planned.late, planned.unheard, patience_),
             deferred);
    }
    return true;
  });
  for (auto& [group, members] : told)
    std::erase_if(members.out, [&](const std::string& node) { return is_waiting(group.first, node); });
  return told;
}

bool Requests::is_waiting(const std::string& group, const std::string& node) const {
  return std::ranges::any_of(planned_, [&](const Planned& planned) {
    const GroupSpec* const spec = std::get_if<GroupSpec>(&planned.request->demand);
    return spec != nullptr && spec->name == group && spec->registrant == node;
  });
}

void Requests::fail_all(const Status& reason, Deferred& deferred) {
  for (const RequestPtr& request : pending_) answer(request, reason, deferred);
  for (const RequestPtr& request : batch_) answer(request, reason, deferred);
  for (const Planned& planned : planned_) answer(planned.request, reason, deferred);
  pending_.clear();
  planned_.clear();
}

void Requests::answer(const RequestPtr& request, Result<Answer> result, Deferred& deferred) {
  if (std::exchange(request->answered, true)) return;
  deferred.push_back([request, result = std::move(result)] { request->reply(result); });
}

Requests::TimePoint Requests::next_end(TimePoint now, TimePoint latest) const {
  for (const RequestPtr& request : pending_) {
    latest = std::min(latest, request->received + patience_);
    const GroupSpec* const group = std::get_if<GroupSpec>(&request->demand);
    const TimePoint due = group == nullptr ? now : turns_.due(group->tenant);
    if (due > now) latest = std::min(latest, due);
  }
  return latest;
}

bool absorb(const Requests::TheTold& told, GroupRegistry& registry,
            const std::function<bool(const std::string&)>& is_there) {
  bool has_ended = false;
  for (const auto& [group, members] : told) {
    const auto& [name, number] = group;
    if (!members.in.empty()) registry.note_told(name, number, members.in);
    for (const std::string& node : members.out)
      has_ended = registry.note_failed(name, number, node, is_there) || has_ended;
  }
  return has_ended;
}

}  // namespace square::controller
