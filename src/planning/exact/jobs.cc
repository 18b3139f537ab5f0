#include "planning/exact/jobs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/load.h"
#include "planning/exact/stream_limit.h"

namespace square::planning {
namespace {

// Less than this part of a link or limit is none.
constexpr double kLeastPart = 1e-9;
// A share of an all-reduce below this part of it is a solver's noise.
constexpr double kThinShare = 1e-6;

void add_tree(const Instance& instance, const Carried::Tree& tree, Load& load) {
  for (std::size_t k = 0; k < tree.links.size(); ++k) load.add(instance, tree.links[k], tree.load(k));
}

// How far a load must go down to fit into a part of the network.
double factor_into(const Load& load, const Load& part, const Network& network) {
  double factor = 1.0;
  const auto fit = [&](const std::vector<double>& bps, const std::vector<double>& most,
                       const std::vector<double>& limit) {
    for (std::size_t k = 0; k < bps.size(); ++k) {
      if (std::isfinite(limit[k])) factor = std::min(factor, fitting_factor(bps[k], most[k]));
    }
  };
  fit(load.link, part.link, network.capacity_bps);
  fit(load.egress, part.egress, network.egress_bps);
  fit(load.ingress, part.ingress, network.ingress_bps);
  return factor;
}

class Jobs {
 public:
  Jobs(const Problem& problem, const Instance& instance, bool streams, ExactMemory* memory)
      : problem_(problem), instance_(instance), streams_(streams), memory_(memory) {
    alone_ = *problem.scenario;
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
      if (!problem.jobs[j].turns.empty()) jobs_.push_back(j);
    }
  }

  Result<ExactSolution> run() {
    if (jobs_.size() > 1) {
      SQUARE_ASSIGN_OR_RETURN(solution_, solve_fair(instance_, true, memory_));
      SQUARE_CHECK(solution_.carried.has_value(), "streams were asked for");
      solution_.levels.clear();             // they are about all running at once
      alone_.policy.coding = Coding::kOff;  // as for redundancy
      SQUARE_RETURN_IF_ERROR(limit_streams(instance_, solution_));
      share_out();
    } else {
      solution_.lp_rate.assign(instance_.groups.size(), 0.0);
      solution_.lp_share.resize(instance_.groups.size());
      solution_.carried.emplace().trees.resize(instance_.demands.size());
    }
    for (const std::size_t j : jobs_) {
      if (jobs_.size() > 1 && !part_.contains(j)) continue;
      for (const std::vector<std::size_t>& turn : problem_.jobs[j].turns)
        SQUARE_RETURN_IF_ERROR(plan_alone(j, turn));
    }
    claim();
    if (!streams_) solution_.carried.reset();
    return std::move(solution_);
  }

 private:
  // Of what nothing is proven, of several jobs together, what the streams carry is what can be had; so it is
  // where codes without conceptual flows stand beside flows.
  void claim() {
    if (jobs_.size() > 1) {
      drop_thin_shares();
      return claim_what_is_carried(instance_, solution_);
    }
    if (solution_.flows.empty()) return;
    std::vector<bool> is_shown(instance_.demands.size(), false);
    for (const auto& [column, rate] : solution_.flows) is_shown[column.demand] = true;
    bool has_hidden_code = false;
    for (std::size_t i = 0; i < is_shown.size(); ++i) {
      for (const Carried::Tree& tree : solution_.carried->trees[i])
        has_hidden_code = has_hidden_code || (tree.code != nullptr && !is_shown[i]);
    }
    has_hidden_code ? claim_what_is_carried(instance_, solution_) : show_flows(instance_, solution_);
  }

  // Who has what of the overlay: part_.
  void share_out() {
    Load used(instance_);
    std::map<std::set<NodeId>, std::vector<std::size_t>> alike;  // jobs by their nodes
    for (const std::size_t j : jobs_) {
      std::set<NodeId> nodes;
      Load& load = part_.emplace(j, Load(instance_)).first->second;
      for (const std::vector<std::size_t>& turn : problem_.jobs[j].turns) {
        for (const std::size_t c : turn) {
          for (const std::size_t i : problem_.sessions_of[c]) {
            for (const Carried::Tree& tree : solution_.carried->trees[i]) add_tree(instance_, tree, load);
          }
          const std::vector<NodeId>& members = problem_.scenario->collectives[c].members;
          nodes.insert(members.begin(), members.end());
        }
      }
      used.add(load);
      alike[nodes].push_back(j);
    }
    double whole = 0.0;
    for (const std::size_t j : jobs_) whole += weight_of(j);
    for (const auto& [nodes, jobs] : alike) {
      const auto is_sequence = [&](std::size_t j) { return problem_.jobs[j].has_sequence(); };
      if (std::ranges::any_of(jobs, is_sequence)) {
        share_among(jobs, used, whole);
      } else {
        for (const std::size_t j : jobs) part_.erase(j);  // they keep what they have
      }
    }
  }

  // What jobs of the same nodes have together, by their weights, which come to `whole` for all jobs.
  void share_among(const std::vector<std::size_t>& jobs, const Load& used, double whole) {
    Load together(instance_);
    double weight = 0.0;
    for (const std::size_t j : jobs) {
      together.add(part_.at(j));
      weight += weight_of(j);
    }
    const auto with_rest = [&](std::vector<double>& have, const std::vector<double>& all,
                               const std::vector<double>& limit) {
      for (std::size_t k = 0; k < have.size(); ++k) {
        if (!std::isfinite(limit[k])) continue;
        have[k] += std::max(limit[k] - all[k], 0.0) * weight / whole;
      }
    };
    with_rest(together.link, used.link, instance_.network.capacity_bps);
    with_rest(together.egress, used.egress, instance_.network.egress_bps);
    with_rest(together.ingress, used.ingress, instance_.network.ingress_bps);
    for (const std::size_t j : jobs) {
      Load part(instance_);
      part.add(together, weight_of(j) / weight);
      part_.at(j) = std::move(part);
    }
  }

  // Of all that one of its turns runs at once.
  [[nodiscard]] double weight_of(std::size_t job) const {
    double weight = 0.0;
    for (const std::size_t c : problem_.jobs[job].turns.front()) weight += problem_.weight[c];
    return weight;
  }

  // The job's part of the overlay.
  [[nodiscard]] Network network_of(std::size_t job) const {
    Network network = problem_.network;
    if (!part_.contains(job)) return network;
    const Load& part = part_.at(job);
    // What has no part in it at all is out of reach; who can send nothing has no links.
    const auto is_none = [](double mine, double limit) {
      return std::isfinite(limit) && !(mine > kLeastPart * limit);
    };
    for (std::size_t e = 0; e < network.capacity_bps.size(); ++e) {
      double& capacity = network.capacity_bps[e];
      const auto tail = instance_.tail[e].index();
      const auto head = instance_.head[e].index();
      const bool is_out = is_none(part.link[e], capacity) ||
                          is_none(part.egress[tail], problem_.network.egress_bps[tail]) ||
                          is_none(part.ingress[head], problem_.network.ingress_bps[head]);
      capacity = is_out ? 0.0 : std::min(capacity, part.link[e]);
    }
    const auto set = [&](std::vector<double>& limit, const std::vector<double>& mine) {
      for (std::size_t k = 0; k < limit.size(); ++k) {
        if (std::isfinite(limit[k]) && !is_none(mine[k], limit[k])) limit[k] = std::min(limit[k], mine[k]);
      }
    };
    set(network.egress_bps, part.egress);
    set(network.ingress_bps, part.ingress);
    return network;
  }

  // The collectives of a turn as if there were no others, in their job's part. Where that takes too long they
  // keep what they have beside the others, as far as it fits; so do those with redundancy.
  Status plan_alone(std::size_t job, const std::vector<std::size_t>& turn) {
    look_at_budget();
    // A code's arcs are those of the whole overlay.
    const auto is_code = [&](std::size_t c) { return problem_.scenario->collectives[c].redundancy > 0; };
    if (jobs_.size() > 1 && std::ranges::any_of(turn, is_code)) {
      shrink_into_part(job, turn);
      return Status::ok();
    }
    alone_.collectives.clear();
    Problem problem;
    problem.network = network_of(job);
    std::vector<double> weight;
    for (const std::size_t c : turn) {
      for (const std::size_t i : problem_.sessions_of[c]) {
        problem.sessions.push_back(problem_.sessions[i]);
        problem.sessions.back().collective = alone_.collectives.size();
      }
      alone_.collectives.push_back(problem_.scenario->collectives[c]);
      weight.push_back(problem_.weight[c]);
    }
    index_sessions(alone_, problem);
    problem.weight = std::move(weight);
    Result<Instance> instance = make_instance(problem);
    if (instance.is_ok()) instance->deadline = instance_.deadline;
    Result<ExactSolution> solved =
        instance.is_ok() ? solve_fair(*instance, true, nullptr) : Result<ExactSolution>(instance.status());
    // Its part may be so thin somewhere that nothing of its own goes that way.
    if (!solved.is_ok() && jobs_.size() > 1) {
      shrink_into_part(job, turn);
      return Status::ok();
    }
    if (!solved.is_ok()) return solved.status();
    SQUARE_RETURN_IF_ERROR(limit_streams(*instance, *solved));
    take(turn, *std::move(solved));
    return Status::ok();
  }

  void shrink_into_part(std::size_t job, const std::vector<std::size_t>& turn) {
    Load load(instance_);
    const auto each_tree = [&](const auto& visit) {
      for (const std::size_t c : turn) {
        for (const std::size_t i : problem_.sessions_of[c]) {
          for (Carried::Tree& tree : solution_.carried->trees[i]) visit(tree);
        }
      }
    };
    each_tree([&](const Carried::Tree& tree) { add_tree(instance_, tree, load); });
    const double factor = factor_into(load, part_.at(job), problem_.network);
    each_tree([&](Carried::Tree& tree) { tree.rate *= factor; });
  }

  void take(const std::vector<std::size_t>& turn, ExactSolution alone) {
    std::vector<std::size_t> sessions;  // by demand of `alone`
    for (std::size_t k = 0; k < turn.size(); ++k) {
      const std::size_t c = turn[k];
      solution_.lp_rate[c] = alone.lp_rate[k];
      solution_.lp_share[c] = std::move(alone.lp_share[k]);
      const std::vector<std::size_t>& own = problem_.sessions_of[c];
      sessions.insert(sessions.end(), own.begin(), own.end());
    }
    for (std::size_t k = 0; k < sessions.size(); ++k)
      solution_.carried->trees[sessions[k]] = std::move(alone.carried->trees[k]);
    if (jobs_.size() > 1) return;  // nothing but streams is said of several
    for (auto& [column, rate] : alone.flows) {
      column.demand = sessions[column.demand];
      solution_.flows.emplace_back(std::move(column), rate);
    }
    for (PlanLevel& level : alone.levels) solution_.levels.push_back(std::move(level));
  }

  void drop_thin_shares() {
    const std::vector<std::vector<double>> shares = shares_of(instance_, *solution_.carried);
    for (std::size_t c = 0; c < shares.size(); ++c) {
      double whole = 0.0;
      for (const double share : shares[c]) whole += share;
      for (std::size_t a = 0; a < shares[c].size(); ++a) {
        if (shares[c][a] > kThinShare * whole) continue;
        for (const std::size_t i : instance_.groups[c].alternatives[a].demands)
          solution_.carried->trees[i].clear();
      }
    }
  }

  const Problem& problem_;
  const Instance& instance_;
  const bool streams_;
  ExactMemory* memory_;
  Scenario alone_;                 // of the turn that is planned
  std::vector<std::size_t> jobs_;  // that send something
  std::map<std::size_t, Load> part_;
  ExactSolution solution_;
};

}  // namespace

bool has_sequences(const Problem& problem) {
  return std::ranges::any_of(problem.jobs, &Problem::Job::has_sequence);
}

Result<ExactSolution> solve_jobs(const Problem& problem, const Instance& instance, bool streams,
                                 ExactMemory* memory) {
  return Jobs(problem, instance, streams, memory).run();
}

}  // namespace square::planning
