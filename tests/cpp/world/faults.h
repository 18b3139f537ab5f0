// What happens to a simulated world.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "square/simulation.h"
#include "world/draw.h"

namespace square::test {

class ControllerProcess;
class World;

// Draws faults, plans them over time, and takes them back.
class Faults {
 public:
  Faults(World& world, std::uint64_t seed) : world_(world), dice_(seed) {}

  // Members may be killed, too: what runs ends with them.
  void let_members_die() { members_may_die_ = true; }
  // No fault befalls the controller, so it hears every goodbye and keeps it.
  void spare_controller() { spares_controller_ = true; }
  // Only to the first so many sites, and the lines between these.
  void confine(std::size_t sites) { reach_ = sites; }
  // This many faults within the time, each taken back after a while of its own. Where there are several
  // controllers (`has_several`) half of the faults are theirs.
  void plan(std::size_t count, Duration within, bool has_several);
  // Nothing but this: for 5 to 60 s nothing goes between the controller and some of the sites, one way or
  // both.
  void cut_controller();
  // The sites that were cut off by that, and when it was over.
  [[nodiscard]] const std::vector<std::size_t>& sites_cut_off() const { return cut_off_; }
  // When the last of them is over.
  [[nodiscard]] TimePoint end() const { return end_; }
  [[nodiscard]] bool has_killed() const { return has_killed_; }
  // In words, in the order in which they begin.
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

  // For those that others bring about: in words, with what happens later, which is over then.
  void note(const std::string& what);
  void after(Duration wait, std::function<void()> task);
  void note_killing() { has_killed_ = true; }
  // `ways`: 1 what it says, 2 what it hears, 3 both.
  void set_cut_off(std::size_t site, const std::string& controller, std::size_t ways, bool is_cut);

 private:
  using Fault = void (Faults::*)();
  void cut_line();
  void refuse_line();
  void stall_line();
  void worsen_line();
  void slow_line();
  void mute_line();
  void damage_line();
  void double_line();
  void stall_receiver();
  void step_clock();
  void pause_node();
  void pause_controller();
  void kill_relay();
  void kill_member();
  void kill_controller();
  void kill_controller_at_write();
  void kill_member_and_controller();
  void cut_power_of_controller();
  void cut_store();
  void stop_store();
  void cut_off_controller();
  void block_way_to_controller();
  void refuse_way_to_controller();
  void break_line_to_controller();

  [[nodiscard]] ControllerProcess& any_controller();
  void restart_later(ControllerProcess& controller, Duration wait);
  [[nodiscard]] std::pair<std::size_t, std::size_t> any_line();
  [[nodiscard]] std::size_t reach() const;
  [[nodiscard]] std::size_t any_site() { return dice_.below(reach()); }
  [[nodiscard]] std::vector<std::size_t> within_reach(std::vector<std::size_t> sites) const;
  // There is one that something may happen to.
  [[nodiscard]] bool has_controller() const { return !reach_ && !spares_controller_; }
  // As set() says, and as reset() says after a while.
  void change_line_for(Duration time, std::size_t from, std::size_t to,
                       std::function<void(LinkConditions&)> set, std::function<void(LinkConditions&)> reset);
  [[nodiscard]] Duration longest_cut(const ControllerProcess& controller) const;
  // At least one.
  [[nodiscard]] std::vector<std::size_t> some_sites();
  void cut_off(const std::vector<std::size_t>& sites, const std::string& controller, std::size_t ways,
               Duration time);
  void begin_cut(std::size_t ways, Duration time);
  // What one host says does not reach the other.
  void set_mute(std::size_t from, std::size_t to, bool is_mute);
  void kill(std::size_t site);

  World& world_;
  Dice dice_;
  std::optional<std::size_t> reach_;
  bool members_may_die_ = false;
  bool spares_controller_ = false;
  bool has_killed_ = false;
  bool has_killed_controller_ = false;
  TimePoint refused_until_{};  // one of two nodes by the other
  std::vector<std::size_t> cut_off_;
  TimePoint end_{};
  std::vector<std::string> log_;
};

}  // namespace square::test
