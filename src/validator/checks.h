// The parts of the validator. Includes nothing of the planner, on purpose.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "square/plan.h"

namespace square::validation {

// Collects what is wrong, up to a bound.
class Findings {
 public:
  static constexpr std::size_t kMaxFindings = 100;

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    ++count_;
    if (words_.size() < kMaxFindings) words_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  std::vector<std::string> take() && {
    if (count_ > words_.size()) words_.push_back(fmt::format("... and {} more", count_ - words_.size()));
    return std::move(words_);
  }

 private:
  std::vector<std::string> words_;
  std::size_t count_ = 0;
};

// Comparisons to kPlanTolerance; infinite equals infinite.
bool about_equal(double a, double b);
bool at_most(double a, double b);

// "8.14 Mbit/s", or "unlimited".
std::string mbps(double bps);

// US dollars an hour for a bit per second over the link.
double hourly_price(const PlanLink& link);

// What a bound counts for each link. As the planner documents it: an unlimited link counts
// as the lowest finite capacity, or as 1 Gbit/s where there is none.
std::vector<double> counted_capacities(const Plan& plan);

// By position of the collective: the number of its job. Collectives of one tenant's group of processes are a
// job, of which one turn (job_turn_of()) runs at a time.
std::vector<std::size_t> number_jobs(const Plan& plan);

// Position of a link, or -1. Built once a plan.
class LinkTable {
 public:
  explicit LinkTable(const Plan& plan);
  [[nodiscard]] int find(NodeId from, NodeId to) const;

 private:
  std::vector<std::vector<std::pair<NodeId, int>>> out_;
};

// Does everything that is named exist? Later checks follow these references.
struct References {
  bool plan = true;         // in overlay, sessions and collectives
  bool certificate = true;  // in cuts and levels
};
References check_references(const Plan& plan, Findings& findings);

// The checks below need References::plan.

// Paths and streams of every session, and what they put on links and nodes.
void check_flows(const Plan& plan, Findings& findings);
// Codes: what their streams carry, and that every member decodes.
void check_codes(const Plan& plan, Findings& findings);
// Codes with redundancy: whichever so many ways fail, every member decodes. Precondition: check_codes() found
// nothing.
void check_redundancy(const Plan& plan, Findings& findings);
// What streams avoid, and how long they take.
void check_restrictions(const Plan& plan, Findings& findings);
// Rates of collectives and tenants, totals, completion times, what a planner changed.
void check_sums(const Plan& plan, Findings& findings);
// What the streams cost.
void check_costs(const Plan& plan, Findings& findings);
// Which bytes reach whom.
void check_ranges(const Plan& plan, Findings& findings);

// The checks below need References::certificate, too.

// Cuts and the bounds of collectives.
void check_certificate(const Plan& plan, Findings& findings);
// Levels, and the bound on the cost.
void check_levels(const Plan& plan, Findings& findings);

// What the duals of a level prove of every plan: sum_c length[c] g_c <= worth.
struct Inequality {
  double worth = 0;
  std::vector<double> length;  // D_c, by position of the collective
};

// Where sums of large terms are nearly equal, the last digits of the difference mean nothing.
inline constexpr double kCancellation = 1e-9;

// Derives inequalities from duals alone. Where a session's cuts over a link are longer
// together than its duals allow, the link's length counts as so much more. The plan must
// outlive it. Linear in the size of the level and of its sessions.
class DualProver {
 public:
  explicit DualProver(const Plan& plan);
  ~DualProver();
  DualProver(DualProver&&) noexcept;
  DualProver& operator=(DualProver&&) noexcept;

  // `with_prices`: cuts may be longer by the links' prices, as in the bound on the cost.
  // Reports cuts that separate nobody from the root as findings in `where` and leaves
  // them out.
  Inequality prove(const PlanLevel& level, bool with_prices, const std::string& where, Findings& findings);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Are these the duals of the bound on the cost? Then it bounds no rate.
bool is_cost_level(const Plan& plan, const PlanLevel& level);

// The level of each collective by position, or `levels.size()` for one in none.
std::vector<std::size_t> levels_of_collectives(const Plan& plan);

// The rates that a plan without streams stands for are those of its program.
std::vector<double> kept_rates(const Plan& plan);

// Is there a link that some session may not use?
bool is_restricted(const Plan& plan);
// By link: may the session use it, given what is to be avoided and its bounds on latency?
std::vector<bool> usable_links(const Plan& plan, const PlanSession& session);

// The sessions of a planned all-reduce are pairs; those of a ring are not.
bool is_planned_all_reduce(const Plan& plan, const PlanCollective& collective);
// The part of its collective's bytes that a session carries: with fewer bytes than the n
// members, the part it would carry of a large buffer. Not for a planned all-reduce.
double share_of(const PlanCollective& collective, std::size_t n, const PlanSession& session);
// Distinct members over all sessions of a collective, sorted.
std::vector<NodeId> members_of(const Plan& plan, const PlanCollective& collective);
// Do sessions with the same root and bytes carry the same payload to more members?
bool copies_payload(CollectiveOp op);

}  // namespace square::validation
