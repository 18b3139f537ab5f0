#include "controller/visitors.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/net/address.h"

namespace square::controller {
namespace {

// An IPv4 address; of an IPv6 one the network, as hosts choose the other half.
std::string home_of(std::string_view peer) {
  std::string host(net::host_part(peer));
  if (!host.starts_with('[')) return host;
  constexpr std::size_t kNetworkBytes = 8;
  in6_addr address{};
  const std::string plain = host.substr(1, host.find_first_of("%]") - 1);
  if (inet_pton(AF_INET6, plain.c_str(), &address) != 1) return host;
  return {reinterpret_cast<const char*>(address.s6_addr), kNetworkBytes};
}

}  // namespace

std::optional<Visitors::Key> Visitors::come(Key key, std::string peer, Time now) {
  std::string home = home_of(peer);
  const bool is_known_home = known_homes_.contains(home);
  const auto [entry, is_new] = visitors_.try_emplace(
      key, Visitor{peer, std::move(home), ++last_number_, now, {}, false, 0, {}, 0, now});
  SQUARE_CHECK(is_new, "a connection comes once");
  by_peer_[std::move(peer)] = key;
  waiting_.emplace(entry->second.number, key);
  if (enter(entry->second, is_known_home ? Place::kSilentOfKnown : Place::kSilent)) return std::nullopt;
  return waiting_.at(*most_crowded(room_of(entry->second))->begin());
}

// Where many come at once, as after a restart of the controller, those that are nearly through stay: else
// nobody would ever be.
std::optional<Visitors::Key> Visitors::speak(Key key, Time now,
                                             const std::function<bool(Key)>& is_waited_for) {
  Visitor& visitor = visitors_.at(key);
  if (!is_silent(visitor.place)) return std::nullopt;
  leave_room(visitor);
  if (enter(visitor, visitor.place == Place::kSilent ? Place::kStrangers : Place::kStrangersOfKnown))
    return std::nullopt;
  const Room& room = room_of(visitor);
  const std::set<std::uint64_t>& crowd = *most_crowded(room);
  const Key oldest = waiting_.at(*crowd.begin());
  const bool is_for_others = room.at(visitor.home).size() < crowd.size();
  if (is_for_others || now - visitors_.at(oldest).since >= kYouth) return oldest;
  const auto idle =
      std::ranges::find_if(crowd, [&](std::uint64_t number) { return is_waited_for(waiting_.at(number)); });
  return idle == crowd.end() ? key : waiting_.at(*idle);
}

bool Visitors::know(std::string_view peer, const std::string& caller) {
  Visitor* const visitor = find(peer);
  if (visitor == nullptr) return true;  // it has ended meanwhile
  visitor->lines = 0;
  visitor->explained += kBytesPerCall;
  if (visitor->place == Place::kKnown) return true;
  if (!caller.empty()) {
    std::size_t& count = of_caller_[caller];
    if (count >= kMaxOfCaller) return false;
    ++count;
    visitor->caller = caller;
  }
  leave_room(*visitor);
  visitor->place = Place::kKnown;
  waiting_.erase(visitor->number);
  remember(visitor->home);
  return true;
}

bool Visitors::begin_line(std::string_view peer) {
  Visitor* const visitor = find(peer);
  if (visitor == nullptr) return true;
  visitor->has_line = true;
  return ++visitor->lines <= kMaxLines;
}

void Visitors::hear(std::string_view peer, std::uint64_t bytes) {
  // Records of TLS and frames of HTTP/2 add less than a sixteenth.
  if (Visitor* const visitor = find(peer)) visitor->explained += kBytesPerMessage + bytes + bytes / 16;
}

void Visitors::leave(Key key) {
  const auto found = visitors_.find(key);
  if (found == visitors_.end()) return;
  const Visitor& visitor = found->second;
  leave_room(visitor);
  waiting_.erase(visitor.number);
  if (const auto of = of_caller_.find(visitor.caller); of != of_caller_.end() && --of->second == 0)
    of_caller_.erase(of);
  // The same port may have connected again.
  const auto named = by_peer_.find(visitor.peer);
  if (named != by_peer_.end() && named->second == key) by_peer_.erase(named);
  visitors_.erase(found);
}

bool Visitors::exceeds(Key key, std::uint64_t received, Time now) {
  Visitor& visitor = visitors_.at(key);
  using std::chrono::milliseconds;
  const auto passed = std::chrono::duration_cast<milliseconds>(now - visitor.inspected);
  const auto counted = std::clamp<std::int64_t>(passed.count(), 0, 1000);
  // What is less than a millisecond counts the next time.
  visitor.inspected = counted == passed.count() ? visitor.inspected + passed : now;
  visitor.explained += kBytesPerSecond * static_cast<std::uint64_t>(counted) / 1000;
  // Nothing is saved up.
  visitor.explained = std::min(visitor.explained, received);
  const std::uint64_t messages = visitor.has_line ? message_bytes_ + message_bytes_ / 16 : 0;
  return received - visitor.explained > kUnexplainedBytes + messages;
}

std::vector<Visitors::Key> Visitors::late(Time now) const {
  std::vector<Key> keys;
  for (const auto& [number, key] : waiting_) {
    if (now - visitors_.at(key).since < kStrangerTime) break;
    keys.push_back(key);
  }
  return keys;
}

std::optional<Visitors::Time> Visitors::next_late() const {
  if (waiting_.empty()) return std::nullopt;
  return visitors_.at(waiting_.begin()->second).since + kStrangerTime;
}

std::optional<Visitors::Key> Visitors::most_dispensable() const {
  for (const Room& room : rooms_) {
    if (const auto* const numbers = most_crowded(room)) return waiting_.at(*numbers->begin());
  }
  return std::nullopt;
}

bool Visitors::is_silent(Key key) const {
  const auto found = visitors_.find(key);
  return found != visitors_.end() && is_silent(found->second.place);
}

bool Visitors::is_known(Key key) const {
  const auto found = visitors_.find(key);
  return found != visitors_.end() && found->second.place == Place::kKnown;
}

std::size_t Visitors::strangers() const { return waiting_.size(); }

std::optional<Visitors::Key> Visitors::find_key(std::string_view peer) const {
  const auto named = by_peer_.find(std::string(peer));
  return named == by_peer_.end() ? std::nullopt : std::optional(named->second);
}

Visitors::Visitor* Visitors::find(std::string_view peer) {
  const auto key = find_key(peer);
  return key ? &visitors_.at(*key) : nullptr;
}

// False where there are too many there now.
bool Visitors::enter(Visitor& visitor, Place place) {
  const auto at = static_cast<std::size_t>(place);
  visitor.place = place;
  rooms_[at][visitor.home].insert(visitor.number);
  return ++sizes_[at] <= (is_silent(place) ? kMaxSilent : kMaxStrangers);
}

void Visitors::leave_room(const Visitor& visitor) {
  if (visitor.place == Place::kKnown) return;
  Room& room = rooms_[static_cast<std::size_t>(visitor.place)];
  const auto home = room.find(visitor.home);
  home->second.erase(visitor.number);
  if (home->second.empty()) room.erase(home);
  --sizes_[static_cast<std::size_t>(visitor.place)];
}

const std::set<std::uint64_t>* Visitors::most_crowded(const Room& room) {
  const std::set<std::uint64_t>* most = nullptr;
  for (const auto& [home, numbers] : room) {
    const bool is_more = most == nullptr || numbers.size() > most->size() ||
                         (numbers.size() == most->size() && *numbers.begin() < *most->begin());
    if (is_more) most = &numbers;
  }
  return most;
}

void Visitors::remember(const std::string& home) {
  known_homes_[home] = ++last_known_;
  if (known_homes_.size() <= kMaxKnownHomes) return;
  known_homes_.erase(
      std::ranges::min_element(known_homes_, {}, [](const auto& entry) { return entry.second; }));
}

}  // namespace square::controller
