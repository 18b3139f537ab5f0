#include "controller/answers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "controller/protocol.h"

namespace square::controller {

void take(Coordinator& coordinator, const std::string& node, const NodeLine* line,
          const v1::NodeEvent& event) {
  using Event = v1::NodeEvent::EventCase;
  switch (event.event_case()) {
    case Event::kHeartbeat: return coordinator.heartbeat(node, line, event.heartbeat());
    case Event::kBrokenLinks: return coordinator.broken_links(node, line, event.broken_links());
    case Event::kInstalled:
      return coordinator.installed(node, line, Epoch(event.installed().epoch()), event.installed().moving());
    case Event::kLacking: return coordinator.lacking(node, line, Epoch(event.lacking().epoch()));
    case Event::kClosed: return coordinator.closed(node, line, event.closed());
    case Event::kGoodbye: return coordinator.goodbye(node, line, event.goodbye());
    case Event::kHello:
    case Event::kExamined:
    case Event::kSights:
    case Event::EVENT_NOT_SET: return;  // the last is of a later release
  }
}

void answer(Coordinator& coordinator, const v1::RegisterGroupRequest& question,
            std::function<void(Result<v1::RegisterGroupResponse>)> answered) {
  auto group = from_message(question);
  if (!group.is_ok()) return answered(group.status());
  coordinator.submit(*std::move(group), [answered = std::move(answered)](const Result<Answer>& made) {
    answered(made.is_ok() ? Result(to_message(*made)) : made.status());
  });
}

void answer(Coordinator& coordinator, const v1::RegroupRequest& question,
            std::function<void(Result<v1::RegroupResponse>)> answered, const Granting* granting) {
  const auto longest = static_cast<std::uint64_t>(kMaxWait.count());
  const Duration patience(static_cast<std::int64_t>(std::min(question.timeout_nanoseconds(), longest)));
  Regroup asked{from_message(question), question.node(), {}, {}};
  if (granting != nullptr && asked.request.joiner != 0)
    asked.granted = granting->tenants_of({question.grants().begin(), question.grants().end()}, asked.node);
  coordinator.regroup(std::move(asked), patience,
                      [answered = std::move(answered)](const Result<GroupSpec>& group) {
                        if (!group.is_ok()) return answered(group.status());
                        v1::RegroupResponse response;
                        *response.mutable_group() = to_message(*group);
                        answered(std::move(response));
                      });
}

void answer(const Coordinator& coordinator, const v1::ListKeySharesRequest& question,
            const std::function<void(Result<v1::ListKeySharesResponse>)>& answered) {
  answered(shares_of(question, coordinator.nodes()));
}

v1::RegisterGroupResponse to_message(const Answer& answer) {
  v1::RegisterGroupResponse response;
  for (const CollectiveId id : answer.collectives) response.add_collectives(id.value());
  response.set_epoch(answer.epoch.value());
  response.set_number(answer.group);
  response.set_keys(answer.keys);
  return response;
}

v1::ListKeySharesResponse shares_of(const v1::ListKeySharesRequest& request,
                                    std::vector<NodeInformation> nodes) {
  std::map<std::string, std::string> shares;
  for (NodeInformation& node : nodes) {
    if (node.connected) shares.emplace(std::move(node.name), std::move(node.key_share));
  }
  v1::ListKeySharesResponse response;
  for (const std::string& node : request.nodes()) {
    v1::ListKeySharesResponse::Node& added = *response.add_nodes();
    const auto share = shares.find(node);
    added.set_connected(share != shares.end());
    if (added.connected()) added.set_share(share->second);
  }
  return response;
}

}  // namespace square::controller
