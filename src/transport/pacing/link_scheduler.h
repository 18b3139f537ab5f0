// Which of a link's flows sends next.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "square/clock.h"
#include "square/ids.h"

namespace square {

using FlowId = Id<struct FlowTag>;

// What a flow that was idle may catch up of its guarantee.
inline constexpr Duration kGuaranteeCatchUp = std::chrono::milliseconds(20);
// How far service may fall behind the guarantees before the rest is forgiven, to all alike.
inline constexpr Duration kMaxGuaranteeLag = std::chrono::milliseconds(100);

// Whose a flow is and what it is promised. Weights are positive.
struct FlowShare {
  std::string tenant;
  double tenant_weight = 1;  // among tenants; the newest flow's counts for all of the tenant's
  double guarantee_bps = 0;  // 0: idle capacity only
  double weight = 1;         // among the tenant's flows
  // Turns of a job follow one another. Empty: the flow is of no job.
  std::string job{};
  std::uint64_t turn = 0;  // of the job
};

// Three questions in this order. Which flows are behind their guaranteed rate? Of those, the
// one with the earliest deadline (virtual clock; L. Zhang, SIGCOMM 1990). If none is: which
// tenants are behind what their own resting flows leave them? Likewise. If none is, the link
// has idle capacity: it goes to the tenant with the least surplus for its weight, and there to
// the flow with the least for its own (start-time fair queueing; Goyal et al., SIGCOMM 1996).
// So a flow with data never gets less than its guarantee while the guarantees sum to at most
// the capacity, a tenant with data never less than those of all of its flows, a tenant gets no
// more of the rest for having more flows, and nothing stays idle while anybody has data.
//
// A flow rests when it has had no frame for longer than it may catch up: from there on its
// guarantee is lost to it, and lent to its tenant's flows with data, by their surplus.
//
// Of a job one turn runs at a time, so that what the job is guaranteed is the most of what its turns are, not
// the sum: each of its flows has that part of its guarantee, and the resting ones lend it to those that have
// something to send, as above.
//
// Where the guarantees sum to more than the link carries, the clock that they are counted by
// falls behind the real one, and every flow gets the same part of its guarantee.
//
// A pick costs the logarithm of the number of flows. Not thread-safe.
class LinkScheduler {
 public:
  FlowId add_flow(const FlowShare& share);
  void remove_flow(FlowId flow);

  // Tells whether the flow has a frame to send, and how large it is.
  void set_head(FlowId flow, std::optional<double> bits, TimePoint now);

  // The flow to send now; nothing if no flow has a frame. Times do not go back.
  [[nodiscard]] std::optional<FlowId> pick(TimePoint now);
  // The flow's head was sent at `now`. Call set_head() for what comes next.
  void charge(FlowId flow, TimePoint now);

 private:
  template <typename Key, typename Member>
  using Order = std::set<std::pair<Key, Member>>;

  // What a tenant's resting flows leave to its others.
  struct Loan {
    std::size_t lenders = 0;
    double rate_bps = 0;
    double taken_bits = 0;   // at `counted_at`, beyond what was lent up to there
    TimePoint counted_at{};  // by guarantee_time()
    bool is_listed = false;
    TimePoint due_at{};  // while it is listed: when a frame may be sent, and must have been
    TimePoint deadline{};
  };
  struct Tenant {
    double weight = 1;
    std::size_t flows = 0;
    double surplus = 0;       // bits per weight beyond the guarantees
    double virtual_time = 0;  // surplus of its flow that was served last
    Order<double, FlowId> backlogged;
    Loan loan;
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;
  struct Job {
    struct Sum {
      std::size_t flows = 0;
      double guarantee_bps = 0;
    };
    std::map<std::uint64_t, Sum> turns;
    double part = 1;  // of each guarantee, that the job has
  };
  using Jobs = std::map<std::pair<std::string, std::string>, Job>;  // by tenant and name
  struct Flow {
    Tenants::iterator tenant;
    std::optional<Jobs::iterator> job;
    std::uint64_t turn;
    double guarantee_bps;  // by the plan
    double weight;
    std::optional<double> head_bits;
    TimePoint guaranteed_at{};  // by guarantee_time(): the next frame is due from here on
    TimePoint deadline{};       // of the head
    bool is_due = false;
    bool is_resting = false;
    double lent_bps = 0;  // while it rests
    double surplus = 0;   // bits per weight beyond the guarantee
  };

  [[nodiscard]] TimePoint guarantee_time(TimePoint now) const { return now - forgiven_; }
  std::optional<Jobs::iterator> join_job(const FlowShare& share);
  void leave_job(const Flow& flow);
  static double part_of(const Job& job);
  [[nodiscard]] double guaranteed_bps(const Flow& flow) const {
    return flow.guarantee_bps * (flow.job ? (*flow.job)->second.part : 1.0);
  }
  // Flows whose time has come become due.
  void advance(TimePoint now);
  void enlist(FlowId id, Flow& flow, TimePoint now);
  void withdraw(FlowId id, Flow& flow);
  // A flow without a frame will rest, or does no longer.
  void await_rest(FlowId id, const Flow& flow);
  void end_rest(FlowId id, Flow& flow, TimePoint now);
  // Around every change to a tenant's flows with frames or to its loan.
  void enlist_loan(Tenants::iterator tenant, TimePoint now);
  void withdraw_loan(Tenants::iterator tenant);
  // What was lent longer ago and not taken is gone.
  void count_loan(Loan& loan, TimePoint now, Duration longest = kMaxGuaranteeLag) const;

  std::map<FlowId, Flow> flows_;
  Tenants tenants_;
  Jobs jobs_;
  std::uint32_t next_id_ = 0;
  // Of the flows with a frame and a guarantee: those that are not due yet, by the time when
  // they are, and those that are, by deadline.
  Order<TimePoint, FlowId> waiting_;
  Order<TimePoint, FlowId> due_;
  Order<TimePoint, FlowId> resting_soon_;  // without a frame, by when they rest
  // Loans of tenants with a frame, likewise.
  Order<TimePoint, std::string_view> waiting_loans_;
  Order<TimePoint, std::string_view> due_loans_;
  Duration forgiven_{0};
  Order<double, std::string_view> backlogged_;  // tenants with a frame, by surplus
  double virtual_time_ = 0;                     // surplus of the tenant that was served last
};

}  // namespace square
