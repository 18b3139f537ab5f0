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
#include "world/job.h"
#include "world/site.h"

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
  [[nodiscard]] ControllerProcess& controller() { return *controller_; }
  [[nodiscard]] TimePoint now() const { return simulation_.clock().now(); }
  [[nodiscard]] std::size_t size() const { return sites_.size(); }
  [[nodiscard]] Site& site(std::size_t index) { return *sites_[index]; }
  [[nodiscard]] LinkConditions conditions(std::size_t from, std::size_t to) const;
  void change_line(std::size_t from, std::size_t to, const std::function<void(LinkConditions&)>& change);
  void kill(std::size_t site, bool silently);
  void restart(std::size_t site);
  // Known: a controller without a store, that follows another, hears of a group from those alone that are
  // still in it. Where the others are dead, or through with it, who is late registers another one under the
  // name.
  [[nodiscard]] bool may_forget_groups() const;
  void start_controller();
  // Alive, and member of no group, or of one.
  [[nodiscard]] std::vector<std::size_t> relays() const { return alive(false); }
  [[nodiscard]] std::vector<std::size_t> members() const { return alive(true); }

 private:
  [[nodiscard]] std::vector<std::size_t> alive(bool members) const;
  void draw_lines();
  void draw_jobs();
  void draw_jobs_of_cut();
  void look_at_jobs_of_cut();
  Job& add(Job::Script script);
  [[nodiscard]] Scenario draw_scenario();
  [[nodiscard]] Topology draw_topology();
  [[nodiscard]] bool are_linked(std::size_t from, std::size_t to) const {
    return (from < troubled_) == (to < troubled_);
  }
  [[nodiscard]] double least_rate(CollectiveId collective, TimePoint begin, TimePoint end) const;
  void note_plan(const controller::PublishedPlan& published);
  void let_members_leave();
  void note_numbers(const GroupSpec& group, const GroupRegistration& made);
  void sweep();
  void check_memory();
  bool run_until(const std::function<bool()>& finished, Duration limit);
  void complain(const std::string& what) { verdict_.complaints.push_back(what); }

  Dice dice_;
  Simulation simulation_;
  std::unique_ptr<Executor> executor_;
  ControlNetwork network_;
  std::unique_ptr<ControllerProcess> controller_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::vector<std::unique_ptr<Job>> jobs_;
  Faults faults_;
  const bool cuts_controller_;     // nothing else happens, and groups come and go meanwhile
  bool members_leave_;             // in order, when their jobs are over
  std::set<std::size_t> leavers_;  // have begun to leave
  std::map<std::uint32_t, std::string> collectives_;  // what a number was given to
  std::map<std::uint64_t, std::string> groups_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t>
      plans_;  // by origin and epoch: what is in it
  // Where there are two islands, with one controller: the first so many sites are one, and faults are there
  // alone. Else all of them.
  std::size_t troubled_ = 0;
  std::vector<std::pair<TimePoint, std::map<CollectiveId, double>>> rates_;  // of the active plans
  Verdict verdict_;
};

}  // namespace square::test
