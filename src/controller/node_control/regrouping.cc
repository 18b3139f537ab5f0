#include "controller/node_control/regrouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/node_control/registering.h"
#include "controller/protocol.h"

namespace square::controller {

void Regrouping::ask(RegroupRequest request, TimePoint begun, Duration timeout, Done done) {
  const auto one =
      std::make_shared<Asked>(Asked{std::move(request), begun, begun + bounded(timeout), std::move(done)});
  asked_.insert(one);
  for (const TimePoint when : {one->end, std::min(one->end, begun + kLongestAbsence)})
    one->timers.push_back(by_.executor.post_at(when, [this, one] { end_late(one); }));
  step(one);
}

void Regrouping::look() {
  for (const AskedPtr& one : std::vector(asked_.begin(), asked_.end())) {
    if (one->call != 0 && one->losses != by_.line.losses()) {
      by_.wire.cancel(std::exchange(one->call, 0));
      rest(one);
    }
    end_late(one);
    step(one);
  }
}

void Regrouping::step(const AskedPtr& one) {
  if (!asked_.contains(one) || one->call != 0 || one->rests || !by_.line.is_welcome()) return;
  one->call = by_.number();
  one->losses = by_.line.losses();
  by_.wire.ask(by_.line.connection(), one->call, question_of(*one), one->end,
               [this, one, call = one->call](const Result<v1::RegroupResponse>& response) {
                 if (one->call != call) return;
                 one->call = 0;
                 answered(one, response);
               });
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
  const Duration left = one.end - by_.clock.now();
  const Duration patience = left - std::min(kAnswerTime, left / 4);
  question.set_timeout_nanoseconds(static_cast<std::uint64_t>(std::max(Duration(0), patience).count()));
  return question;
}

// A controller that is lost comes back, or another does: then it is asked again.
void Regrouping::answered(const AskedPtr& one, const Result<v1::RegroupResponse>& response) {
  if (response.is_ok()) return end(one, from_message(response->group()));
  const StatusCode code = response.status().code();
  const bool is_lost = code == StatusCode::kUnavailable || code == StatusCode::kCancelled;
  if (is_lost && by_.clock.now() + kRetryPause < one->end) return rest(one);
  if (code == StatusCode::kDeadlineExceeded && response.status().message().empty()) {
    rest(one);
    return end_late(one);
  }
  end(one, response.status().with_context(fmt::format("controller at {}", by_.line.controller())));
}

void Regrouping::rest(const AskedPtr& one) {
  one->rests = true;
  by_.executor.post_at(by_.clock.now() + kRetryPause, [this, one] {
    one->rests = false;
    step(one);
  });
}

void Regrouping::end(const AskedPtr& one, Result<GroupSpec> result) {
  if (asked_.erase(one) == 0) return;
  if (one->call != 0) by_.wire.cancel(std::exchange(one->call, 0));
  for (const Executor::TimerId timer : one->timers) by_.executor.cancel(timer);
  one->done(std::move(result));
}

void Regrouping::end_late(const AskedPtr& one) {
  const std::string group = fmt::format("group \"{}\"", one->request.group);
  const bool is_late = one->end <= by_.clock.now();
  if (by_.line.is_given_up(one->begun) || (is_late && !by_.line.is_welcome())) {
    end(one, by_.line.absence().with_context(group));
  } else if (is_late) {
    end(one, deadline_exceeded(fmt::format("controller at {}: {} did not go on within {:.3g} s",
                                           by_.line.controller(), group, to_seconds(one->end - one->begun))));
  }
}

void Regrouping::stop(const Status& reason) {
  for (const AskedPtr& one : std::vector(asked_.begin(), asked_.end())) end(one, reason);
}

}  // namespace square::controller
