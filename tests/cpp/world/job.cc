#include "world/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/log.h"
#include "controller/publication.h"
#include "node/sums.h"

namespace square::test {
namespace {

constexpr Duration kGrace = std::chrono::seconds(1);
// So long after a member's death nobody waits for it any more: leases are over then, whatever happened to the
// controller.
constexpr Duration kLongestHearing = std::chrono::seconds(70);

// What others may cost a tenant that shares nothing with them: a registration waits for whoever lags twice,
// for the plan that is under way and for its own; an operation begins again under new plans.
constexpr Duration kLongestRegistration = 2 * controller::kInstallPatience + std::chrono::milliseconds(1'500);
constexpr Duration kLongestDelay = std::chrono::seconds(2);
constexpr double kSlowness = 1.5;

bool is_sum(CollectiveOp op) { return op != CollectiveOp::kBroadcast; }

bool has_result(const GroupCollective& collective, std::size_t rank) {
  return collective.op == CollectiveOp::kAllReduce ||
         (collective.op == CollectiveOp::kReduce) == (rank == collective.root.index());
}

std::vector<float> expected_of(const Job::Call& call, const GroupCollective& collective) {
  if (!is_sum(collective.op)) return call.inputs[collective.root.index()];
  std::vector<float> sum(call.inputs.front().size(), 0.0F);
  for (const auto& input : call.inputs) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  return sum;
}

}  // namespace

Job::Job(Simulation& simulation, Executor& world, std::vector<std::unique_ptr<Site>>& sites, Script script)
    : simulation_(simulation),
      world_(world),
      sites_(sites),
      script_(std::move(script)),
      going_on_(
          simulation, sites,
          {[this](std::uint64_t number, const GroupSpec& next) { on_regrouped(number, next); },
           [this](const GroupSpec& group, const GroupRegistration& made) { on_registered(group, made); },
           [this](const std::string& what) { complaints_.push_back(what); }}) {
  for (int round = 0; round < script_.rounds; ++round) calls_.push_back(script_.calls);
  members_.resize(script_.sites.size());
}

void Job::later(std::size_t rank, Duration wait, Executor::Task task) {
  world_.post_at(simulation_.clock().now() + wait, [this, rank, task = std::move(task)] {
    if (is_here(rank)) task();
  });
}

// The process that began is still the one.
bool Job::is_here(std::size_t rank) const { return members_[rank].phase != Phase::kDead; }

void Job::start() {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    later(rank, script_.begins[rank], [this, rank] { begin(rank); });
  }
  if (script_.stranger)
    world_.post_at(simulation_.clock().now() + script_.stranger->begins, [this] { intrude(); });
  for (const Script::Joiner& one : script_.joiners) {
    joiners_.push_back({one.site});
    const std::size_t joiner = joiners_.size() - 1;
    world_.post_at(simulation_.clock().now() + one.begins, [this, joiner] { begin_joining(joiner); });
  }
}

void Job::intrude() {
  Site& site = *sites_[script_.stranger->site];
  if (!site.is_alive()) return;
  RegroupRequest request;
  request.group = script_.group.name;
  request.joiner = script_.first_joiner - 1;
  const auto look = [this, &site](const auto& answer) {
    log(LogLevel::kInfo, "job", "{}, without a grant, hears: {}", site.name(), answer.status().to_string());
    if (answer.is_ok()) complaints_.push_back(fmt::format("{} has no grant, and a group", site.name()));
  };
  const TimePoint now = simulation_.clock().now();
  site.control().regroup(request, now, script_.timeout, look);
  GroupSpec group = script_.group;
  group.name += " of a stranger";
  group.nodes.front() = site.name();
  site.control().register_group(group, now, script_.timeout, look);
}

void Job::begin_joining(std::size_t joiner) {
  const std::size_t site = joiners_[joiner].site;
  if (joiners_[joiner].phase == Phase::kDead) return;
  if (!sites_[site]->is_alive()) return note_death(site);
  joiners_[joiner].phase = Phase::kGoingOn;
  going_on_.join(script_.group.name, script_.first_joiner + joiner, site,
                 [this, joiner](const Status& outcome) {
                   world_.post_at(simulation_.clock().now(), [this, joiner, outcome] {
                     Joiner& one = joiners_[joiner];
                     if (one.phase == Phase::kDead) return;
                     one.phase = Phase::kClosed;
                     if (!outcome.is_ok() && dead_.empty())
                       complaints_.push_back(fmt::format("{} does not join {}: {}", sites_[one.site]->name(),
                                                         script_.group.name, outcome.to_string()));
                     if (on_closed) on_closed();
                   });
                 });
}

void Job::begin(std::size_t rank) {
  Site& site = *sites_[script_.sites[rank]];
  if (!site.is_alive()) return note_death(script_.sites[rank]);
  members_[rank].phase = Phase::kRegistering;
  if (members_[rank].asked_at == TimePoint{}) members_[rank].asked_at = simulation_.clock().now();
  site.control().register_group(
      script_.group, simulation_.clock().now(), script_.timeout,
      [this, rank](const Result<GroupRegistration>& made) { registered(rank, made); });
}

void Job::registered(std::size_t rank, const Result<GroupRegistration>& made) {
  Member& member = members_[rank];
  // Who is cut off from the controller for long is named, and asked for again.
  const StatusCode code = made.status().code();
  const bool is_late = code == StatusCode::kDeadlineExceeded || code == StatusCode::kUnavailable;
  if (is_late && dead_.empty() && ++member.late_registrations < script_.late_registrations)
    return begin(rank);
  if (!made.is_ok()) {
    log(LogLevel::kInfo, "job", "{} of {} at {}: does not register: {}", rank, script_.group.name,
        sites_[script_.sites[rank]]->name(), made.status().to_string());
    if (!is_excused(made.status())) complain(rank, "registers: " + made.status().to_string());
    member.has_failed = true;
    member.phase = Phase::kClosed;
    return;
  }
  if (on_registered) on_registered(script_.group, *made);
  log(LogLevel::kInfo, "job", "{} of {} at {}: registered as number {}, collectives from {}, epoch {}", rank,
      script_.group.name, sites_[script_.sites[rank]]->name(), made->number,
      made->collectives.front().value(), made->epoch.value());
  member.made = *made;
  member.label = group_label(script_.group.name, made->number);
  member.phase = Phase::kCalling;
  if (!std::exchange(member.has_registered, true)) member.answered_at = simulation_.clock().now();
  member.next = 0;
  DataPlane& node = sites_[script_.sites[rank]]->node();
  if (made->key) node.set_group_key(member.label, made->key);
  for (std::size_t i = 0; i < made->collectives.size(); ++i)
    node.set_members(made->collectives[i], member.label, {Rank(static_cast<std::uint32_t>(rank))});
  call_next(rank);
}

void Job::call_next(std::size_t rank) {
  Member& member = members_[rank];
  std::vector<Call>& calls = calls_[static_cast<std::size_t>(member.round)];
  if (member.next == calls.size()) return later(rank, Duration(0), [this, rank] { close(rank); });
  const std::size_t index = member.next++;
  later(rank, calls[index].thought[rank], [this, rank, index] { post(rank, index); });
}

void Job::post(std::size_t rank, std::size_t index) {
  Member& member = members_[rank];
  Call& call = calls_[static_cast<std::size_t>(member.round)][index];
  const GroupCollective& collective = script_.group.collectives[call.collective];
  const bool is_root = has_root(collective.op) && rank == collective.root.index();
  MemberOperation operation;
  operation.collective = member.made.collectives[call.collective];
  operation.operation = call.operation;
  operation.rank = Rank(static_cast<std::uint32_t>(rank));
  call.outputs[rank].assign(call.inputs[rank].size(), -1.0F);
  if (is_sum(collective.op)) {
    operation.input = std::as_bytes(std::span(call.inputs[rank]));
    operation.reduction = {ElementType::kFloat32, ReduceOp::kSum};
    operation.group_size = static_cast<std::uint32_t>(members_.size());
  } else if (is_root) {
    operation.input = std::as_bytes(std::span(call.inputs[rank]));
  }
  if (has_result(collective, rank)) operation.output = std::as_writable_bytes(std::span(call.outputs[rank]));
  operation.is_root = is_root;
  operation.timeout = script_.timeout;
  call.called_at[rank] = simulation_.clock().now();
  operation.done = [this, rank, index](Status outcome) { ended(rank, index, std::move(outcome)); };
  Site& site = *sites_[script_.sites[rank]];
  log(LogLevel::kInfo, "job", "{} of {} at {}: call {}: {} {} of {} floats{}", rank, script_.group.name,
      site.name(), index, to_string(collective.op), operation.collective.value(), call.inputs[rank].size(),
      is_root ? ", as its root" : "");
  site.note_use(operation.collective, std::max(operation.input.size(), operation.output.size()));
  site.node().post(std::move(operation));
}

void Job::ended(std::size_t rank, std::size_t index, Status outcome) {
  Member& member = members_[rank];
  Call& call = calls_[static_cast<std::size_t>(member.round)][index];
  call.ended_at[rank] = simulation_.clock().now();
  call.outcomes[rank] = outcome;
  log(LogLevel::kInfo, "job", "{} of {}: call {} ended: {}", rank, script_.group.name, index,
      outcome.to_string());
  const auto now = static_cast<std::uint64_t>(call.ended_at[rank].time_since_epoch().count());
  for (const std::uint64_t number :
       {std::uint64_t{rank}, std::uint64_t{index}, now, static_cast<std::uint64_t>(outcome.code())})
    digest_ = (digest_ ^ number) * 0x100000001b3U;
  const Duration took = call.ended_at[rank] - call.called_at[rank];
  // A process that was stopped looks at the time when it goes on.
  if (took > script_.timeout + (has_absent_ ? kLongestHearing : kGrace))
    complain(rank, fmt::format("call {} took {:.3f} s", index, to_seconds(took)));
  if (outcome.is_ok()) {
    check_result(rank, call);
    return call_next(rank);
  }
  if (!is_excused(outcome)) complain(rank, fmt::format("call {}: {}", index, outcome.to_string()));
  const std::string dead = waited_for(call.called_at[rank]);
  if (outcome.code() == StatusCode::kDeadlineExceeded && !dead.empty())
    complain(rank, fmt::format("call {} waited for {}, long dead: {}", index, dead, outcome.message()));
  // Like a program that gives its group up.
  member.has_failed = true;
  member.round = script_.rounds - 1;
  later(rank, Duration(0), [this, rank] { script_.goes_on || is_growing() ? go_on(rank) : close(rank); });
}

// Where one member has died, and all others were heard, more than half are left, and all of them go on. Those
// that are to join are awaited, dead or not.
void Job::go_on(std::size_t rank) {
  Member& member = members_[rank];
  member.phase = Phase::kGoingOn;
  member.has_gone_on = true;
  const auto joiners = static_cast<std::uint32_t>(script_.heals ? 1 : script_.joiners.size());
  going_on_.begin({script_.group.name, member.made.number}, rank, script_.sites[rank], joiners,
                  [this, rank](const Status& outcome) {
                    if (!is_here(rank)) return;
                    const bool is_alone = dead_.size() != 1 || members_.size() < 3;
                    const bool may_fail = has_absent_ || (is_growing() ? !dead_.empty() : is_alone);
                    if (!outcome.is_ok() && !may_fail)
                      complain(rank, "does not go on: " + outcome.to_string());
                    members_[rank].has_failed = !outcome.is_ok();
                    later(rank, Duration(0), [this, rank] { close(rank); });
                  });
}

void Job::check_result(std::size_t rank, const Call& call) {
  const GroupCollective& collective = script_.group.collectives[call.collective];
  if (!has_result(collective, rank)) return;
  if (call.outputs[rank] != expected_of(call, collective))
    complain(rank, fmt::format("wrong bytes of {} {}", to_string(collective.op), call.operation.value()));
}

void Job::close(std::size_t rank) {
  Member& member = members_[rank];
  const bool is_last = member.round + 1 >= script_.rounds;
  if (is_last && !script_.joiners.empty() && !member.has_gone_on) return go_on(rank);
  Site& site = *sites_[script_.sites[rank]];
  site.node().close_group(member.label);
  site.control().close_group(script_.group.name, member.made.number);
  if (++member.round < script_.rounds) return begin(rank);
  member.phase = Phase::kClosed;
  if (on_closed) on_closed();
}

void Job::note_death(std::size_t site) {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (script_.sites[rank] != site) continue;
    // Others may wait for its last word also when it is through.
    dead_.insert(sites_[site]->name());
    // Who had not come to the group may come still, for all that the others know.
    if (members_[rank].has_registered)
      registered_then_died_.emplace(sites_[site]->name(), simulation_.clock().now());
    if (members_[rank].phase != Phase::kClosed) members_[rank].phase = Phase::kDead;
  }
  for (Joiner& joiner : joiners_) {
    if (joiner.site != site) continue;
    dead_.insert(sites_[site]->name());
    if (joiner.phase != Phase::kClosed) joiner.phase = Phase::kDead;
  }
}

void Job::note_restart(std::size_t site) {
  if (!script_.heals || std::ranges::find(script_.sites, site) == script_.sites.end()) return;
  joiners_.push_back({site});
  begin_joining(joiners_.size() - 1);
}

bool Job::has_part(std::size_t site) const {
  return std::ranges::find(script_.sites, site) != script_.sites.end() ||
         std::ranges::find(script_.joiners, site, &Script::Joiner::site) != script_.joiners.end();
}

Complaints Job::delays(const LeastRate& rate) const {
  Complaints found = slow_registrations();
  std::ranges::move(slow_calls(rate), std::back_inserter(found));
  return found;
}

Complaints Job::slow_registrations(std::optional<TimePoint> end_of_cut) const {
  const Duration longest = end_of_cut ? kLongestDelay : kLongestRegistration;
  Complaints found;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    const Duration took = member.answered_at - std::max(end_of_cut.value_or(TimePoint{}), member.asked_at);
    if (member.has_registered && took > longest)
      found.push_back(fmt::format("{} of {}: a registration took {:.3f} s through the trouble of others",
                                  rank, script_.group.name, to_seconds(took)));
  }
  return found;
}

Complaints Job::slow_calls(const LeastRate& rate) const {
  Complaints found;
  for (std::size_t index = 0; index < calls_[0].size(); ++index) {
    const Call& call = calls_[0][index];
    const auto is_ok = [](const auto& outcome) { return outcome && outcome->is_ok(); };
    if (!std::ranges::all_of(call.outcomes, is_ok)) continue;
    const TimePoint begin = *std::ranges::max_element(call.called_at);
    const TimePoint end = *std::ranges::max_element(call.ended_at);
    const double bits = 32.0 * static_cast<double>(call.inputs.front().size());
    const double planned = bits / rate(members_[0].made.collectives[call.collective], begin, end);
    if (end - begin > from_seconds(kSlowness * planned) + kLongestDelay)
      found.push_back(
          fmt::format("call {} of {} took {:.3f} s through the trouble of others, {:.3f} s by plan", index,
                      script_.group.name, to_seconds(end - begin), planned));
  }
  return found;
}

bool Job::has_begun() const {
  return std::ranges::all_of(members_, [](const Member& member) { return member.has_registered; });
}

bool Job::may_come_back(std::size_t site) const {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (script_.sites[rank] == site && !members_[rank].has_registered) return false;
  }
  return true;
}

// Only the death of a member ends an operation, and who fails hears its name.
bool Job::is_excused(const Status& failure) const {
  const auto is_named = [&](const std::string& name) {
    return failure.message().find(name) != std::string::npos;
  };
  // A member that was away hears that its collective is not known where its group has gone on.
  const bool is_unknown = failure.code() == StatusCode::kNotFound;
  if (has_absent_ && (is_unknown || std::ranges::any_of(script_.group.nodes, is_named))) return true;
  return std::ranges::any_of(dead_, is_named);
}

std::string Job::waited_for(TimePoint called_at) const {
  const auto found = std::ranges::find_if(registered_then_died_, [&](const auto& one) {
    return simulation_.clock().now() - std::max(called_at, one.second) > kLongestHearing;
  });
  return found == registered_then_died_.end() ? std::string() : found->first;
}

void Job::complain(std::size_t rank, const std::string& what) {
  complaints_.push_back(fmt::format("{:.3f} s, {} of {} at {}: {}",
                                    to_seconds(simulation_.clock().now().time_since_epoch()), rank,
                                    script_.group.name, sites_[script_.sites[rank]]->name(), what));
}

bool Job::is_over() const {
  const auto is_through = [](const auto& one) {
    return one.phase == Phase::kClosed || one.phase == Phase::kDead;
  };
  return std::ranges::all_of(members_, is_through) && std::ranges::all_of(joiners_, is_through);
}

bool Job::has_ended_well_at(std::size_t site) const {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (script_.sites[rank] == site && (member.phase != Phase::kClosed || member.has_failed)) return false;
  }
  return std::ranges::all_of(joiners_, [site](const Joiner& joiner) {
    return joiner.site != site || joiner.phase == Phase::kClosed;
  });
}

Complaints Job::complaints() const {
  Complaints all = complaints_;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].phase == Phase::kClosed || members_[rank].phase == Phase::kDead) continue;
    all.push_back(fmt::format("{} of {} at {} is not over: round {}, call {}, {}", rank, script_.group.name,
                              sites_[script_.sites[rank]]->name(), members_[rank].round, members_[rank].next,
                              members_[rank].phase == Phase::kRegistering ? "registering" : "called"));
  }
  for (const Joiner& joiner : joiners_) {
    if (joiner.phase != Phase::kClosed && joiner.phase != Phase::kDead)
      all.push_back(fmt::format("{} has not joined {}", sites_[joiner.site]->name(), script_.group.name));
  }
  return all;
}

Job::Script random_script(Dice& dice, const std::string& name, const std::string& tenant,
                          const std::vector<std::size_t>& sites,
                          const std::vector<std::unique_ptr<Site>>& all) {
  using namespace std::chrono_literals;
  Job::Script script;
  script.group.name = name;
  script.group.tenant = tenant;
  script.sites = sites;
  for (const std::size_t site : sites) script.group.nodes.push_back(all[site]->name());
  const std::size_t ranks = sites.size();
  for (std::size_t c = 1 + dice.below(2); c > 0; --c) {
    const auto op = dice.one_of(std::vector{CollectiveOp::kBroadcast, CollectiveOp::kReduce,
                                            CollectiveOp::kAllReduce, CollectiveOp::kAllReduce});
    const Rank root(has_root(op) ? static_cast<std::uint32_t>(dice.below(ranks)) : 0U);
    script.group.collectives.push_back(
        {op, root, 1.0, 400'000, {}, static_cast<std::uint32_t>(script.group.collectives.size())});
  }
  std::vector<std::uint64_t> operations(script.group.collectives.size(), 0);
  for (std::size_t c = 2 + dice.below(4); c > 0; --c) {
    Job::Call call;
    call.collective = dice.below(script.group.collectives.size());
    call.operation = OperationId(operations[call.collective]++);
    const std::size_t count = dice.one_in(6) ? dice.below(3) : dice.below(150'000);
    const bool all_think = dice.one_in(8);  // then nothing of the group runs
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      call.inputs.push_back(whole_floats(dice.generator(), count));
      if (all_think) {
        call.thought.push_back(dice.between(3'000ms, 8'000ms));
      } else {
        call.thought.push_back(dice.one_in(3) ? dice.between(Duration(0), 2'000ms) : Duration(0));
      }
    }
    call.outputs.resize(ranks);
    call.outcomes.resize(ranks);
    call.called_at.resize(ranks);
    call.ended_at.resize(ranks);
    script.calls.push_back(std::move(call));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    script.begins.push_back(dice.between(Duration(0), 1'500ms));
  script.rounds = dice.one_in(3) ? 2 : 1;
  return script;
}

void let_grow(Job::Script& script, std::vector<std::size_t> others, Dice& dice) {
  using namespace std::chrono_literals;
  if (dice.one_in(3)) {
    script.heals = true;
  } else if (!others.empty()) {
    std::ranges::shuffle(others, dice.generator());
    others.resize(1 + dice.below(std::min<std::size_t>(2, others.size())));
    for (const std::size_t site : others)
      script.joiners.push_back({site, dice.between(Duration(0), 5'000ms)});
  }
}

void lengthen(Job::Script& script, std::size_t times, Dice& dice) {
  using namespace std::chrono_literals;
  const std::vector<Job::Call> calls = script.calls;
  std::map<std::size_t, std::uint64_t> last;
  for (const Job::Call& call : calls) last[call.collective] = call.operation.value();
  for (std::size_t i = 1; i < times; ++i) {
    for (Job::Call call : calls) {
      call.operation = OperationId(++last[call.collective]);
      for (Duration& thought : call.thought) thought = dice.between(Duration(0), 2'000ms);
      script.calls.push_back(std::move(call));
    }
  }
}

}  // namespace square::test
