// A whole overlay under virtual time, drawn from a seed: nodes and their controller as they are, tenants that
// use them, faults, and an oracle that says what nobody may see.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "world/faults.h"
#include "world/identities.h"
#include "world/job.h"
#include "world/once.h"
#include "world/planned_rates.h"
#include "world/site.h"
#include "world/troubles.h"

namespace square::test {

// What came of a seed.
struct Verdict {
  Complaints complaints;
  std::vector<std::string> faults;
  std::uint64_t trace = 0;
  double virtual_seconds = 0;
};

class World {
 public:
  explicit World(std::uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  Verdict run();

  // For faults.
  [[nodiscard]] Simulation& simulation() { return simulation_; }
  [[nodiscard]] Executor& executor() { return *executor_; }
  [[nodiscard]] ControlNetwork& network() { return network_; }
  [[nodiscard]] std::vector<std::unique_ptr<ControllerProcess>>& controllers() { return controllers_; }
  [[nodiscard]] TimePoint now() const { return simulation_.clock().now(); }
  [[nodiscard]] std::size_t size() const { return sites_.size(); }
  [[nodiscard]] Site& site(std::size_t index) { return *sites_[index]; }
  [[nodiscard]] LinkConditions conditions(std::size_t from, std::size_t to) const;
  void change_line(std::size_t from, std::size_t to, const std::function<void(LinkConditions&)>& change);
  void kill(std::size_t site, bool silently);
  void restart(std::size_t site);
  // Known: a controller without a store, that follows another, hears of a group from those alone that are in
  // it still. Where the others are not, a late member registers another one under the name.
  [[nodiscard]] bool may_forget_groups() const;
  // All members of all groups have had their numbers, and all live nodes have the newest plan.
  [[nodiscard]] bool is_settled() const;
  void note_absence();  // nothing was heard of some nodes for long
  void start(ControllerProcess& controller);
  // Alive, and member of no group, or of one.
  [[nodiscard]] std::vector<std::size_t> relays() const { return alive(false); }
  [[nodiscard]] std::vector<std::size_t> members() const { return alive(true); }
  void complain(const std::string& what) { verdict_.complaints.push_back(what); }

 private:
  [[nodiscard]] std::vector<std::size_t> alive(bool members) const;
  void draw_lines();
  void draw_jobs();
  void draw_jobs_of_cut();
  void draw_jobs_of_successors();
  void look_at_jobs_of_cut();
  Job& add(Job::Script script);
  [[nodiscard]] Scenario draw_scenario();
  [[nodiscard]] bool are_linked(std::size_t from, std::size_t to) const {
    return (from < troubled_) == (to < troubled_);
  }
  void draw_controllers();
  void draw_successors(ControllerProcess::Settings settings);
  void add_controller(ControllerProcess::Settings settings);
  // The one that leads; null: none does.
  [[nodiscard]] ControllerProcess* leader();
  void note_plan(const controller::PublishedPlan& published);
  void let_members_leave();
  void sweep();
  void check_memory();
  bool run_until(const std::function<bool()>& finished, Duration limit);

  Dice dice_;
  Dice growth_;  // of groups
  Simulation simulation_;
  std::unique_ptr<Executor> executor_;
  ControlNetwork network_;
  std::vector<std::unique_ptr<ControllerProcess>> controllers_;
  Controllers addresses_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::vector<std::unique_ptr<Job>> jobs_;
  Faults faults_;
  Troubles troubles_;
  // Nothing but cuts of the only controller's network happens, and groups come and go meanwhile.
  const bool cuts_controller_;
  const bool has_several_;         // controllers, that lease one store
  const bool has_successors_;      // each node brings a controller
  bool has_keys_ = false;          // there is an authority: groups need grants, and their blocks are sealed
  bool members_leave_;             // in order, when their jobs are over
  std::set<std::size_t> leavers_;  // have begun to leave
  Once once_{[this](const std::string& what) { complain(what); }};
  // Where there are two islands, with one controller: the first so many sites are one, and faults are there
  // alone. Else all of them.
  std::size_t troubled_ = 0;
  PlannedRates rates_;
  Verdict verdict_;
};

}  // namespace square::test
