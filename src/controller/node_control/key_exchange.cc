#include "controller/node_control/key_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace square::controller {
namespace {

// Wrapping a key for a node takes about as long as copying this much.
constexpr std::size_t kWrapBytes = std::size_t{256} << 10U;

trust::KeyHolders holders_of(const GroupSpec& group) {
  trust::KeyHolders holders{group.name, group.tenant, {}};
  std::set<std::string> seen;
  for (const std::string& node : group.nodes) {
    if (seen.insert(node).second) holders.nodes.push_back(node);
  }
  return holders;
}

}  // namespace

struct KeyExchange::Making {
  trust::KeyHolders holders;
  TimePoint end;
  Ask ask;
  std::function<bool()> is_wanted;
  Made made;
  Duration wait = kMinShareWait;
};

void KeyExchange::make(const GroupSpec& group, TimePoint end, Ask ask, std::function<bool()> is_wanted,
                       Made made) const {
  look(std::make_shared<Making>(
      Making{holders_of(group), end, std::move(ask), std::move(is_wanted), std::move(made)}));
}

void KeyExchange::look(const MakingPtr& making) const {
  if (!making->is_wanted()) return;
  v1::ListKeySharesRequest request;
  *request.mutable_nodes() = {making->holders.nodes.begin(), making->holders.nodes.end()};
  making->ask(request, [this, making](const Result<Share>& shares) { weigh(making, shares); });
}

void KeyExchange::weigh(const MakingPtr& making, const Result<Share>& response) const {
  const trust::KeyHolders& holders = making->holders;
  if (!response.is_ok()) return making->made(response.status());
  if (static_cast<std::size_t>(response->nodes_size()) != holders.nodes.size())
    return making->made(internal_error("the controller answers other nodes than it was asked for"));
  std::vector<std::string> shares;
  for (int i = 0; i < response->nodes_size(); ++i) {
    const std::string& node = holders.nodes[static_cast<std::size_t>(i)];
    if (!response->nodes(i).connected()) {
      if (clock_.now() + making->wait >= making->end) {
        return making->made(deadline_exceeded(
            fmt::format("group \"{}\": node \"{}\" is not connected, and blocks are sealed for it",
                        holders.group, node)));
      }
      executor_.post_at(clock_.now() + making->wait, [this, making] { look(making); });
      making->wait = std::min(2 * making->wait, kMaxShareWait);
      return;
    }
    if (response->nodes(i).share().empty()) {
      return making->made(failed_precondition(
          fmt::format("group \"{}\": node \"{}\" seals nothing, and this one does; start all nodes alike",
                      holders.group, node)));
    }
    shares.push_back(response->nodes(i).share());
  }
  wrap(making, std::move(shares));
}

// Beside the strand: for many nodes it takes seconds, and heartbeats go on.
void KeyExchange::wrap(const MakingPtr& making, std::vector<std::string> shares) const {
  const std::size_t cost = shares.size() * kWrapBytes;
  executor_.work(cost, [&executor = executor_, keys = keys_, making, shares = std::move(shares)] {
    executor.post([making, made = keys->wrap(making->holders, shares)] {
      if (making->is_wanted()) making->made(made);
    });
  });
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
