#include "controller/node_control/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/net/socket.h"
#include "base/planted.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

bool says(const Status& status, const char* words) {
  return status.message().find(words) != std::string::npos;
}

// It has said something, if not that it is the controller.
bool has_answered(const Status& why) {
  switch (why.code()) {
    case StatusCode::kUnavailable: return says(why, kStandsBy);
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded: return false;
    default: return true;
  }
}

}  // namespace

Result<std::vector<std::string>> usual_addresses(const std::string& list) {
  std::vector<std::string> usual;
  std::istringstream text(list);
  for (std::string one; std::getline(text, one, ',');) {
    const auto parsed = net::parse_host_port(one);
    if (!parsed.is_ok()) return parsed.status().with_context("controller_address");
    usual.push_back(parsed->to_string());
  }
  if (usual.empty() || usual.size() > kMaxGiven) {
    return invalid_argument(
        fmt::format("controller_address: {} addresses; name 1 to {}, with commas", usual.size(), kMaxGiven));
  }
  return usual;
}

Candidates::Candidates(std::string node, std::vector<std::string> given, std::optional<Successor> own)
    : node_(std::move(node)), given_(std::move(given)), own_(std::move(own)), current_(given_.front()) {
  if (own_) addresses_[{own_->standing, node_}] = own_->address;
}

void Candidates::learn(const std::string& node, std::uint32_t standing, const std::string& address) {
  if (node == node_) return;
  forget(node);
  if (!address.empty()) addresses_[{standing, node}] = address;
  doubtful_.erase(node);
}

void Candidates::forget(const std::string& node) {
  std::erase_if(addresses_, [&](const auto& entry) { return entry.first.second == node && node != node_; });
}

std::optional<std::vector<LostController>> Candidates::to_be_followed() {
  if (!round_.empty() || !should_wake()) return std::nullopt;
  std::vector<LostController> gone;
  for (const auto& [standing, address] : addresses_) {
    const State& state = states_[address];
    const bool is_dead = state.is_dead() && state.was_soon_refused && !doubtful_.contains(standing.second);
    if (state.is_gone()) gone.push_back({standing.second, is_dead});
  }
  return gone;
}

const std::string& Candidates::next(TimePoint now) {
  if (round_.empty()) begin_round();
  dialled_ = round_.back();
  dialled_at_ = now;
  round_.pop_back();
  return dialled_;
}

const std::string& Candidates::dial_own(TimePoint now) {
  begin_round();
  dialled_ = own_->address;
  dialled_at_ = now;
  return dialled_;
}

std::vector<std::string> Candidates::some_of(const std::vector<std::string>& addresses) {
  std::vector<std::string> some;
  while (some.size() < std::min(kLookedAt, addresses.size()))
    some.push_back(addresses[looked_at_++ % addresses.size()]);
  return some;
}

// Others in turn, and the one that sent it last.
void Candidates::look_around() {
  std::vector<std::string> others;
  for (const auto& [standing, address] : addresses_) {
    if (address != current_ && standing.second != node_) others.push_back(address);
  }
  round_ = some_of(others);
  round_.push_back(current_);
  std::ranges::reverse(round_);
}

// A silent controller holds up the round, so silent ones are dialled last, and dead ones not at all. Among
// the silent ones those before this node's own come last, because their answers decide whether the own one
// wakes. Of those behind it that were given up a few are dialled, in turn: a round is to be over before
// others forget that this node waits at them (kWaitingTime).
void Candidates::begin_round() {
  looks_around_ = std::exchange(must_look_around_, false);
  if (looks_around_) return look_around();
  std::vector<std::string> silent;
  std::vector<std::string> given_up;
  const auto add = [&](const std::string& address) {
    const State& state = states_[address];
    if (!state.is_dead()) (state.silent_since ? silent : round_).push_back(address);
  };
  const bool are_several = given_.size() > 1 && !is_planted(Bug::kOtherAddressesUnused);
  if (!are_several) add(current_);
  for (const auto& [standing, address] : addresses_) {
    if (address == current_) continue;
    const bool is_behind = own_ && Standing{own_->standing, node_} < standing;
    is_behind&& states_[address].is_given_up ? given_up.push_back(address) : add(address);
  }
  for (std::string& address : some_of(given_up)) silent.push_back(std::move(address));
  // Of several that were given one that is dead may be started again.
  if (are_several) {
    const auto current = std::ranges::find(given_, current_);
    const auto next = current == given_.end() ? current : current + 1;
    if (!lost_at_) round_.push_back(current_);
    round_.insert(round_.end(), next, given_.end());
    round_.insert(round_.end(), given_.begin(), current);
    if (lost_at_) round_.push_back(current_);
  }
  if (!is_planted(Bug::kWakesUnlooked)) std::ranges::reverse(silent);
  round_.insert(round_.end(), silent.begin(), silent.end());
  if (round_.empty()) round_.push_back(current_);
  ++rounds_;
  std::ranges::reverse(round_);
}

bool Candidates::is_gone(const std::string& address) const {
  const auto known = states_.find(address);
  return known != states_.end() && known->second.is_gone();
}

// What it said before its silence was long enough, or would have said, is no sign of what it does now.
bool Candidates::is_last_look(const std::string& address) const {
  const auto known = states_.find(address);
  return address == dialled_ && known != states_.end() && known->second.is_overdue(dialled_at_);
}

// It comes first of those that live. That others are silent, or refused, may be the fault of this node's own
// network: most of those that are neither must have lost the controller, too, and wait here.
bool Candidates::should_wake() const {
  if (!own_ || current_ == own_->address) return false;
  std::size_t alive = 0;
  if (!is_gone(current_)) return false;
  for (const auto& [standing, address] : addresses_) {
    if (standing < Standing{own_->standing, node_} && !is_gone(address)) return false;
    if (!is_gone(address)) ++alive;
  }
  return 2 * own_->waiting() > alive;
}

Duration Candidates::patience() const {
  if (is_last_look(dialled_)) return kLastLook;
  if (looks_around_ && dialled_ != current_) return kFirstPatience;
  if (given_.size() < 2) return kMaxWait;
  return kFirstPatience * (1U << static_cast<unsigned>(std::clamp(rounds_ - 1, 0, 5)));
}

void Candidates::welcomed(const std::string& address) {
  rounds_ = 0;
  current_ = address;
  states_.clear();
  round_.clear();
  lost_at_.reset();
}

void Candidates::lost(TimePoint now, const Status& why, bool was_stopped) {
  lost_at_ = now;
  was_stopped_ = was_stopped;
  must_look_around_ = says(why, kHearsTooFew);
}

void Candidates::failed(const std::string& address, const Status& why, TimePoint now) {
  State& state = states_[address];
  if (has_answered(why)) {
    state = {};
  } else if (says(why, std::strerror(ECONNREFUSED))) {
    if (state.refusals > 0 && now - state.refused_at < kRefusalDistance) return;
    ++state.refusals;
    state.refused_at = now;
    if (state.refusals == kRefusalsOfGone)
      state.was_soon_refused = lost_at_ && !was_stopped_ && now - *lost_at_ <= kProofTime;
  } else {
    state.refusals = 0;
    state.is_given_up = is_last_look(address) || (is_planted(Bug::kWakesUnlooked) && state.is_overdue(now));
    if (!state.silent_since) state.silent_since = address == current_ ? lost_at_.value_or(now) : now;
  }
}

}  // namespace square::controller
