#include "node/operations/sum_sessions.h"

#include <algorithm>

#include "node/sums/sum_forwarder.h"
#include "node/sums/sum_root.h"

namespace square {

std::shared_ptr<SumSession> SumSessions::find(SessionId session) const {
  const auto found = sums_.find(session);
  return found == sums_.end() ? nullptr : found->second;
}

std::shared_ptr<SumSession> SumSessions::add(const std::shared_ptr<const InstalledCollective>& plan,
                                             const PlanSession& session, const SumShape& shape) {
  OperationHost& host = operation_.host();
  const auto answer = [&host](const LocalStream& stream, const Frame& frame) { host.answer(stream, frame); };
  const auto progress = [this, weak = operation_.weak_from_this(), id = session.id] {
    if (const auto held = weak.lock()) host_.progress(id);
  };
  const auto on_restart = [&host, key = operation_.key(), id = session.id] { host.on_restart(key, id); };
  const auto& node = operation_.node();
  const SumLabel label{session.id, operation_.key().operation, node->options.incarnation, 0, shape};
  std::shared_ptr<SumSession> sums;
  if (session.root == plan->self()) {
    const auto fail = [this](const Status& cause) { operation_.fail(cause, true); };
    const auto on_sum = [this, pair = session.pair](std::size_t block) {
      if (pair) host_.on_sum(*pair, block);
    };
    sums = std::make_shared<SumRoot>(node, plan, label,
                                     SumRoot::Host{answer, fail, progress, on_sum, on_restart});
  } else {
    const auto fill = [&host](const StreamKey& key) { host.fill_stream(key); };
    sums = std::make_shared<SumForwarder>(node, host.links(), plan, label,
                                          SumForwarder::Host{answer, progress, fill, on_restart});
  }
  sums_[session.id] = sums;
  return sums;
}

bool SumSessions::fill(const StreamKey& key) const {
  const auto sums = find(key.session);  // what ends now may let go of it
  return !sums || sums->fill(key);
}

void SumSessions::shed(SessionId session) const {
  if (const auto sums = find(session)) sums->shed();
}

bool SumSessions::runs_before(Epoch epoch) const {
  return std::ranges::any_of(
      sums_, [&](const auto& entry) { return !entry.second->is_done() && entry.second->epoch() < epoch; });
}

void SumSessions::hurry() const {
  for (const auto& [id, sums] : sums_) sums->hurry();
}

void SumSessions::migrate(const std::shared_ptr<const InstalledCollective>& plan) const {
  for (const auto& [id, sums] : sums_) sums->migrate(plan);
}

bool SumSessions::is_done(SessionId session) const {
  const auto found = sums_.find(session);
  return found != sums_.end() && found->second->is_done();
}

bool SumSessions::has_results() const {
  return std::ranges::any_of(sums_, [](const auto& entry) { return entry.second->has_results(); });
}

bool SumSessions::is_quiet() const {
  const auto has_drained = [](const auto& sums) { return sums->is_drained(); };
  return std::ranges::all_of(sums_, [&](const auto& entry) { return has_drained(entry.second); }) &&
         std::ranges::all_of(former_, has_drained);
}

void SumSessions::cancel() const {
  for (const auto& [id, sums] : sums_) sums->cancel();
}

void SumSessions::drop() {
  cancel();
  for (const auto& [id, sums] : sums_) {
    if (!sums->is_drained()) former_.push_back(sums);
  }
  sums_.clear();
}

void SumSessions::abandon() {
  cancel();
  sums_.clear();
}

std::vector<std::string> SumSessions::unfinished() const {
  std::vector<std::string> texts;
  for (const auto& [id, sums] : sums_) {
    if (std::string missing = sums->describe_missing(); !missing.empty()) texts.push_back(std::move(missing));
  }
  return texts;
}

}  // namespace square
