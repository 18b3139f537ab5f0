#include "controller/grpc/key_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace square::controller {
namespace {

trust::KeyHolders holders_of(const GroupSpec& group) {
  trust::KeyHolders holders{group.name, group.tenant, {}};
  std::set<std::string> seen;
  for (const std::string& node : group.nodes) {
    if (seen.insert(node).second) holders.nodes.push_back(node);
  }
  return holders;
}

}  // namespace

Result<std::string> KeyExchange::make(const GroupSpec& group, TimePoint end) const {
  const trust::KeyHolders holders = holders_of(group);
  v1::ListKeySharesRequest request;
  *request.mutable_nodes() = {holders.nodes.begin(), holders.nodes.end()};
  for (Duration wait = kMinShareWait;; wait = std::min(2 * wait, kMaxShareWait)) {
    v1::ListKeySharesResponse response;
    SQUARE_RETURN_IF_ERROR(ask_(request, response, end));
    if (response.nodes_size() != request.nodes_size())
      return internal_error("the controller answers other nodes than it was asked for");
    std::vector<std::string> shares;
    std::string away;
    for (int i = 0; i < response.nodes_size() && away.empty(); ++i) {
      if (!response.nodes(i).connected()) {
        away = request.nodes(i);
      } else if (response.nodes(i).share().empty()) {
        return failed_precondition(
            fmt::format("group \"{}\": node \"{}\" seals nothing, and this one does; start all nodes alike",
                        group.name, request.nodes(i)));
      }
      shares.push_back(response.nodes(i).share());
    }
    if (away.empty()) return keys_->wrap(holders, shares);
    if (std::chrono::steady_clock::now() + wait >= end) {
      return deadline_exceeded(fmt::format(
          "group \"{}\": node \"{}\" is not connected, and blocks are sealed for it", group.name, away));
    }
    if (!pause_(wait)) return cancelled("the node leaves the overlay");
  }
}

Result<trust::GroupKeyPtr> KeyExchange::open(const GroupSpec& group, std::uint64_t number,
                                             const std::string& wrapped) const {
  if (wrapped.empty() && !keys_) return trust::GroupKeyPtr();
  if (wrapped.empty() || !keys_) {
    return failed_precondition(fmt::format(
        "group \"{}\" {}; start all nodes alike", group.name,
        keys_ ? "has no key, and this node seals its blocks" : "has a key, and this node seals nothing"));
  }
  return keys_->unwrap(holders_of(group), group_label(group.name, number), wrapped);
}

}  // namespace square::controller
