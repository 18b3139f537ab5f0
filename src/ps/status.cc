#include "ps/status.h"

namespace square::ps {
namespace {

MemberStatus to_status(const v1::PsMember& message) {
  MemberStatus member;
  member.name = message.name();
  member.is_server = message.is_server();
  member.is_connected = message.is_connected();
  member.base_version = message.base_version();
  member.pushes = message.pushes();
  member.excluded = message.excluded();
  member.skipped = message.skipped();
  member.staleness = message.staleness();
  member.push_seconds = message.push_seconds();
  member.pull_seconds = message.pull_seconds();
  member.wait_seconds = message.wait_seconds();
  member.interval_seconds = message.interval_seconds();
  member.norm = message.norm();
  member.score = message.score();
  member.first_element = message.shard().begin();
  member.elements = message.shard().end() - message.shard().begin();
  member.update_seconds = message.update_seconds();
  member.snapshot_seconds = message.snapshot_seconds();
  return member;
}

RoundStatus to_status(const v1::PsRound& message) {
  RoundStatus round;
  round.version = message.version();
  round.norm = message.norm();
  round.factor = message.factor();
  round.seconds = message.seconds();
  for (const v1::PsPushed& pushed : message.pushes()) round.pushes.push_back(to_push(pushed));
  for (const v1::PsRound::Part& part : message.parts()) {
    const v1::PsShard& shard = part.shard();
    round.parts.push_back({shard.server(), shard.begin(), shard.end() - shard.begin(), part.hash()});
  }
  return round;
}

}  // namespace

RoundPush to_push(const v1::PsPushed& pushed) {
  return {pushed.worker(),
          pushed.base_version(),
          pushed.tokens(),
          {pushed.chunks().begin(), pushed.chunks().end()},
          static_cast<Decision>(pushed.decision()),
          pushed.norm(),
          pushed.score(),
          pushed.weight()};
}

MasterStatus to_status(const v1::PsAnswer& answer) {
  MasterStatus status;
  status.version = answer.version();
  status.tokens = answer.tokens();
  status.chunks = answer.chunks();
  status.chunks_done = answer.chunks_done();
  status.chunks_held = answer.chunks_leased();
  status.rounds_skipped = answer.rounds_skipped();
  status.waits_for = answer.waits_for();
  status.moves_shards = answer.moves_shards();
  for (const v1::PsMember& member : answer.members()) status.members.push_back(to_status(member));
  for (const v1::PsRound& round : answer.rounds()) status.rounds.push_back(to_status(round));
  return status;
}

}  // namespace square::ps
