#include "ps/master/record.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace square::ps {
namespace {

void fill_pushes(v1::PsRecord& record, const std::vector<Push>& pushes, const Judgement& judgement) {
  for (std::size_t i = 0; i < pushes.size(); ++i) {
    const Push& push = pushes[i];
    if (push.is_seed) continue;
    v1::PsPushed& pushed = *record.add_pushes();
    pushed.set_worker(push.worker);
    pushed.set_incarnation(push.incarnation);
    pushed.set_number(push.number);
    pushed.set_base_version(push.base_version);
    pushed.set_tokens(push.tokens);
    for (const std::uint64_t chunk : push.chunks) pushed.add_chunks(chunk);
    pushed.set_norm(judgement.norms[i]);
    pushed.set_score(judgement.scores[i]);
    pushed.set_weight(judgement.weights[i]);
    pushed.set_decision(static_cast<std::uint32_t>(judgement.decisions[i]));
    record.set_tokens(record.tokens() + push.tokens);
  }
}

}  // namespace

v1::PsRecord next_record(const v1::PsRecord& before, const std::vector<Push>& pushes,
                         const Judgement& judgement) {
  v1::PsRecord record;
  record.set_version(before.version() + 1);
  *record.mutable_layout() = before.layout();
  *record.mutable_moves() = before.moves();
  record.set_training(before.training());
  record.set_tokens(before.tokens());
  fill_pushes(record, pushes, judgement);
  std::map<std::string, v1::PsLastPush> last;
  for (const v1::PsLastPush& one : before.last_pushes()) last[one.worker()] = one;
  for (const v1::PsPushed& pushed : record.pushes()) {
    v1::PsLastPush& one = last[pushed.worker()];
    one.set_worker(pushed.worker());
    one.set_incarnation(pushed.incarnation());
    one.set_number(pushed.number());
  }
  for (auto& [worker, one] : last) *record.add_last_pushes() = std::move(one);
  return record;
}

void forget_gone_workers(v1::PsRecord& record, const Members& members) {
  auto& last = *record.mutable_last_pushes();
  if (static_cast<std::size_t>(last.size()) <= kMaxMembers) return;
  const auto gone = std::remove_if(last.begin(), last.end(), [&](const v1::PsLastPush& one) {
    return !members.workers().contains(one.worker());
  });
  last.erase(gone, last.end());
}

void note_move(v1::PsRecord& record) {
  auto& moves = *record.mutable_moves();
  moves.Add(record.version());
  if (moves.size() > kMostMoves) moves.erase(moves.begin());
}

std::uint64_t rounds_since(const v1::PsRecord& record, std::uint64_t base) {
  const auto moves =
      std::ranges::count_if(record.moves(), [&](std::uint64_t version) { return version > base; });
  return record.version() - base - static_cast<std::uint64_t>(moves);
}

}  // namespace square::ps
