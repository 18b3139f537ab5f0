#include "ps/master/outcomes.h"

#include <utility>
#include <vector>

namespace square::ps {

void Outcomes::tell(const std::string& name, std::uint64_t number, v1::PsPushOutcome::Kind kind,
                    const std::string& reason) {
  const WorkerEntry* const worker = parts_.members.worker(name);
  if (worker == nullptr) return;
  v1::PsOrder order;
  order.mutable_outcome()->set_number(number);
  order.mutable_outcome()->set_kind(kind);
  order.mutable_outcome()->set_reason(reason);
  parts_.desk.tell(worker->peer, std::move(order));
}

void Outcomes::tell_committed(const v1::PsPushed& pushed, std::uint64_t version) {
  const WorkerEntry* const worker = parts_.members.worker(pushed.worker());
  if (worker == nullptr || worker->incarnation != pushed.incarnation()) return;
  v1::PsOrder order;
  v1::PsPushOutcome& outcome = *order.mutable_outcome();
  outcome.set_number(pushed.number());
  outcome.set_kind(v1::PsPushOutcome::COMMITTED);
  outcome.set_version(version);
  outcome.set_decision(pushed.decision());
  parts_.desk.tell(worker->peer, std::move(order));
}

void Outcomes::skip(const Push& push, const Status& reason) {
  WorkerEntry* const worker = parts_.members.worker(push.worker);
  if (worker == nullptr || worker->incarnation != push.incarnation || push.is_orphan) {
    // Its worker is gone, and what it did with it.
    for (const std::uint64_t chunk : push.chunks) parts_.chunks.give_back(chunk, push.worker);
    return;
  }
  ++worker->skipped;
  tell(push.worker, push.number, v1::PsPushOutcome::SKIPPED, reason.message());
}

void Outcomes::tell_doubts() {
  const v1::PsLayout& layout = parts_.desk.committed.record.layout();
  const bool are_heard = parts_.members.are_heard(layout, parts_.desk.now - parts_.desk.settings.patience);
  if (are_heard && !parts_.rounds.is_slow()) return;
  std::vector<Push*> open = parts_.rounds.open_pushes();
  for (auto& [ticket, push] : parts_.pushes.all()) open.push_back(&push);
  for (Push* const push : open) {
    if (push->is_seed || std::exchange(push->is_told_doubt, true)) continue;
    tell(push->worker, push->number, v1::PsPushOutcome::IN_DOUBT, "a server does not answer");
  }
}

}  // namespace square::ps
