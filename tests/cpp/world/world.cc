#include "world/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "node/overlay.h"

namespace square::test {

using namespace std::chrono_literals;

namespace {

// Faults begin within so long.
constexpr Duration kTroubledTime = 15s;
// Nothing takes longer: what waits for a node that is no more waits for a lease.
constexpr Duration kLongestRun = 300s;
// In which those that are killed last are forgotten.
constexpr Duration kLeases = 25s;
// What a group takes at most when nothing happens, and how long closed groups are remembered at most: leases
// of the dead are over then.
constexpr Duration kCalmTime = 40s;
constexpr Duration kForgetting = 20s;
constexpr std::uint64_t kJoinersPerJob = 1'000;

// Of the first `troubled` nodes and the others, two islands.
Topology draw_topology(Dice& dice, std::size_t count, std::size_t troubled) {
  Topology topology;
  for (std::size_t i = 0; i < count; ++i) (void)topology.add_node({node_name(i)});
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      if (from != to && (from < troubled) == (to < troubled))
        (void)topology.add_link(node_name(from), node_name(to),
                                {1e6 * static_cast<double>(1 + dice.below(20)), {}, 0.0});
    }
  }
  return topology;
}

// Who comes back late stays with its own controller.
bool follow_one(const std::vector<std::unique_ptr<Site>>& sites, const std::vector<std::size_t>& nodes) {
  return std::ranges::all_of(nodes, [&](std::size_t index) {
    return sites[index]->control().controller() == sites[nodes.front()]->control().controller();
  });
}

// Of several controllers that are awake the one that nodes follow: the others plan nothing.
ControllerProcess* most_followed(const std::vector<std::unique_ptr<ControllerProcess>>& controllers,
                                 const std::vector<std::unique_ptr<Site>>& sites) {
  const auto followers = [&](const ControllerProcess& one) {
    return std::ranges::count_if(sites, [&](const auto& site) {
      return site->is_alive() && site->control().controller() == one.address();
    });
  };
  ControllerProcess* found = nullptr;
  for (const auto& one : controllers) {
    if (one->leads() && (found == nullptr || followers(*one) > followers(*found))) found = one.get();
  }
  return found;
}

}  // namespace

World::World(std::uint64_t seed)
    : dice_(seed),
      growth_(seed ^ 0xbf58476d1ce4e5b9U),
      simulation_(seed),
      executor_(simulation_.make_executor("the world")),
      network_(simulation_),
      faults_(*this, seed ^ 0x9e3779b97f4a7c15U),
      troubles_(*this, faults_, seed ^ 0x94d049bb133111ebU),
      cuts_controller_(Dice(seed ^ 0x8cb92ba72f3d8dd7U).one_in(10)),
      has_several_(!cuts_controller_ && Dice(seed ^ 0x2545f4914f6cdd1dU).one_in(8)),
      has_successors_(!cuts_controller_ && !has_several_ && Dice(seed ^ 0x5851f42d4c957f2dU).one_in(8)),
      members_leave_(!cuts_controller_ && !has_several_ &&
                     Dice(seed ^ 0xd1b54a32d192ed03U).one_in(has_successors_ ? 2 : 4)) {
  const std::size_t count = 3 + dice_.below(4);
  for (std::size_t i = 0; i < count; ++i) sites_.push_back(nullptr);
  troubled_ = count >= 4 && dice_.one_in(4) ? 2 + dice_.below(count - 3) : count;
  if (cuts_controller_ || has_several_ || has_successors_) troubled_ = count;
  has_keys_ = !cuts_controller_ && !has_successors_ && troubled_ == count &&
              Dice(seed ^ 0xd6e8feb86659fd93U).one_in(10);
  draw_controllers();
  draw_lines();
  if (cuts_controller_) {
    draw_jobs_of_cut();
  } else {
    has_successors_ ? draw_jobs_of_successors() : draw_jobs();
  }
  for (std::size_t i = 0; has_keys_ && i < count; ++i) {
    const bool is_member = std::ranges::any_of(jobs_, [i](const auto& job) { return job->has_part(i); });
    site(i).identify(Identities::of_all_worlds().node(i, is_member));
    if (!is_member) jobs_.front()->let_intrude({i, growth_.between(Duration(0), 5'000ms)});
  }
}

// One, or several that lease one store: then any of them may lead.
void World::draw_controllers() {
  ControllerProcess::Settings settings;
  settings.has_store = dice_.one_in(2) || has_several_;
  settings.provisional_in = dice_.one_in(2) ? 3 : 0;
  settings.scenario = draw_scenario();
  if (has_successors_) return draw_successors(std::move(settings));
  if (has_keys_) settings.identity = Identities::of_all_worlds().controller();
  std::vector<std::string> given = {kControllerHost};
  if (has_several_) {
    settings.stands_by = true;
    settings.disk = std::make_shared<Disk>();
    settings.disk->id = dice_.number();
    given.clear();
    for (std::size_t i = 0, count = 2 + dice_.below(2); i < count; ++i)
      given.push_back(fmt::format("{}{}", kControllerHost, i));
  }
  for (const std::string& address : given) {
    settings.address = settings.host = address;
    add_controller(settings);
  }
  for (std::size_t i = 0; i < size(); ++i) {
    std::ranges::shuffle(given, dice_.generator());
    sites_[i] = std::make_unique<Site>(simulation_, network_, addresses_, given, node_name(i));
    for (const std::string& address : given)
      network_.set_delay(node_name(i), address, dice_.between(1ms, 80ms));
  }
}

// Of a job whose processes bring the controllers: that of the first leads.
void World::draw_successors(ControllerProcess::Settings settings) {
  settings.has_store = false;
  for (std::size_t i = 0; i < size(); ++i) {
    settings.host = node_name(i);
    settings.address = settings.host + "'s controller";
    settings.stands_by = i > 0;
    add_controller(settings);
  }
  for (std::size_t i = 0; i < size(); ++i) {
    sites_[i] = std::make_unique<Site>(simulation_, network_, addresses_,
                                       std::vector{controllers_.front()->address()}, node_name(i));
    sites_[i]->bring(*controllers_[i], static_cast<std::uint32_t>(i));
    for (std::size_t other = 0; other < size(); ++other)
      network_.set_delay(node_name(i), controllers_[other]->address(), dice_.between(1ms, 80ms));
  }
}

void World::add_controller(ControllerProcess::Settings settings) {
  controllers_.push_back(
      std::make_unique<ControllerProcess>(simulation_, network_, std::move(settings), dice_.number()));
  ControllerProcess& made = *controllers_.back();
  addresses_[made.address()] = &made;
  made.on_plan = [this](const controller::PublishedPlan& published) { note_plan(published); };
  made.on_part = [this, &made](const v1::PlanPart& part) { once_.note_part(made, part); };
  made.on_wake = [this, &made] { troubles_.note_wake(made); };
  made.on_fault = [this](const std::string& what) { complain(what); };
  made.on_death = [this, &made](Duration until_next) {
    executor_->post_at(now() + until_next, [this, &made] { start(made); });
  };
}

World::~World() {
  for (auto& site : sites_) site->kill(true);
}

Scenario World::draw_scenario() {
  Scenario scenario;
  scenario.name = "world";
  scenario.policy.name = "exact";
  // The nodes make the overlay.
  if (has_successors_ || (troubled_ == size() && dice_.one_in(4))) return scenario;
  scenario.topology = draw_topology(dice_, size(), troubled_);
  return scenario;
}

void World::draw_lines() {
  for (std::size_t from = 0; from < size(); ++from) {
    for (std::size_t to = 0; to < size(); ++to) {
      if (from == to) continue;
      change_line(from, to, [&](LinkConditions& line) {
        line.delay = dice_.between(100us, 60ms);
        line.jitter = dice_.between(Duration(0), 10ms);
        line.loss = from < troubled_ && !cuts_controller_ && dice_.one_in(3) ? dice_.between(0.0, 0.03) : 0.0;
      });
    }
  }
}

void World::draw_jobs() {
  const bool is_mortal = dice_.one_in(3);
  if (is_mortal) faults_.let_members_die();
  if (members_leave_) faults_.spare_controller();
  std::vector<std::size_t> troubled(troubled_);
  std::iota(troubled.begin(), troubled.end(), 0U);
  std::vector<std::size_t> calm(size() - troubled_);
  std::iota(calm.begin(), calm.end(), troubled_);
  // Some nodes are there to relay only.
  std::ranges::shuffle(troubled, dice_.generator());
  troubled.resize(2 + dice_.below(troubled_ - 1));
  const std::size_t count = 1 + dice_.below(3) + (calm.empty() ? 0 : 1);
  if (!calm.empty()) faults_.confine(troubled_);
  for (std::size_t j = 0; j < count; ++j) {
    const bool is_calm = !calm.empty() && (j == 0 || dice_.one_in(3));
    std::vector<std::size_t>& all = is_calm ? calm : troubled;
    std::ranges::shuffle(all, dice_.generator());
    const std::vector<std::size_t> members(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(2 + dice_.below(all.size() - 1)));
    Job::Script script =
        random_script(dice_, fmt::format("g{}", j), fmt::format("tenant{}", dice_.below(2)), members, sites_);
    // Who has not heard of a death would wait in the next round for who has.
    if (is_mortal || is_calm) script.rounds = 1;
    script.is_calm = is_calm;
    if (is_calm) script.group.tenant = "calm";
    if (!is_calm && growth_.one_in(3)) {
      std::vector<std::size_t> others = troubled;
      std::erase_if(others,
                    [&](std::size_t site) { return std::ranges::find(members, site) != members.end(); });
      let_grow(script, std::move(others), growth_);
    }
    add(std::move(script));
  }
}

Job& World::add(Job::Script script) {
  script.first_joiner = kJoinersPerJob * (jobs_.size() + 1);
  jobs_.push_back(std::make_unique<Job>(simulation_, *executor_, sites_, std::move(script)));
  jobs_.back()->on_registered = [this](const GroupSpec& group, const GroupRegistration& made) {
    if (has_keys_ && !made.key) complain(fmt::format("group {} has no key", group.name));
    once_.note_group(group, made);
  };
  jobs_.back()->on_regrouped = [this](std::uint64_t number, const GroupSpec& next) {
    once_.note_regrouping(number, next);
  };
  jobs_.back()->on_closed = [this] { let_members_leave(); };
  return *jobs_.back();
}

// One of all nodes, and perhaps another, that go on without those that are gone.
void World::draw_jobs_of_successors() {
  std::vector<std::size_t> members(size());
  std::iota(members.begin(), members.end(), 0U);
  for (std::size_t j = 0, count = 1 + dice_.below(2); j < count; ++j) {
    Job::Script script =
        random_script(dice_, fmt::format("g{}", j), fmt::format("tenant{}", j), members, sites_);
    script.rounds = 1;
    script.goes_on = true;
    lengthen(script, 4 + dice_.below(6), dice_);
    add(std::move(script));
    std::ranges::shuffle(members, dice_.generator());
    members.resize(2 + dice_.below(size() - 1));
  }
}

// Groups that are there before the cut, and go on through it; and others that come and go meanwhile.
void World::draw_jobs_of_cut() {
  std::vector<std::size_t> all(size());
  std::iota(all.begin(), all.end(), 0U);
  const std::size_t lasting = 1 + dice_.below(2);
  const std::size_t count = lasting + 2 + dice_.below(5);
  for (std::size_t j = 0; j < count; ++j) {
    std::ranges::shuffle(all, dice_.generator());
    const std::vector<std::size_t> members(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(2 + dice_.below(all.size() - 1)));
    const bool is_lasting = j < lasting;
    Job::Script script =
        random_script(dice_, fmt::format("g{}", j),
                      fmt::format("tenant{}", is_lasting ? 0 : 1 + dice_.below(2)), members, sites_);
    script.rounds = 1;
    script.late_registrations = 20;
    if (is_lasting) {
      lengthen(script, 5 + dice_.below(10), dice_);
    } else {
      const Duration begin = dice_.between(3'000ms, 60'000ms);
      for (Duration& begins : script.begins) begins += begin;
    }
    add(std::move(script));
  }
}

// Operations do not need the controller, and registrations only of those whose nodes it cannot reach.
void World::look_at_jobs_of_cut() {
  const auto rate = [this](CollectiveId id, TimePoint begin, TimePoint end) {
    return rates_.least(id, begin, end);
  };
  for (const auto& job : jobs_) {
    for (const std::string& complaint : job->slow_calls(rate)) complain(complaint);
    const bool is_cut = std::ranges::any_of(faults_.sites_cut_off(), [&](std::size_t site) {
      return std::ranges::find(job->script().sites, site) != job->script().sites.end();
    });
    for (const std::string& complaint :
         job->slow_registrations(is_cut ? std::optional(faults_.end()) : std::nullopt))
      complain(complaint);
  }
}

LinkConditions World::conditions(std::size_t from, std::size_t to) const {
  return simulation_.conditions(node_name(from), node_name(to));
}

void World::change_line(std::size_t from, std::size_t to,
                        const std::function<void(LinkConditions&)>& change) {
  LinkConditions line = conditions(from, to);
  change(line);
  simulation_.set_conditions(node_name(from), node_name(to), line);
}

void World::kill(std::size_t index, bool silently) {
  if (!site(index).is_alive()) return;
  if (silently) {
    for (std::size_t other = 0; other < size(); ++other) {
      if (other == index) continue;
      change_line(index, other, [](LinkConditions& line) { line.is_stalled = true; });
      change_line(other, index, [](LinkConditions& line) { line.is_stalled = true; });
    }
  }
  site(index).kill(silently);
  for (const auto& job : jobs_) job->note_death(index);
}

// At once, as a script that is over, while others may still finish. Where nodes bring controllers some have
// gone on without others, which may find that the hosts refuse them.
void World::let_members_leave() {
  if (!members_leave_ || (has_successors_ && !once_.has_regrouped())) return;
  for (const std::size_t index : members()) {
    const auto ended = [&](const auto& job) { return job->has_ended_well_at(index); };
    if (index >= troubled_ || !std::ranges::all_of(jobs_, ended) || !leavers_.insert(index).second) continue;
    site(index).leave([this, index] {
      executor_->post_at(now(),
                         [this, index] { has_successors_ ? kill(index, false) : site(index).kill(true); });
    });
  }
}

void World::restart(std::size_t index) {
  const bool may = std::ranges::all_of(jobs_, [&](const auto& job) { return job->may_come_back(index); });
  if (!may || site(index).is_alive()) return;
  site(index).start();
  for (const auto& job : jobs_) job->note_restart(index);
}

bool World::may_forget_groups() const {
  const bool has_begun = std::ranges::all_of(jobs_, [](const auto& job) { return job->has_begun(); });
  return !controllers_.front()->has_store() && !has_begun;
}

void World::start(ControllerProcess& controller) {
  if (controller.is_alive()) return;
  const Status started = controller.start();
  if (!started.is_ok()) complain("the controller does not start: " + started.to_string());
}

ControllerProcess* World::leader() { return most_followed(controllers_, sites_); }

std::vector<std::size_t> World::alive(bool members) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < size(); ++i) {
    const bool is_member = std::ranges::any_of(jobs_, [&](const auto& job) { return job->has_part(i); });
    if (sites_[i]->is_alive() && is_member == members) found.push_back(i);
  }
  return found;
}

bool World::is_settled() const {
  return std::ranges::all_of(jobs_, [](const auto& job) { return job->has_begun(); }) &&
         std::ranges::all_of(
             sites_, [](const auto& site) { return !site->is_alive() || site->control().has_active_plan(); });
}

void World::note_absence() {
  for (const auto& job : jobs_) job->note_absence();
}

void World::note_plan(const controller::PublishedPlan& published) {
  if (troubled_ < size() || cuts_controller_) rates_.note(published.parts->whole(), now());
  once_.note_plan(*published.plan);
}

bool World::run_until(const std::function<bool()>& finished, Duration limit) {
  return simulation_.run_until(finished, now() + limit);
}

Verdict World::run() {
  for (const auto& controller : controllers_) start(*controller);
  for (const auto& site : sites_) site->start();
  for (const auto& job : jobs_) job->start();
  if (cuts_controller_) {
    faults_.cut_controller();
  } else if (has_successors_) {
    troubles_.plan();
  } else {
    faults_.plan(dice_.below(8), kTroubledTime, has_several_);
  }
  const auto is_over = [this] {
    return std::ranges::all_of(jobs_, [](const auto& job) { return job->is_over(); });
  };
  (void)run_until(is_over, kLongestRun);
  for (const auto& job : jobs_) {
    for (const std::string& complaint : job->complaints()) complain(complaint);
    if (!job->script().is_calm) continue;
    const auto rate = [this](CollectiveId id, TimePoint begin, TimePoint end) {
      return rates_.least(id, begin, end);
    };
    for (const std::string& complaint : job->delays(rate)) complain(complaint);
  }
  if (cuts_controller_) look_at_jobs_of_cut();
  // Leases of the dead do not run while the controller is stopped.
  (void)run_until([this] { return now() >= faults_.end() + (faults_.has_killed() ? kLeases : Duration(0)); },
                  kLongestRun);
  for (const auto& controller : controllers_) {
    if (!has_successors_) start(*controller);
  }
  if (verdict_.complaints.empty()) sweep();
  verdict_.virtual_seconds = to_seconds(now().time_since_epoch());
  verdict_.faults = faults_.log();
  // Keys are the system's random numbers: sealed blocks are never the same.
  if (!has_keys_) verdict_.trace = simulation_.trace_hash();
  for (const auto& job : jobs_) verdict_.trace = verdict_.trace * 31 + job->digest();
  return verdict_;
}

// Another group comes and goes: as quickly as ever, and of what was closed before nothing is left, anywhere.
// Of the last plan but one nodes know something until the next.
void World::sweep() {
  members_leave_ = false;
  std::vector<std::size_t> live;
  for (std::size_t i = 0; i < size(); ++i) {
    if (sites_[i]->is_alive() && !leavers_.contains(i)) live.push_back(i);
  }
  // The last two: calm where there is such an island.
  if (live.size() < 2 || !are_linked(live[live.size() - 2], live.back())) return;
  Job::Script script = random_script(dice_, "sweep", kSweeper, {live[live.size() - 2], live.back()}, sites_);
  script.rounds = 2;
  script.timeout = kCalmTime;
  script.group.collectives = {{CollectiveOp::kBroadcast, Rank(0), 1.0, 1'000, {}, 0}};
  script.calls.resize(1);
  script.calls[0].collective = 0;
  jobs_.push_back(std::make_unique<Job>(simulation_, *executor_, sites_, std::move(script)));
  const Job& job = *jobs_.back();
  // Who hears of no other plan keeps the last one but one.
  const auto is_back = [](const auto& site) { return !site->is_alive() || site->control().is_welcome(); };
  (void)run_until([&] { return std::ranges::all_of(sites_, is_back); }, kCalmTime);
  if (has_successors_ && !follow_one(sites_, live)) return;
  jobs_.back()->start();
  (void)run_until([&] { return job.is_over(); }, kCalmTime);
  for (const std::string& complaint : job.complaints()) complain(complaint);
  if (verdict_.complaints.empty()) check_memory();
}

void World::check_memory() {
  std::vector<std::string> left;
  const auto look = [&] {
    left.clear();
    for (const auto& site : sites_) {
      if (!site->is_alive()) continue;
      site->node().statistics([&left, name = site->name()](const NodeStatistics& now) {
        if (now.collectives <= 1 && now.sessions <= 1 && now.bytes_in_transit == 0) return;
        left.push_back(fmt::format("{} remembers {} collectives, {} sessions and holds {} bytes", name,
                                   now.collectives, now.sessions, now.bytes_in_transit));
      });
    }
    ControllerProcess* const leads = leader();
    const controller::PublishedPlanPtr active = leads ? leads->coordinator()->active() : nullptr;
    if (active && !active->plan->collectives.empty())
      left.push_back(fmt::format("the plan still has {} collectives", active->plan->collectives.size()));
    (void)run_until([] { return false; }, 1s);
  };
  for (Duration waited{0}; waited < kForgetting; waited += 1s) {
    look();
    if (left.empty() && waited > 1s) return;
  }
  for (const std::string& what : left) complain(what);
}

}  // namespace square::test
