#include "world/faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "world/world.h"

namespace square::test {

using namespace std::chrono_literals;

namespace {

// Refused by one after the other a node would be for longer than it may be.
constexpr Duration kRefusalsRest = 2s;

// Each this often.
template <typename Fault>
std::vector<Fault> repeated(const std::vector<std::pair<Fault, std::size_t>>& weights) {
  std::vector<Fault> all;
  for (const auto& [fault, weight] : weights) all.insert(all.end(), weight, fault);
  return all;
}

}  // namespace

void Faults::after(Duration wait, std::function<void()> task) {
  end_ = std::max(end_, world_.now() + wait);
  world_.executor().post_at(world_.now() + wait, std::move(task));
}

void Faults::note(const std::string& what) {
  log_.push_back(fmt::format("{:.3f} s: {}", to_seconds(world_.now().time_since_epoch()), what));
}

void Faults::plan(std::size_t count, Duration within, bool has_several) {
  static const std::vector<Fault> kFaults = repeated<Fault>({{&Faults::cut_line, 2},
                                                             {&Faults::refuse_line, 1},
                                                             {&Faults::stall_line, 2},
                                                             {&Faults::worsen_line, 1},
                                                             {&Faults::slow_line, 2},
                                                             {&Faults::mute_line, 2},
                                                             {&Faults::damage_line, 1},
                                                             {&Faults::double_line, 1},
                                                             {&Faults::stall_receiver, 1},
                                                             {&Faults::step_clock, 1},
                                                             {&Faults::cut_power_of_controller, 1},
                                                             {&Faults::pause_node, 2},
                                                             {&Faults::pause_controller, 1},
                                                             {&Faults::kill_relay, 2},
                                                             {&Faults::kill_member, 1},
                                                             {&Faults::kill_controller, 2},
                                                             {&Faults::kill_controller_at_write, 1},
                                                             {&Faults::kill_member_and_controller, 2},
                                                             {&Faults::block_way_to_controller, 1},
                                                             {&Faults::refuse_way_to_controller, 1},
                                                             {&Faults::break_line_to_controller, 1}});
  static const std::vector<Fault> kFaultsOfControllers =
      repeated<Fault>({{&Faults::pause_controller, 2},
                       {&Faults::kill_controller, 2},
                       {&Faults::cut_store, 2},
                       {&Faults::stop_store, 1},
                       {&Faults::cut_off_controller, 2},
                       {&Faults::refuse_way_to_controller, 1},
                       {&Faults::cut_power_of_controller, 1},
                       {&Faults::kill_controller_at_write, 1}});
  for (; count > 0; --count) {
    const Fault fault = dice_.one_of(has_several && dice_.one_in(2) ? kFaultsOfControllers : kFaults);
    after(dice_.between(Duration(0), within), [this, fault] { (this->*fault)(); });
  }
}

std::pair<std::size_t, std::size_t> Faults::any_line() {
  const std::size_t from = any_site();
  const std::size_t to = (from + 1 + dice_.below(reach() - 1)) % reach();
  return {from, to};
}

std::size_t Faults::reach() const { return reach_.value_or(world_.size()); }

std::vector<std::size_t> Faults::within_reach(std::vector<std::size_t> sites) const {
  std::erase_if(sites, [this](std::size_t site) { return site >= reach(); });
  return sites;
}

// Rather the one that leads.
ControllerProcess& Faults::any_controller() {
  auto& all = world_.controllers();
  if (all.size() == 1) return *all.front();
  const auto leader = std::ranges::find_if(all, [](const auto& one) { return one->leads(); });
  return leader != all.end() && dice_.one_in(2) ? **leader : *all[dice_.below(all.size())];
}

void Faults::restart_later(ControllerProcess& controller, Duration wait) {
  after(wait, [this, &controller] { world_.start(controller); });
}

void Faults::cut_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(50ms, 6'000ms);
  note(fmt::format("line n{} to n{} is cut for {:.3f} s", from, to, to_seconds(time)));
  world_.change_line(from, to, [](LinkConditions& line) { line.is_cut = true; });
  after(time, [this, from = from, to = to] {
    world_.change_line(from, to, [](LinkConditions& line) { line.is_cut = false; });
  });
}

// As a firewall does that resets connections. Without a controller to ask a node takes a neighbour for gone
// that it hears no more, and whose host refuses it for 3 s.
void Faults::refuse_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(100ms, spares_controller_ ? 20'000ms : 2'000ms);
  const bool is_both_ways = dice_.one_in(2);
  if (world_.now() < refused_until_) return;
  refused_until_ = world_.now() + time + kRefusalsRest;
  note(fmt::format("n{} is refused by n{}{} for {:.3f} s", from, to, is_both_ways ? ", and it by that," : "",
                   to_seconds(time)));
  const auto refuse = [this, time](std::size_t one, std::size_t other) {
    change_line_for(
        time, one, other, [](LinkConditions& line) { line.is_refused = true; },
        [](LinkConditions& line) { line.is_refused = false; });
  };
  refuse(from, to);
  if (is_both_ways) refuse(to, from);
}

void Faults::stall_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(50ms, 6'000ms);
  note(fmt::format("line n{} to n{} stalls for {:.3f} s", from, to, to_seconds(time)));
  world_.change_line(from, to, [](LinkConditions& line) { line.is_stalled = true; });
  after(time, [this, from = from, to = to] {
    world_.change_line(from, to, [](LinkConditions& line) { line.is_stalled = false; });
  });
}

void Faults::worsen_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(500ms, 8'000ms);
  const double loss = dice_.between(0.0, 0.2);
  const Duration delay = dice_.between(1ms, 150ms);
  note(fmt::format("line n{} to n{} loses {:.3f} and takes {:.3f} s for {:.3f} s", from, to, loss,
                   to_seconds(delay), to_seconds(time)));
  const LinkConditions before = world_.conditions(from, to);
  world_.change_line(from, to, [&](LinkConditions& line) {
    line.loss = loss;
    line.delay = delay;
  });
  after(time, [this, from = from, to = to, before] {
    world_.change_line(from, to, [&](LinkConditions& line) {
      line.loss = before.loss;
      line.delay = before.delay;
    });
  });
}

void Faults::change_line_for(Duration time, std::size_t from, std::size_t to,
                             std::function<void(LinkConditions&)> set,
                             std::function<void(LinkConditions&)> reset) {
  world_.change_line(from, to, set);
  after(time, [this, from, to, reset = std::move(reset)] { world_.change_line(from, to, reset); });
}

void Faults::slow_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(500ms, 10'000ms);
  const double capacity = dice_.one_in(3) ? dice_.between(50e3, 500e3) : dice_.between(500e3, 10e6);
  note(fmt::format("line n{} to n{} carries {:.2f} Mbit/s for {:.3f} s", from, to, capacity / 1e6,
                   to_seconds(time)));
  change_line_for(
      time, from, to, [capacity](LinkConditions& line) { line.capacity_bps = capacity; },
      [](LinkConditions& line) { line.capacity_bps = kUnlimited; });
}

// A host's words go on the line that it is the tail of and as answers on the other.
void Faults::set_mute(std::size_t from, std::size_t to, bool is_mute) {
  const auto end = [is_mute](LinkEnd own) { return is_mute ? std::optional(own) : std::nullopt; };
  world_.change_line(from, to, [&](LinkConditions& line) { line.mute = end(LinkEnd::kTail); });
  world_.change_line(to, from, [&](LinkConditions& line) { line.mute = end(LinkEnd::kHead); });
}

void Faults::mute_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(50ms, 8'000ms);
  note(fmt::format("nothing comes from n{} to n{} for {:.3f} s", from, to, to_seconds(time)));
  set_mute(from, to, true);
  after(time, [this, from = from, to = to] { set_mute(from, to, false); });
}

// It runs, and speaks, and reads nothing.
void Faults::stall_receiver() {
  const std::size_t site = any_site();
  const Duration time = dice_.between(50ms, 6'000ms);
  note(fmt::format("n{} reads nothing for {:.3f} s", site, to_seconds(time)));
  const auto set = [this, site](bool is_stalled) {
    for (std::size_t other = 0; other < reach(); ++other) {
      if (other != site) set_mute(other, site, is_stalled);
    }
  };
  set(true);
  after(time, [set] { set(false); });
}

void Faults::damage_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(500ms, 8'000ms);
  const double part = dice_.between(0.0, 0.05);
  note(fmt::format("line n{} to n{} damages {:.3f} for {:.3f} s", from, to, part, to_seconds(time)));
  change_line_for(
      time, from, to, [part](LinkConditions& line) { line.corruption = part; },
      [](LinkConditions& line) { line.corruption = 0.0; });
}

void Faults::double_line() {
  const auto [from, to] = any_line();
  const Duration time = dice_.between(500ms, 8'000ms);
  const double part = dice_.between(0.0, 0.2);
  note(fmt::format("line n{} to n{} doubles {:.3f} for {:.3f} s", from, to, part, to_seconds(time)));
  change_line_for(
      time, from, to, [part](LinkConditions& line) { line.duplication = part; },
      [](LinkConditions& line) { line.duplication = 0.0; });
}

// As where a machine was suspended: what its processes see of time jumps.
void Faults::step_clock() {
  const std::size_t which = dice_.below(reach() + (has_controller() ? 1 : 0));
  const std::string host = which == reach() ? any_controller().host() : world_.site(which).name();
  const Duration step = dice_.between(100ms, 30'000ms);
  note(fmt::format("the clock of {} steps {:.3f} s ahead", host, to_seconds(step)));
  world_.simulation().step_clock(host, step);
}

void Faults::pause_node() {
  const std::size_t site = any_site();
  const Duration time = dice_.between(100ms, 8'000ms);
  note(fmt::format("n{} is stopped for {:.3f} s", site, to_seconds(time)));
  after(time, [] {});
  world_.simulation().pause(world_.site(site).name(), time);
}

void Faults::pause_controller() {
  if (!has_controller()) return;
  const ControllerProcess& controller = any_controller();
  const Duration time = dice_.between(500ms, 20'000ms);
  note(fmt::format("{} is stopped for {:.3f} s", controller.address(), to_seconds(time)));
  after(time, [] {});
  world_.simulation().pause(controller.host(), time);
}

void Faults::kill(std::size_t site) {
  const bool silently = dice_.one_in(3);
  const bool comes_back = !silently && dice_.one_in(2);
  const Duration time = dice_.between(10ms, 5'000ms);
  note(fmt::format("n{} is killed{}{}", site, silently ? " with its host" : "",
                   comes_back ? fmt::format(", and started again {:.3f} s later", to_seconds(time)) : ""));
  has_killed_ = true;
  world_.kill(site, silently);
  if (comes_back) after(time, [this, site] { world_.restart(site); });
}

void Faults::kill_relay() {
  const std::vector<std::size_t> relays = within_reach(world_.relays());
  if (!relays.empty()) kill(dice_.one_of(relays));
}

void Faults::kill_member() {
  if (!members_may_die_ || (has_killed_controller_ && world_.may_forget_groups())) return;
  const std::vector<std::size_t> members = within_reach(world_.members());
  if (members.size() > 1) kill(dice_.one_of(members));
}

void Faults::kill_controller() {
  if (!has_controller() || (has_killed_ && world_.may_forget_groups())) return;
  ControllerProcess& controller = any_controller();
  if (!controller.is_alive()) return;
  const Duration time = dice_.between(1ms, 6'000ms);
  note(fmt::format("{} is killed, and started again {:.3f} s later", controller.address(), to_seconds(time)));
  has_killed_controller_ = true;
  controller.kill();
  restart_later(controller, time);
}

void Faults::cut_power_of_controller() {
  if (!has_controller() || (has_killed_ && world_.may_forget_groups())) return;
  ControllerProcess& controller = any_controller();
  if (!controller.is_alive()) return;
  const Duration time = dice_.between(1ms, 6'000ms);
  note(fmt::format("the host of {} loses power, and is there again {:.3f} s later", controller.address(),
                   to_seconds(time)));
  has_killed_controller_ = true;
  controller.lose_power();
  restart_later(controller, time);
}

void Faults::kill_controller_at_write() {
  if (!has_controller() || (has_killed_ && world_.may_forget_groups())) return;
  ControllerProcess& controller = any_controller();
  if (!controller.is_alive()) return;
  const bool keeps = dice_.one_in(2);
  note(fmt::format("{} is killed when it writes next, {} that", controller.address(),
                   keeps ? "after" : "before"));
  has_killed_controller_ = true;
  controller.kill_at_write(keeps, dice_.between(1ms, 6'000ms));
}

// Its database is there, and it does not reach it.
void Faults::cut_store() {
  if (!has_controller()) return;
  ControllerProcess& controller = any_controller();
  const Duration time = dice_.between(100ms, 15'000ms);
  note(fmt::format("{} does not reach the store for {:.3f} s", controller.address(), to_seconds(time)));
  controller.disk().cut_off.insert(controller.address());
  after(time, [&controller] { controller.disk().cut_off.erase(controller.address()); });
}

void Faults::stop_store() {
  if (!has_controller()) return;
  Disk& disk = any_controller().disk();
  const Duration time = dice_.between(100ms, 8'000ms);
  note(fmt::format("nobody reaches the store for {:.3f} s", to_seconds(time)));
  disk.is_away = true;
  after(time, [&disk] { disk.is_away = false; });
}

// From some nodes, or all.
void Faults::cut_off_controller() {
  if (!has_controller()) return;
  const ControllerProcess& controller = any_controller();
  const Duration time = dice_.between(100ms, longest_cut(controller));
  const std::size_t ways = 1 + dice_.below(3);
  cut_off(some_sites(), controller.address(), ways, time);
}

// Both may be back before anybody has seen that they were gone.
void Faults::kill_member_and_controller() {
  const std::vector<std::size_t> members = within_reach(world_.members());
  if (!members_may_die_ || members.size() < 2 || !has_controller()) return;
  ControllerProcess& controller = any_controller();
  if (world_.may_forget_groups() || !controller.is_alive()) return;
  const std::size_t site = dice_.one_of(members);
  const Duration back = dice_.between(1ms, dice_.one_in(4) ? 3'000ms : 100ms);
  const Duration controller_back = dice_.between(1ms, dice_.one_in(2) ? 100ms : 6'000ms);
  note(fmt::format("n{} and {} are killed, and started again {:.3f} s and {:.3f} s later", site,
                   controller.address(), to_seconds(back), to_seconds(controller_back)));
  has_killed_ = true;
  has_killed_controller_ = true;
  controller.kill();
  world_.kill(site, false);
  after(back, [this, site] { world_.restart(site); });
  restart_later(controller, controller_back);
}

void Faults::block_way_to_controller() {
  if (spares_controller_) return;
  const std::size_t site = any_site();
  const ControllerProcess& controller = any_controller();
  const Duration time = dice_.between(100ms, longest_cut(controller));
  const std::size_t ways = 1 + dice_.below(3);
  cut_off({site}, controller.address(), ways, time);
}

void Faults::cut_off(const std::vector<std::size_t>& sites, const std::string& controller, std::size_t ways,
                     Duration time) {
  note(fmt::format("n{} cannot speak with {} ({}) for {:.3f} s", fmt::join(sites, ", n"), controller, ways,
                   to_seconds(time)));
  const auto set = [this, sites, controller, ways](bool is_cut) {
    for (const std::size_t site : sites) set_cut_off(site, controller, ways, is_cut);
  };
  set(true);
  after(time, [set] { set(false); });
}

void Faults::set_cut_off(std::size_t site, const std::string& controller, std::size_t ways, bool is_cut) {
  const std::string& name = world_.site(site).name();
  if ((ways & 1U) != 0) world_.network().set_blocked(name, controller, is_cut);
  if ((ways & 2U) != 0) world_.network().set_blocked(controller, name, is_cut);
}

// Something between them resets connections, and refuses new ones: of one node, some or all.
void Faults::refuse_way_to_controller() {
  if (spares_controller_) return;
  const ControllerProcess& controller = any_controller();
  const Duration time = dice_.between(200ms, longest_cut(controller));
  const std::vector<std::size_t> sites = dice_.one_in(2) ? std::vector{any_site()} : some_sites();
  note(fmt::format("n{} are refused by {} for {:.3f} s", fmt::join(sites, ", n"), controller.address(),
                   to_seconds(time)));
  const auto set = [this, sites, address = controller.address()](bool is_refused) {
    for (const std::size_t site : sites) {
      world_.network().set_refused(world_.site(site).name(), address, is_refused);
      if (is_refused && world_.site(site).is_alive()) world_.site(site).break_line(address);
    }
  };
  set(true);
  after(time, [set] { set(false); });
}

// A node that no other hears yet is gone once the controller that leads has not heard it for a lease. Known:
// a controller without a store, that follows another, can learn of a group whose registration was answered to
// one member only from that member; once its lease is over, the name is given anew.
Duration Faults::longest_cut(const ControllerProcess& controller) const {
  if (world_.controllers().size() > 1) return world_.is_settled() ? 20'000ms : 5'000ms;
  return controller.has_store() && world_.is_settled() ? 20'000ms : 8'000ms;
}

std::vector<std::size_t> Faults::some_sites() {
  std::vector<std::size_t> sites;
  for (std::size_t site = 0; site < reach(); ++site) {
    if (sites.empty() || !dice_.one_in(3)) sites.push_back(site);
  }
  return sites;
}

void Faults::cut_controller() {
  const std::vector<std::size_t> counts = {1, 1, reach() / 2, reach()};
  for (std::size_t site = 0; site < reach(); ++site) cut_off_.push_back(site);
  std::ranges::shuffle(cut_off_, dice_.generator());
  cut_off_.resize(dice_.one_of(counts));
  const std::size_t ways = dice_.one_in(2) ? 3 : 1 + dice_.below(2);
  const Duration time = dice_.between(5'000ms, 60'000ms);
  after(dice_.between(3'000ms, 6'000ms), [this, ways, time] { begin_cut(ways, time); });
}

// Known: a member that has installed a plan, and is cut off before it hears that the plan is active, stays
// with the one before, and others let go of that with the next plan.
void Faults::begin_cut(std::size_t ways, Duration time) {
  const bool is_quiet = std::ranges::all_of(
      cut_off_, [this](std::size_t site) { return world_.site(site).control().has_active_plan(); });
  if (!is_quiet) return after(10ms, [this, ways, time] { begin_cut(ways, time); });
  cut_off(cut_off_, kControllerHost, ways, time);
}

void Faults::break_line_to_controller() {
  const std::size_t site = any_site();
  if (spares_controller_ || !world_.site(site).is_alive()) return;
  note(fmt::format("the line of n{} to the controller breaks", site));
  world_.site(site).break_line({});
}

}  // namespace square::test
