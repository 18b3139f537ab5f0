#include "world/troubles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "world/world.h"

namespace square::test {

using namespace std::chrono_literals;

namespace {

// Stopped or on its own for this long, a node may be taken for gone.
constexpr Duration kNoticed = 7s;
// A controller that is reached for this long has been heard.
constexpr Duration kLastWord = 1s;

}  // namespace

void Troubles::plan() {
  faults_.after(dice_.between(3'000ms, 15'000ms), [this] { begin(); });
}

void Troubles::begin() {
  if (!world_.is_settled() && faults_.log().empty()) return faults_.after(100ms, [this] { begin(); });
  const std::size_t site = dice_.one_in(2) ? 0 : dice_.below(world_.size());
  if (!world_.site(site).is_alive()) return;
  switch (dice_.below(4)) {
    case 0: kill(site); break;
    case 1:
    case 2: stop(site); break;
    default: split();
  }
  if (faults_.log().size() < 2 && dice_.one_in(3))
    faults_.after(dice_.between(1'000ms, 30'000ms), [this] { begin(); });
}

void Troubles::kill(std::size_t site) {
  const bool silently = dice_.one_in(3);
  faults_.note(fmt::format("n{} is killed{}", site, silently ? " with its host" : ""));
  faults_.note_killing();
  apart_until_[world_.site(site).name()] = TimePoint::max();
  world_.kill(site, silently);
}

void Troubles::note_apart(const std::string& host, Duration time) {
  TimePoint& until = apart_until_[host];
  until = std::max(until, world_.now() + time);
  if (time >= kNoticed) world_.note_absence();
}

bool Troubles::are_apart(const std::string& one, const std::string& other, TimePoint since) const {
  return std::ranges::any_of(apart_until_, [&](const auto& apart) {
    return (apart.first == one || apart.first == other) && apart.second > since;
  });
}

// The one before is gone: it would have been heard when it was dialled once more.
void Troubles::note_wake(const ControllerProcess& woken) {
  for (const auto& other : world_.controllers()) {
    if (other.get() == &woken || !other->leads()) continue;
    if (!are_apart(other->host(), woken.host(), world_.now() - kLastWord))
      world_.complain(fmt::format("{:.3f} s: {} wakes, and {} leads",
                                  to_seconds(world_.now().time_since_epoch()), woken.address(),
                                  other->address()));
  }
}

void Troubles::stop(std::size_t site) {
  const Duration time = dice_.between(3'000ms, 40'000ms);
  faults_.note(fmt::format("n{} is stopped for {:.3f} s", site, to_seconds(time)));
  faults_.after(time, [] {});
  note_apart(world_.site(site).name(), time);
  world_.simulation().pause(world_.site(site).name(), time);
}

// Nothing goes between some nodes and the others, nor to the controllers there.
void Troubles::split() {
  std::vector<std::size_t> part;
  for (std::size_t site = 0; site < world_.size(); ++site) {
    if (dice_.one_in(2)) part.push_back(site);
  }
  const Duration time = dice_.between(3'000ms, 40'000ms);
  faults_.note(fmt::format("n{} are on their own for {:.3f} s", fmt::join(part, ", n"), to_seconds(time)));
  const auto set = [this, part](bool is_cut) {
    for (std::size_t from = 0; from < world_.size(); ++from) {
      for (std::size_t to = 0; to < world_.size(); ++to) {
        const bool is_within = std::ranges::find(part, from) != part.end();
        if (is_within == (std::ranges::find(part, to) != part.end())) continue;
        world_.change_line(from, to, [is_cut](LinkConditions& line) { line.is_cut = is_cut; });
        faults_.set_cut_off(from, world_.controllers()[to]->address(), 3, is_cut);
      }
    }
  };
  for (std::size_t site = 0; site < world_.size(); ++site) note_apart(world_.site(site).name(), time);
  set(true);
  faults_.after(time, [set] { set(false); });
}

}  // namespace square::test
