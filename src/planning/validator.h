// The parts of the validator. Includes nothing of the planner, on purpose.
#pragma once

#include <fmt/format.h>

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
    if (words_.size() < kMaxFindings) words_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] bool empty() const { return words_.empty(); }
  std::vector<std::string> take() && { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

// Comparisons to kPlanTolerance; infinite equals infinite.
bool about_equal(double a, double b);
bool at_most(double a, double b);

// Position of a link, or -1. Built once a plan.
class LinkTable {
 public:
  explicit LinkTable(const Plan& plan);
  [[nodiscard]] int find(NodeId from, NodeId to) const;

 private:
  std::vector<std::vector<std::pair<NodeId, int>>> out_;
};

// Ids, names and references. The other checks need these to hold.
void check_references(const Plan& plan, Findings& findings);
// Paths and streams of every session, and what they put on links and nodes.
void check_flows(const Plan& plan, Findings& findings);
// Rates of collectives and tenants, totals, completion times.
void check_sums(const Plan& plan, Findings& findings);
// Which bytes reach whom.
void check_ranges(const Plan& plan, Findings& findings);
// Cuts and bounds.
void check_certificate(const Plan& plan, Findings& findings);

// The part of its collective's bytes that a session carries: with fewer bytes than the n
// members, the part it would carry of a large buffer.
double share_of(const PlanCollective& collective, std::size_t n, const PlanSession& session);
// Distinct members over all sessions of a collective.
std::vector<NodeId> members_of(const Plan& plan, const PlanCollective& collective);

}  // namespace square::validation
