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
  return std::ranges::max_element(askers, {}, &Asker<GroupRegistration>::end)->end;
}

Registering::Registering(Calls& calls, Recollection& recollection, const NodeControlOptions& options)
    : calls_(calls),
      recollection_(recollection),
      node_(options.node_name),
      identity_(options.identity),
      keys_(options.group_keys, calls.clock, calls.executor) {}

void Registering::ask(GroupSpec group, TimePoint begun, Duration timeout, Done done) {
  group.registrant = node_;
  group.closed_number = recollection_.closed_number(group.name);
  if (identity_) group.grant = identity_->grant_of(group.tenant);
  const std::string key = to_message(group).SerializeAsString();
  const auto known = std::ranges::find_if(
      answered_, [&](const Answered& one) { return one.losses == calls_.line.losses() && one.key == key; });
  if (known != answered_.end()) return done(known->made);
  const auto [entry, is_new] = registrations_.try_emplace(key);
  if (is_new) {
    recollection_.begin_registering(group.name);
    entry->second = std::make_shared<Registration>(Registration{key, std::move(group)});
  }
  const RegistrationPtr one = entry->second;
  one->askers.push_back({begun, begun + bounded(timeout), std::move(done)});
  calls_.watch(one->askers.back(), [this, one] { end_late(one); });
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
    if (is_there(one) && one->call.losses != calls_.line.losses()) give_up_call(one);
    end_late(one);
    step(one);
  }
}

// The answer and the activation would come over a connection that is gone.
void Registering::give_up_call(const RegistrationPtr& one) {
  one->call.losses = calls_.line.losses();
  const bool was_asked = calls_.cancel(one->call) || one->made;
  one->making_keys = 0;
  one->wrapped_keys.clear();
  one->made.reset();
  if (was_asked) try_again(one, unavailable("the connection to the controller broke"));
}

// As soon as the controller is there, and has heard of what was closed before.
void Registering::step(const RegistrationPtr& one) {
  if (!is_there(one)) return;
  // The answer and the activation come in any order: the plan must be active here as well.
  if (one->made && one->made->epoch <= calls_.line.activated()) return finish(one);
  if (one->made || one->call.number != 0 || one->making_keys != 0 || one->call.rests) return;
  if (calls_.line.is_welcome() && calls_.line.has_told_closed(one->group.name)) begin_call(one);
}

void Registering::begin_call(const RegistrationPtr& one) {
  one->running = recollection_.number_of(one->group.name);
  v1::RegisterGroupRequest question = to_message(one->group);
  question.set_keys(one->wrapped_keys.empty() ? recollection_.keys_of(one->group.name) : one->wrapped_keys);
  calls_.begin<v1::RegisterGroupResponse>(one, question, one->end(),
                                          [this, one](const auto& response) { answered(one, response); });
}

void Registering::answered(const RegistrationPtr& one, const Result<v1::RegisterGroupResponse>& response) {
  end_late(one);
  if (!is_there(one)) return;
  if (!response.is_ok()) {
    const Status why = response.status().with_context(calls_.line.controller_name());
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
  const std::uint64_t making = one->making_keys = calls_.number();
  const auto is_wanted = [this, one, making] { return is_there(one) && one->making_keys == making; };
  const auto ask = [this, one](const v1::ListKeySharesRequest& question,
                               std::function<void(const Result<KeyExchange::Share>&)> then) {
    calls_.begin(one, question, one->end(), std::move(then));
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
    one->busy = status.with_context(calls_.line.controller_name());
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
  calls_.rest(one, pause, [this, one] { step(one); });
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
  recollection_.note_group(group, made);
  answered_.push_front({one->key, group.name, made, calls_.line.losses()});
  if (answered_.size() > kMaxAnswered) answered_.pop_back();
  end(one, made);
}

void Registering::close_group(const std::string& group, std::uint64_t number) {
  std::erase_if(answered_, [&](const Answered& one) { return one.group == group; });
  recollection_.forget_group(group, number);
  calls_.line.close_group(group, number);
}

void Registering::end(const RegistrationPtr& one, const Result<GroupRegistration>& result) {
  calls_.cancel(one->call);
  registrations_.erase(one->key);
  recollection_.end_registering(one->group.name);
  for (const auto& asker : std::exchange(one->askers, {})) asker.tell(calls_.executor, result);
}

// Those whose time is over hear why; without others the registration is given up.
void Registering::end_late(const RegistrationPtr& one) {
  if (!is_there(one)) return;
  const auto is_late = [this](const auto& asker) { return calls_.is_late(asker); };
  std::vector<std::pair<Asker<GroupRegistration>, Status>> late;
  for (const auto& asker : one->askers) {
    if (is_late(asker)) late.emplace_back(asker, why_late(*one, asker));
  }
  std::erase_if(one->askers, is_late);
  if (one->askers.empty()) end(one, cancelled("nobody waits for it any more"));
  for (const auto& [asker, why] : late) asker.tell(calls_.executor, why);
}

Status Registering::why_late(const Registration& one, const Asker<GroupRegistration>& asker) const {
  const std::string group = fmt::format("group \"{}\"", one.group.name);
  if (asker.end > calls_.clock.now()) return calls_.line.absence().with_context(group);
  if (!calls_.line.has_told_closed(one.group.name)) {
    return deadline_exceeded(
        fmt::format("{} has not heard in time that {} was closed", calls_.line.controller_name(), group));
  }
  if (!calls_.line.is_welcome()) return calls_.line.absence().with_context(group);
  if (one.busy) return deadline_exceeded(one.busy->message());
  if (one.lost && one.call.number == 0 && !one.made) return one.lost->with_context(group);
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
