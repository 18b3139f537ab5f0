#include "controller/node_control/registering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

Result<GroupRegistration> registration_of(const GroupSpec& group, const v1::RegisterGroupResponse& response) {
  GroupRegistration made;
  for (const auto id : response.collectives()) made.collectives.emplace_back(id);
  made.epoch = Epoch(response.epoch());
  made.number = response.number();
  made.wrapped_keys = response.keys();
  if (made.collectives.size() == group.collectives.size()) return made;
  return internal_error(fmt::format("the controller answered {} collectives of group \"{}\" for {}",
                                    made.collectives.size(), group.name, group.collectives.size()));
}

}  // namespace

TimePoint Registering::Registration::end() const {
  return std::ranges::max_element(askers, {}, &Asker::end)->end;
}

Registering::Registering(Surroundings surroundings, const NodeControlOptions& options)
    : by_(std::move(surroundings)),
      node_(options.node),
      identity_(options.identity),
      keys_(options.group_keys, by_.clock, by_.executor) {}

void Registering::ask(GroupSpec group, TimePoint begun, Duration timeout, Done done) {
  group.registrant = node_;
  group.closed_number = by_.recollection.closed_number(group.name);
  if (identity_) group.grant = identity_->grant_of(group.tenant);
  const std::string key = to_message(group).SerializeAsString();
  const auto known = std::ranges::find_if(
      answered_, [&](const Answered& one) { return one.losses == by_.line.losses() && one.key == key; });
  if (known != answered_.end()) return done(known->made);
  const auto [entry, is_new] = registrations_.try_emplace(key);
  if (is_new) {
    by_.recollection.begin_registering(group.name);
    entry->second = std::make_shared<Registration>(Registration{key, std::move(group)});
  }
  const RegistrationPtr one = entry->second;
  Asker& asker = one->askers.emplace_back(Asker{begun, begun + bounded(timeout), std::move(done)});
  for (const TimePoint when : {asker.end, std::min(asker.end, begun + kLongestAbsence)})
    asker.timers.push_back(by_.executor.post_at(when, [this, one] { end_late(one); }));
  end_late(one);
  step(one);
}

bool Registering::is_there(const RegistrationPtr& one) const {
  const auto found = registrations_.find(one->key);
  return found != registrations_.end() && found->second == one;
}

void Registering::look() {
  std::vector<RegistrationPtr> all;
  for (const auto& [key, one] : registrations_) all.push_back(one);
  for (const RegistrationPtr& one : all) {
    if (is_there(one) && one->losses != by_.line.losses()) give_up_call(one);
    end_late(one);
    step(one);
  }
}

// The answer and the activation would come over a connection that is gone.
void Registering::give_up_call(const RegistrationPtr& one) {
  one->losses = by_.line.losses();
  const bool was_asked = one->call != 0 || one->made;
  if (one->call != 0) by_.wire.cancel(std::exchange(one->call, 0));
  one->making_keys = 0;
  one->wrapped_keys.clear();
  one->made.reset();
  if (was_asked) try_again(one, unavailable("the connection to the controller broke"));
}

// As soon as the controller is there, and has heard of what was closed before.
void Registering::step(const RegistrationPtr& one) {
  if (!is_there(one)) return;
  // The answer and the activation come in any order: the plan must be active here as well.
  if (one->made && one->made->epoch <= by_.line.activated()) return finish(one);
  if (one->made || one->call != 0 || one->making_keys != 0 || one->rests) return;
  if (by_.line.is_welcome() && by_.line.has_told_closed(one->group.name)) call(one);
}

void Registering::call(const RegistrationPtr& one) {
  one->call = by_.number();
  one->losses = by_.line.losses();
  one->running = by_.recollection.number_of(one->group.name);
  v1::RegisterGroupRequest question = to_message(one->group);
  question.set_keys(one->wrapped_keys.empty() ? by_.recollection.keys_of(one->group.name)
                                              : one->wrapped_keys);
  by_.wire.ask(by_.line.connection(), one->call, question, one->end(),
               [this, one, call = one->call](const Result<v1::RegisterGroupResponse>& response) {
                 if (one->call != call) return;
                 one->call = 0;
                 answered(one, response);
               });
}

void Registering::answered(const RegistrationPtr& one, const Result<v1::RegisterGroupResponse>& response) {
  end_late(one);
  if (!is_there(one)) return;
  if (!response.is_ok()) {
    const Status why = response.status().with_context(fmt::format("controller at {}", by_.line.controller()));
    if (!try_again(one, response.status())) end(one, why);
    return;
  }
  one->busy.reset();
  one->lost.reset();
  // Nobody has brought a key yet.
  if (keys_.is_on() && response->keys().empty() && one->wrapped_keys.empty()) return make_keys(one);
  auto made = registration_of(one->group, *response);
  if (!made.is_ok()) return end(one, made.status());
  one->made = *std::move(made);
  step(one);
}

void Registering::make_keys(const RegistrationPtr& one) {
  const std::uint64_t making = one->making_keys = by_.number();
  const auto is_wanted = [this, one, making] { return is_there(one) && one->making_keys == making; };
  const auto ask = [this, one](const v1::ListKeySharesRequest& question,
                               std::function<void(Result<KeyExchange::Share>)> then) {
    one->call = by_.number();
    by_.wire.ask(by_.line.connection(), one->call, question, one->end(),
                 [one, call = one->call, then = std::move(then)](Result<KeyExchange::Share> shares) {
                   if (one->call != call) return;
                   one->call = 0;
                   then(std::move(shares));
                 });
  };
  keys_.make(one->group, one->end(), ask, is_wanted, [this, one](Result<std::string> made) {
    one->making_keys = 0;
    if (!made.is_ok()) {
      if (!try_again(one, made.status())) end(one, made.status());
      return;
    }
    one->wrapped_keys = *std::move(made);
    step(one);
  });
}

// A controller that is lost comes back, or another does: then it is asked again. One that stops cancels what
// it has not answered. False for what another attempt would not change.
bool Registering::try_again(const RegistrationPtr& one, const Status& status) {
  const StatusCode code = is_planted(Bug::kRegistrationNotRepeated) ? StatusCode::kInternal : status.code();
  const bool is_late = code == StatusCode::kDeadlineExceeded && status.message().empty();
  // Nodes may have other shares by then.
  one->wrapped_keys.clear();
  if (code == StatusCode::kAborted) {
    one->busy = status.with_context(fmt::format("controller at {}", by_.line.controller()));
    rest(one, one->pause);
    one->pause = std::min(2 * one->pause, kMaxBusyWait);
    return true;
  }
  if (code != StatusCode::kUnavailable && code != StatusCode::kCancelled && !is_late) return false;
  one->lost = is_late ? std::nullopt : std::optional(status);
  rest(one, kRetryPause);
  return true;
}

void Registering::rest(const RegistrationPtr& one, Duration pause) {
  one->rests = true;
  by_.executor.post_at(by_.clock.now() + pause, [this, one] {
    one->rests = false;
    step(one);
  });
}

void Registering::finish(const RegistrationPtr& one) {
  GroupRegistration made = *std::exchange(one->made, std::nullopt);
  const GroupSpec& group = one->group;
  if (one->running && *one->running != made.number) {
    close_group(group.name, *one->running);
    close_group(group.name, made.number);
    return end(one,
               failed_precondition(fmt::format(
                   "group \"{}\" has ended without node \"{}\", which the controller had taken for gone: "
                   "make a new group",
                   group.name, node_)));
  }
  auto key = keys_.open(group, made.number, made.wrapped_keys);
  if (!key.is_ok()) {
    // With a key that is not for this process it has no part in the group, which ends when all have left it.
    close_group(group.name, made.number);
    return end(one, key.status());
  }
  made.key = *std::move(key);
  by_.recollection.note_group(group, made);
  answered_.push_front({one->key, group.name, made, by_.line.losses()});
  if (answered_.size() > kMaxAnswered) answered_.pop_back();
  end(one, made);
}

void Registering::close_group(const std::string& group, std::uint64_t number) {
  std::erase_if(answered_, [&](const Answered& one) { return one.group == group; });
  by_.recollection.forget_group(group, number);
  by_.line.close_group(group, number);
}

void Registering::end(const RegistrationPtr& one, const Result<GroupRegistration>& result) {
  if (one->call != 0) by_.wire.cancel(std::exchange(one->call, 0));
  registrations_.erase(one->key);
  by_.recollection.end_registering(one->group.name);
  for (const Asker& asker : std::exchange(one->askers, {})) tell(asker, result);
}

void Registering::tell(const Asker& asker, const Result<GroupRegistration>& result) {
  for (const Executor::TimerId timer : asker.timers) by_.executor.cancel(timer);
  asker.done(result);
}

// Those whose time is over hear why; without others the registration is given up.
void Registering::end_late(const RegistrationPtr& one) {
  if (!is_there(one)) return;
  const TimePoint now = by_.clock.now();
  const auto is_late = [&](const Asker& asker) {
    return asker.end <= now || by_.line.is_given_up(asker.begun);
  };
  std::vector<std::pair<Asker, Status>> late;
  for (const Asker& asker : one->askers) {
    if (is_late(asker)) late.emplace_back(asker, why_late(*one, asker));
  }
  std::erase_if(one->askers, is_late);
  if (one->askers.empty()) end(one, cancelled("nobody waits for it any more"));
  for (const auto& [asker, why] : late) tell(asker, why);
}

Status Registering::why_late(const Registration& one, const Asker& asker) const {
  const std::string group = fmt::format("group \"{}\"", one.group.name);
  if (asker.end > by_.clock.now()) return by_.line.absence().with_context(group);
  if (!by_.line.has_told_closed(one.group.name)) {
    return deadline_exceeded(fmt::format("the controller at {} has not heard in time that {} was closed",
                                         by_.line.controller(), group));
  }
  if (!by_.line.is_welcome()) return by_.line.absence().with_context(group);
  if (one.busy) return deadline_exceeded(one.busy->message());
  if (one.lost && one.call == 0 && !one.made) return one.lost->with_context(group);
  if (one.made) {
    return deadline_exceeded(
        fmt::format("{}: plan {} is not active on node {} in time", group, one.made->epoch.value(), node_));
  }
  return deadline_exceeded(fmt::format("{} was not planned and installed within {:.3g} s", group,
                                       to_seconds(asker.end - asker.begun)));
}

void Registering::stop(const Status& reason) {
  while (!registrations_.empty()) {
    const RegistrationPtr one = registrations_.begin()->second;
    end(one, reason);
  }
}

}  // namespace square::controller
