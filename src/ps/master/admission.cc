#include "ps/master/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "ps/held.h"
#include "ps/layout.h"
#include "ps/master/origin.h"

namespace square::ps {
void Admission::refuse(PeerId peer, const Status& reason) {
  v1::PsOrder order;
  *order.mutable_refused() = to_message(reason);
  parts_.desk.tell(peer, std::move(order));
  if (peer != 0) parts_.desk.close(peer);
}

Status Admission::check(PeerId peer, const v1::PsHello& hello) const {
  SQUARE_RETURN_IF_ERROR(check_hello(hello));
  Members& members = parts_.members;
  if (members.worker_at(peer) != nullptr || members.server_at(peer) != nullptr) {
    return failed_precondition("a line has one hello: each member opens a line of its own");
  }
  const bool is_known = members.workers().contains(hello.name()) || members.servers().contains(hello.name());
  if (!is_known && members.workers().size() + members.servers().size() >= kMaxMembers) {
    return resource_exhausted(fmt::format("at most {} members may be", kMaxMembers));
  }
  const auto already = [&](const auto& others) {
    const auto found = others.find(hello.name());
    return found != others.end() && found->second.peer != 0 &&
           found->second.incarnation != hello.incarnation();
  };
  if (already(members.workers()) || already(members.servers())) {
    return already_exists(
        fmt::format("\"{}\" is there already; give every member a name of its own", hello.name()));
  }
  if (!hello.has_worker() || parts_.desk.committed.model.tensors().empty()) return {};
  return compare_models(hello.worker().model(), parts_.desk.committed.model);
}

void Admission::on_hello(PeerId peer, const v1::PsHello& hello) {
  if (const Status status = check(peer, hello); !status.is_ok()) {
    refuse(peer, status);
    return;
  }
  if (hello.has_server()) {
    on_server_hello(peer, hello);
  } else {
    on_worker_hello(peer, hello);
  }
}

void Admission::on_server_hello(PeerId peer, const v1::PsHello& hello) {
  if (ServerEntry* const known = parts_.members.server(hello.name())) {
    departures_.lose(*known, unavailable(fmt::format("server \"{}\" began anew", hello.name())));
  }
  ServerEntry& server = parts_.members.servers()[hello.name()];
  server.name = hello.name();
  server.node = hello.node().empty() ? hello.name() : hello.node();
  server.incarnation = hello.incarnation();
  server.peer = peer;
  server.heard = server.came = parts_.desk.now;
  server.capacity_bps = hello.server().capacity_bps();
  server.held.assign(hello.server().held().begin(), hello.server().held().end());
  // Once there is a version its model counts, and many servers may come.
  server.model = parts_.desk.committed.version() == 0 ? hello.server().model() : v1::PsModel();
  parts_.rounds.on_server_back(server);
  // While a round is in doubt nobody is told to drop what it has.
  if (parts_.rounds.is_in_doubt()) return;
  find_version();
  if (parts_.desk.committed.version() != 0) welcome_servers();
}

// Where servers hold versions, training goes on from the newest that all of its layout have. Otherwise it
// begins once enough servers are there and a worker has brought a model.
void Admission::find_version() {
  if (parts_.desk.committed.version() != 0) return;
  if (!parts_.rounds.is_idle() || !parts_.pushes.is_empty()) return;  // the first version is being made
  forget_lost_workers();
  const Origin origin = find_origin(parts_.members);
  trouble_ = origin.trouble;
  if (!trouble_.empty()) return;
  if (origin.record != nullptr) {
    parts_.desk.committed.record = *origin.record;
    parts_.desk.committed.model = *origin.model;
    found();
    return;
  }
  for (auto& [name, server] : parts_.members.servers()) server.held.clear();
  seed();
}

void Admission::forget_lost_workers() {
  std::erase_if(early_, [&](const auto& entry) {
    const WorkerEntry* const worker = parts_.members.worker(entry.first);
    return worker == nullptr || worker->peer == 0;
  });
}

void Admission::found() {
  const v1::PsRecord& record = parts_.desk.committed.record;
  log(LogLevel::kInfo, "ps", "training goes on from version {}", record.version());
  parts_.rounds.restore(record);
  parts_.chunks.restore(record);
  welcome_servers();
  for (auto& [name, server] : parts_.members.servers()) server.model.Clear();
  for (auto& [name, hello] : std::exchange(early_, {})) {
    WorkerEntry* const worker = parts_.members.worker(name);
    if (worker == nullptr || worker->peer == 0) continue;
    if (const Status same = compare_models(hello.model(), parts_.desk.committed.model); !same.is_ok()) {
      refuse(std::exchange(worker->peer, 0), same);
      parts_.members.workers().erase(name);
    } else {
      welcome(*worker, hello);
    }
  }
}

void Admission::welcome_servers() {
  for (auto& [name, server] : parts_.members.servers()) {
    if (server.peer != 0 && !server.is_ready) welcome(server);
  }
}

v1::PsOrder Admission::welcome_order() const {
  const TrainingOptions& settings = parts_.desk.settings;
  v1::PsOrder order;
  v1::PsWelcome& welcome = *order.mutable_welcome();
  welcome.set_maker(parts_.desk.maker);
  welcome.set_version(parts_.desk.committed.version());
  welcome.set_version_maker(parts_.desk.committed.record.maker());
  welcome.set_tokens(parts_.desk.committed.record.tokens());
  *welcome.mutable_layout() = parts_.desk.committed.record.layout();
  welcome.set_pushes_parameters(settings.basis == Basis::kCurrent);
  welcome.set_is_bfloat16(settings.is_bfloat16);
  welcome.set_lr(settings.outer.outer.lr);
  welcome.set_momentum(settings.outer.outer.momentum);
  welcome.set_delay(settings.outer.outer.delay);
  welcome.set_delay_share(settings.outer.outer.delay_share);
  return order;
}

void Admission::welcome(ServerEntry& server) {
  const v1::PsRecord& record = parts_.desk.committed.record;
  if (shard_of(record.layout(), server.name) == nullptr) {
    if (const Status status = check_standby(server, record); !status.is_ok()) {
      refuse(std::exchange(server.peer, 0), status);
    }
    return;
  }
  const bool has_it = record.version() == 0 || server.has(record.version(), record.maker());
  if (!has_it) {
    refuse(
        std::exchange(server.peer, 0),
        data_loss(fmt::format("server \"{}\" has no snapshot of version {}, and nobody else has its shard; "
                              "give it back its folder",
                              server.name, record.version())));
    return;
  }
  server.is_ready = true;
  v1::PsOrder order = welcome_order();
  *order.mutable_welcome()->mutable_model() = parts_.desk.committed.model;
  parts_.desk.tell(server.peer, std::move(order));
}

void Admission::admit(ServerEntry& server, const v1::PsLayout& layout) {
  server.is_ready = true;
  server.held.clear();
  v1::PsOrder order = welcome_order();
  v1::PsWelcome& welcome = *order.mutable_welcome();
  welcome.set_version(0);
  welcome.set_version_maker(0);
  *welcome.mutable_layout() = layout;
  *welcome.mutable_model() = parts_.desk.committed.model;
  parts_.desk.tell(server.peer, std::move(order));
}

void Admission::on_seeded() {
  for (auto& [name, hello] : std::exchange(early_, {})) {
    WorkerEntry* const worker = parts_.members.worker(name);
    if (worker != nullptr && worker->peer != 0) welcome(*worker, hello);
  }
}

bool Admission::is_known_to_workers() {
  for (const auto& [name, hello] : early_) {
    if (hello.base_version() == 0) continue;
    trouble_ = fmt::format("a server that has version {}, which worker \"{}\" trains on",
                           hello.base_version(), name);
    return true;
  }
  return false;
}

// The first version is what a worker brings.
void Admission::seed() {
  if (parts_.desk.committed.version() != 0 || early_.empty() || !parts_.rounds.is_idle() ||
      !parts_.pushes.is_empty())
    return;
  std::vector<ServerShare> shares;
  for (const auto& [name, server] : parts_.members.servers()) {
    if (server.peer == 0) continue;
    if (!server.held.empty()) return;  // find_version() says what is wrong
    shares.push_back({name, server.capacity_bps});
  }
  if (is_known_to_workers()) return;
  const auto& [name, hello] = *early_.begin();
  if (shares.size() < parts_.desk.settings.servers) return;
  parts_.desk.committed.model = hello.model();
  *parts_.desk.committed.record.mutable_layout() = make_layout(hello.model(), shares);
  for (auto& [server, state] : parts_.members.servers())
    state.is_ready = false;  // of another layout, perhaps
  welcome_servers();
  Push push;
  push.ticket = ++parts_.last_ticket;
  push.worker = name;
  push.incarnation = parts_.members.worker(name)->incarnation;
  push.is_seed = true;
  parts_.pushes.begin(std::move(push));
}

void Admission::on_worker_hello(PeerId peer, const v1::PsHello& hello) {
  WorkerEntry* known = parts_.members.worker(hello.name());
  if (known != nullptr && known->incarnation != hello.incarnation()) {
    departures_.remove(hello.name());
    known = nullptr;
  }
  if (known != nullptr) departures_.lose(*known);
  WorkerEntry& worker = parts_.members.workers()[hello.name()];
  worker.name = hello.name();
  worker.node = hello.node().empty() ? hello.name() : hello.node();
  worker.incarnation = hello.incarnation();
  worker.peer = peer;
  worker.heard = parts_.desk.now;
  worker.base_version = hello.worker().base_version();
  if (parts_.desk.committed.version() == 0) {
    early_[worker.name] = hello.worker();
    find_version();
    return;
  }
  welcome(worker, hello.worker());
}

bool Admission::must_start_over(const WorkerEntry& worker, const v1::PsWorkerHello& hello) {
  const v1::PsRecord& record = parts_.desk.committed.record;
  const bool is_lost = hello.base_version() > record.version() ||
                       (hello.base_version() == record.version() && hello.base_maker() != record.maker());
  departures_.release_chunks(worker.name);  // the answer that gave it others may have been lost
  const std::vector<std::uint64_t> leases(hello.leases().begin(), hello.leases().end());
  return is_lost || !parts_.chunks.claim(worker.name, leases);
}

void Admission::welcome(WorkerEntry& worker, const v1::PsWorkerHello& hello) {
  const bool over = must_start_over(worker, hello);
  v1::PsOrder order = welcome_order();
  order.mutable_welcome()->set_must_start_over(over);
  parts_.desk.tell(worker.peer, std::move(order));
  if (over) {
    if (Push* const push = parts_.rounds.push_of(worker.name)) push->is_orphan = true;
    departures_.release_chunks(worker.name);
    worker.base_version = 0;
  } else if (hello.open_push() != 0) {
    settle_open_push(worker, hello);
  }
  if (worker.base_version == 0) parts_.pulls.begin(worker.name, parts_.desk.committed.record, true);
}

void Admission::settle_open_push(WorkerEntry& worker, const v1::PsWorkerHello& hello) {
  const auto is_it = [&](const auto& one) {
    return one.worker() == worker.name && one.incarnation() == worker.incarnation &&
           one.number() == hello.open_push();
  };
  const v1::PsRecord& record = parts_.desk.committed.record;
  const auto last = std::ranges::find_if(record.last_pushes(), is_it);
  if (last != record.last_pushes().end()) {
    v1::PsPushed pushed;
    pushed.set_worker(worker.name);
    pushed.set_incarnation(worker.incarnation);
    pushed.set_number(last->number());
    const auto exact = std::ranges::find_if(record.pushes(), is_it);
    if (exact != record.pushes().end()) pushed.set_decision(exact->decision());
    outcomes_.tell_committed(pushed, record.version());
    parts_.pulls.begin(worker.name, record, true);
    return;
  }
  if (Push* const push = parts_.rounds.push_of(worker.name);
      push != nullptr && push->incarnation == worker.incarnation && push->number == hello.open_push()) {
    push->is_told_doubt = false;
    outcomes_.tell(worker.name, hello.open_push(), v1::PsPushOutcome::ACCEPTED);
    return;
  }
  const std::vector<std::uint64_t> chunks(hello.open_chunks().begin(), hello.open_chunks().end());
  if (parts_.chunks.claim(worker.name, chunks)) {
    outcomes_.tell(worker.name, hello.open_push(), v1::PsPushOutcome::SKIPPED, "it was under way");
    return;
  }
  departures_.release_chunks(worker.name);
  worker.base_version = 0;
  outcomes_.tell(worker.name, hello.open_push(), v1::PsPushOutcome::REFUSED,
                 "its chunks have been given to others");
}

std::string Admission::waits_for() const {
  if (!trouble_.empty()) return trouble_;
  if (parts_.desk.committed.version() == 0) {
    if (parts_.members.servers().size() < parts_.desk.settings.servers) {
      return fmt::format("{} of {} servers", parts_.desk.settings.servers - parts_.members.servers().size(),
                         parts_.desk.settings.servers);
    }
    return early_.empty() ? "a worker with a model" : "the first version";
  }
  std::string missing;
  if (!parts_.members.are_ready(parts_.desk.committed.record.layout(), &missing)) {
    return fmt::format("server \"{}\"", missing);
  }
  return {};
}

}  // namespace square::ps
