#include "node/plan/installed_collective.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/plan/codes.h"

namespace square {

StreamKey key_of(const FrameHeader& header) {
  return {header.epoch, header.session, header.stream, header.origin};
}

void set_stream(FrameHeader& header, const StreamKey& key) {
  header.epoch = key.epoch;
  header.session = key.session;
  header.stream = key.stream;
  header.origin = key.origin;
}

std::size_t depth_of(const PlanStream& stream, SessionKind kind) {
  std::map<NodeId, std::size_t> hops;
  std::size_t deepest = 0;
  const auto reach = [&](NodeId near, NodeId far) {
    deepest = std::max(deepest, hops[far] = hops[near] + 1);
  };
  if (kind == SessionKind::kReduce) {
    for (auto link = stream.links.rbegin(); link != stream.links.rend(); ++link)
      reach(link->second, link->first);
  } else {
    for (const auto& [from, to] : stream.links) reach(from, to);
  }
  return deepest;
}

std::size_t depth_of_code(const PlanSession& session, std::uint32_t code) {
  std::vector<std::size_t> depths(session.streams.size());
  std::size_t deepest = 0;
  for (std::size_t s = 0; s < depths.size(); ++s) {
    const auto& part = session.streams[s].coded;
    if (!part || part->code != code) continue;
    // Terms come before their sum.
    for (const auto& [term, factor] : part->terms) depths[s] = std::max(depths[s], depths[term.index()]);
    depths[s] += depth_of(session.streams[s], session.kind);
    deepest = std::max(deepest, depths[s]);
  }
  return deepest;
}

PlanFrame::PlanFrame(const Plan& of, NodeNames node_names, std::optional<NodeId> node)
    : plan(of), names(std::move(node_names)), self(node), weights(of), latencies(of) {}

InstalledCollective::InstalledCollective(const PlanFrame& frame, const PlanCollective& collective,
                                         const std::vector<Session>& sessions)
    : planned_(collective),
      epoch_(collective.since.value_or(frame.plan.epoch)),
      origin_(tag_of(frame.plan.origin)),
      policy_(frame.plan.policy),
      names_(frame.names),
      self_(frame.self) {
  sessions_.reserve(sessions.size());
  for (const Session& session : sessions) {
    sessions_.push_back(*session.planned);
    sessions_.back().paths.clear();  // nobody here asks for them
    Entry& entry = by_session_.emplace(session.planned->id, Entry{&sessions_.back()}).first->second;
    if (has_codes_of_floats(*entry.session)) entry.over_bytes = as_bytes(*entry.session);
    if (self_) block_sizes_.add(*session.planned, session.block_limit_bytes);
  }
  if (!self_) return;
  for (const auto& [id, entry] : by_session_) {
    for (std::size_t i = 0; i < entry.session->streams.size(); ++i) add_stream(frame, *entry.session, i);
  }
  for (const LocalStream& stream : streams_) by_session_.at(stream.key.session).streams.push_back(&stream);
  join_sums();
}

void InstalledCollective::add_stream(const PlanFrame& frame, const PlanSession& session, std::size_t index) {
  const PlanStream& stream = session.streams[index];
  LocalStream local;
  for (const auto& [from, to] : stream.links) {
    if (to == *self_) local.parents.push_back(name_of(from));
    if (from == *self_) local.children.push_back(name_of(to));
  }
  if (local.parents.empty() && local.children.empty()) return;
  local.key = {epoch_, session.id, StreamIndex(static_cast<std::uint16_t>(index)), origin_};
  local.collective = planned_.id;
  local.tenant = planned_.tenant;
  local.job = planned_.group;
  local.turn = job_turn_of(planned_.op, planned_.id);
  local.tenant_weight = frame.weights.of(planned_.tenant);
  local.kind = session.kind;
  local.rate_bps = stream.rate_bps;
  local.is_spare = stream.is_spare;
  local.weight = planned_.weight * stream.rate_bps / session.rate_bps;
  local.depth = depth_of(stream, session.kind);
  if (session.root == *self_) local.latency = stream.latency.value_or(frame.latencies.longest(stream));
  local.session = &session;
  local.is_root = session.root == *self_;
  local.is_member = std::ranges::find(session.members, *self_) != session.members.end();
  local.is_destination = local.is_member && !local.is_root;
  if (stream.coded) add_code(frame, *stream.coded, local);
  streams_.push_back(std::move(local));
}

// Of a coded stream members need what their sinks name, and the root knows the whole code.
void InstalledCollective::add_code(const PlanFrame& frame, const PlanCodePart& part,
                                   LocalStream& local) const {
  const PlanSession& session = *local.session;
  local.coded = &part;
  local.code = &session.codes[part.code];
  local.depth = depth_of_code(session, part.code);
  local.block = plain_block(part);
  if (local.code->field == FieldKind::kFloat32) {
    const PlanSession& bytes = *by_session_.at(session.id).over_bytes;
    local.over_bytes = {&*bytes.streams[local.key.stream.index()].coded, &bytes.codes[part.code]};
  }
  const auto sink = std::ranges::find(local.code->sinks, *self_, &PlanCode::Sink::member);
  local.is_destination =
      sink != local.code->sinks.end() && std::ranges::count(sink->streams, local.key.stream) > 0;
  if (!local.is_root) return;
  for (const PlanStream& other : session.streams) {
    if (other.coded && other.coded->code == part.code)
      local.latency = std::max(local.latency, other.latency.value_or(frame.latencies.longest(other)));
  }
}

void InstalledCollective::join_sums() {
  for (LocalStream& sum : streams_) {
    if (sum.coded == nullptr || !sum.parents.empty()) continue;
    for (const auto& [term, factor] : sum.coded->terms) {
      StreamKey key = sum.key;
      key.stream = term;
      const auto found = std::ranges::find(streams_, key, &LocalStream::key);
      SQUARE_CHECK(found != streams_.end(), "a term comes to where its sum begins");
      sum.terms.push_back(&*found);
      found->adds_to.push_back(&sum);
    }
  }
}

const LocalStream* InstalledCollective::find(const StreamKey& key) const {
  for (const LocalStream* const stream : streams_of(key.session)) {
    if (stream->key == key) return stream;
  }
  return nullptr;
}

const std::vector<const LocalStream*>& InstalledCollective::streams_of(SessionId session) const {
  static const std::vector<const LocalStream*> kNone;
  const auto found = by_session_.find(session);
  return found == by_session_.end() ? kNone : found->second.streams;
}

const PlanSession* InstalledCollective::session(SessionId session) const {
  const auto found = by_session_.find(session);
  return found == by_session_.end() ? nullptr : found->second.session;
}

ByteRange session_range(const PlanCollective& collective, const PlanSession& session,
                        std::uint64_t operation_bytes) {
  const std::uint64_t planned = collective.size_bytes;
  if (planned == 0 || planned == session.size_bytes) return {0, operation_bytes};
  __extension__ using Wide = unsigned __int128;
  const auto scale = [&](std::uint64_t position) {
    return static_cast<std::uint64_t>(Wide{position} * operation_bytes / planned);
  };
  const std::uint64_t begin = scale(session.offset_bytes);
  return {begin, scale(session.offset_bytes + session.size_bytes) - begin};
}

}  // namespace square
