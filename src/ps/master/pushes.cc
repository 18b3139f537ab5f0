#include "ps/master/pushes.h"

#include <fmt/format.h>

#include <algorithm>

namespace square::ps {

void drop_everywhere(const Desk& desk, Members& members, std::uint64_t ticket) {
  for (const v1::PsShard& shard : desk.committed.record.layout().shards()) {
    const ServerEntry* const server = members.server(shard.server());
    if (server == nullptr) continue;
    v1::PsOrder order;
    order.set_drop_push(ticket);
    desk.tell(server->peer, std::move(order));
  }
}

void Pushes::begin(Push push) {
  push.since = desk_.now;
  pushes_.emplace(push.ticket, std::move(push));
  grant();
}

bool Pushes::has_of(const std::string& worker) const {
  return std::ranges::any_of(pushes_, [&](const auto& entry) { return entry.second.worker == worker; });
}

std::size_t Pushes::senders(const std::string& server) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      pushes_, [&](const auto& entry) { return entry.second.moving.contains(server); }));
}

const v1::PsShard* Pushes::next_server(const Push& push) const {
  const bool has_waited = push.moving.empty() && desk_.now - push.since >= kStep;
  const v1::PsShard* best = nullptr;
  std::size_t least = 0;
  for (const v1::PsShard& shard : desk_.committed.record.layout().shards()) {
    if (push.moving.contains(shard.server()) || push.squared_norms.contains(shard.server())) continue;
    const std::size_t others = senders(shard.server());
    if ((others > 0 && !has_waited) || (best != nullptr && others >= least)) continue;
    best = &shard;
    least = others;
  }
  return best;
}

void Pushes::grant() {
  // A server each, the one with the fewest first, until there is none to give.
  bool has_given = true;
  while (has_given) {
    has_given = false;
    std::vector<Push*> order;
    for (auto& [ticket, push] : pushes_) order.push_back(&push);
    std::ranges::stable_sort(order, {}, [](const Push* push) { return push->moving.size(); });
    for (Push* const push : order) {
      const v1::PsShard* const shard = next_server(*push);
      if (shard == nullptr) continue;
      send(*push, *shard);
      has_given = true;
      break;
    }
  }
}

void Pushes::send(Push& push, const v1::PsShard& shard) {
  const WorkerEntry* const worker = members_.worker(push.worker);
  const ServerEntry* const server = members_.server(shard.server());
  if (worker == nullptr || server == nullptr) return;
  push.moving[shard.server()] = {desk_.now, push.failures[shard.server()]};
  v1::PsTransfer transfer = lines_.transfer(*worker, *server);
  transfer.set_ticket(push.ticket);
  transfer.set_is_seed(push.is_seed);
  transfer.set_version(push.base_version);
  *transfer.mutable_shard() = shard;
  v1::PsOrder take;
  *take.mutable_take_push() = transfer;
  desk_.tell(server->peer, std::move(take));
  v1::PsOrder give;
  *give.mutable_send_push() = std::move(transfer);
  desk_.tell(worker->peer, std::move(give));
}

Pushes::Outcome Pushes::on_taken(const ServerEntry& server, const v1::PsPushTaken& taken) {
  const auto found = pushes_.find(taken.ticket());
  if (found == pushes_.end() || !found->second.moving.contains(server.name)) return {};
  Push& push = found->second;
  if (taken.has_error()) return fail(push, server, from_message(taken.error()));
  push.moving.erase(server.name);
  push.squared_norms[server.name] = taken.squared_norm();
  Outcome outcome;
  if (push.squared_norms.size() == static_cast<std::size_t>(desk_.committed.record.layout().shards_size())) {
    outcome.held = std::move(push);
    pushes_.erase(found);
  }
  grant();
  return outcome;
}

Pushes::Outcome Pushes::on_failed(const WorkerEntry& worker, const v1::PsPushFailed& failed) {
  const auto found = pushes_.find(failed.ticket());
  const ServerEntry* const server = members_.server(failed.server());
  if (found == pushes_.end() || server == nullptr) return {};
  const bool is_under_way = found->second.worker == worker.name &&
                            found->second.moving.contains(failed.server()) &&
                            lines_.transfer(worker, *server).line() == failed.line();
  return is_under_way ? fail(found->second, *server, from_message(failed.error())) : Outcome{};
}

Pushes::Outcome Pushes::fail(Push& push, const ServerEntry& server, const Status& reason) {
  if (const WorkerEntry* const worker = members_.worker(push.worker)) lines_.note_failure(*worker, server);
  push.moving.erase(server.name);
  Outcome outcome;
  if (++push.failures[server.name] >= kTransferAttempts) {
    outcome.reason = reason.with_context(fmt::format("to server \"{}\"", server.name));
    outcome.failed = remove(push.ticket);
  } else {
    grant();
  }
  return outcome;
}

std::optional<Push> Pushes::remove(std::uint64_t ticket) {
  auto node = pushes_.extract(ticket);
  if (node.empty()) return std::nullopt;
  Push& push = node.mapped();
  for (const auto& [name, moving] : push.moving) {
    const WorkerEntry* const worker = members_.worker(push.worker);
    const ServerEntry* const server = members_.server(name);
    if (worker != nullptr && server != nullptr) lines_.note_failure(*worker, *server);
  }
  drop_everywhere(desk_, members_, ticket);
  grant();
  return std::move(push);
}

std::vector<Push> Pushes::remove_all(const std::string& worker) {
  std::vector<std::uint64_t> tickets;
  for (const auto& [ticket, push] : pushes_) {
    if (worker.empty() || push.worker == worker) tickets.push_back(ticket);
  }
  std::vector<Push> removed;
  for (const std::uint64_t ticket : tickets) {
    if (auto push = remove(ticket)) removed.push_back(std::move(*push));
  }
  return removed;
}

std::vector<Push> Pushes::remove_all() { return remove_all(std::string()); }

std::vector<Pushes::Outcome> Pushes::on_time() {
  std::vector<Outcome> outcomes;
  std::map<std::uint64_t, std::string> late;
  for (const auto& [ticket, push] : pushes_) {
    for (const auto& [server, moving] : push.moving) {
      if (desk_.now - moving.since > desk_.settings.step_timeout) late[ticket] = server;
    }
  }
  for (const auto& [ticket, server] : late) {
    Outcome& outcome = outcomes.emplace_back();
    outcome.reason = deadline_exceeded(fmt::format("server \"{}\" did not get it in time", server));
    outcome.failed = remove(ticket);
  }
  grant();
  return outcomes;
}

}  // namespace square::ps
