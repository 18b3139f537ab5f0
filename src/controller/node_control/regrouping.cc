#include "controller/node_control/regrouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "controller/protocol.h"

namespace square::controller {

void Regrouping::ask(RegroupRequest request, TimePoint begun, Duration timeout, Done done) {
  const auto one =
      std::make_shared<Asked>(Asked{std::move(request), {begun, begun + bounded(timeout), std::move(done)}});
  asked_.insert(one);
  calls_.watch(one->asker, [this, one] { end_late(one); });
  step(one);
}

void Regrouping::look() {
  for (const AskedPtr& one : std::vector(asked_.begin(), asked_.end())) {
    const bool is_lost = one->call.losses != calls_.line.losses() && !is_planted(Bug::kRegroupedOnce);
    if (is_lost && calls_.cancel(one->call)) rest(one);
    end_late(one);
    step(one);
  }
}

void Regrouping::step(const AskedPtr& one) {
  if (!asked_.contains(one) || one->call.number != 0 || one->call.rests || !calls_.line.is_welcome()) return;
  calls_.begin<v1::RegroupResponse>(one, question_of(*one), one->asker.end,
                                    [this, one](const auto& response) { answered(one, response); });
}

v1::RegroupRequest Regrouping::question_of(const Asked& one) const {
  v1::RegroupRequest question = to_message(one.request);
  question.set_node(node_);
  if (one.request.joiner != 0 && identity_) {
    std::vector<std::string> grants = identity_->grants();
    if (!one.request.tenants.empty()) grants.clear();
    for (const std::string& tenant : one.request.tenants) grants.push_back(identity_->grant_of(tenant));
    for (std::string& grant : grants) question.add_grants(std::move(grant));
  }
  // The controller knows the nodes that are awaited, and names them first.
  const Duration left = one.asker.end - calls_.clock.now();
  const Duration patience = left - std::min(kAnswerTime, left / 4);
  question.set_timeout_nanoseconds(static_cast<std::uint64_t>(std::max(Duration(0), patience).count()));
  return question;
}

// A controller that is lost comes back, or another does: then it is asked again.
void Regrouping::answered(const AskedPtr& one, const Result<v1::RegroupResponse>& response) {
  if (response.is_ok()) return end(one, from_message(response->group()));
  const StatusCode code = response.status().code();
  const bool is_lost = code == StatusCode::kUnavailable || code == StatusCode::kCancelled;
  if (is_lost && !is_planted(Bug::kRegroupedOnce) && calls_.clock.now() + kRetryPause < one->asker.end)
    return rest(one);
  if (code == StatusCode::kDeadlineExceeded && response.status().message().empty()) {
    rest(one);
    return end_late(one);
  }
  end(one, response.status().with_context(calls_.line.controller_name()));
}

void Regrouping::rest(const AskedPtr& one) {
  calls_.rest(one, kRetryPause, [this, one] { step(one); });
}

void Regrouping::end(const AskedPtr& one, Result<GroupSpec> result) {
  if (asked_.erase(one) == 0) return;
  calls_.cancel(one->call);
  one->asker.tell(calls_.executor, std::move(result));
}

void Regrouping::end_late(const AskedPtr& one) {
  if (!calls_.is_late(one->asker)) return;
  const std::string group = fmt::format("group \"{}\"", one->request.group);
  if (!calls_.line.is_welcome()) return end(one, calls_.line.absence().with_context(group));
  const Duration waited = one->asker.end - one->asker.begun;
  end(one, deadline_exceeded(fmt::format("{}: {} did not go on within {:.3g} s",
                                         calls_.line.controller_name(), group, to_seconds(waited))));
}

void Regrouping::stop(const Status& reason) {
  for (const AskedPtr& one : std::vector(asked_.begin(), asked_.end())) end(one, reason);
}

}  // namespace square::controller
