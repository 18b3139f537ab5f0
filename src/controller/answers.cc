#include "controller/answers.h"

#include <map>
#include <string>
#include <utility>

namespace square::controller {

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
