// Sums in which a process, a link or a member goes at a random moment. SQUARE_SEED reruns one case;
// SQUARE_SEEDS sets how many.
#include <doctest/doctest.h>

#include "node/sum_plans.h"

using namespace square;
using namespace square::test;

namespace {

// A run that ends with a fault at a random moment.
struct Fault {
  explicit Fault(std::uint64_t number) : seed(number) {}

  std::uint64_t seed;
  std::mt19937_64 random{seed};
  Overlay overlay{seed, 5};
  bool may_lose = below(2) == 0;
  bool all = false;
  std::optional<std::uint32_t> root;
  Duration timeout = std::chrono::seconds(5);
  std::vector<std::unique_ptr<Sum>> sums;
  std::uint64_t absent = 4;
  std::uint64_t kind = 0;
  std::size_t victim = 0;
  std::optional<std::size_t> gone;
  std::optional<std::size_t> destroyed;  // its calls never return
  bool failed = false;
  std::string trouble;

  std::uint64_t below(std::uint64_t end) { return random() % end; }
  void set_conditions();
  void make_sums();
  void post();
  void strike();
  void check_returns(TimePoint last);
  void check_results();
  void check_memory();
  void check_next_call();
};

void Fault::set_conditions() {
  for (std::size_t a = 0; a < 5; ++a) {
    for (std::size_t b = 0; b < 5; ++b) {
      LinkConditions conditions;
      conditions.delay = std::chrono::milliseconds(1 + below(40));
      conditions.loss = may_lose && below(3) == 0 ? 0.02 : 0.0;
      if (a != b) overlay.simulation.set_conditions(node_name(a), node_name(b), conditions);
    }
  }
  all = below(2) == 0;
}

void Fault::make_sums() {
  if (!all) root = 0;
  for (std::uint64_t o = 0; o < 1 + below(3); ++o) {
    sums.push_back(std::make_unique<Sum>(CollectiveId(0), std::vector<std::uint32_t>{0, 1, 2, 3},
                                         inputs_of(seed + o, 4, below(300'000)), root, below(2) == 0));
    sums.back()->operation = OperationId(o);
    sums.back()->timeout = timeout;
  }
  absent = below(3) == 0 ? below(4) : 4;
}

void Fault::post() {
  for (const auto& sum : sums) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      if (rank == absent) continue;
      if (below(4) == 0) pass(overlay, std::chrono::milliseconds(below(200)));
      sum->post(overlay, rank);
    }
  }
}

void Fault::strike() {
  pass(overlay, std::chrono::milliseconds(below(1'500)));
  kind = below(5);
  victim = static_cast<std::size_t>(below(5));
  if (kind == 0) {
    overlay.transport(victim).stop();
    gone = victim;
  } else if (kind == 1) {
    overlay.node(victim).stop([] {});
    gone = victim;
  } else if (kind == 2) {
    overlay.node(victim % 4).cancel(CollectiveId(0), OperationId(below(sums.size())));
  } else if (kind == 3) {
    overlay.restart(victim, 77);
    gone = destroyed = victim;
  }
}

void Fault::check_returns(TimePoint last) {
  const auto ended = [&] {
    return std::ranges::all_of(sums, [&](const auto& sum) {
      for (std::size_t rank = 0; rank < 4; ++rank)
        if (rank != absent && rank != destroyed && !sum->outcomes[rank]) return false;
      return true;
    });
  };
  if (!overlay.run(ended, last + timeout + std::chrono::seconds(1) - overlay.simulation.clock().now()))
    trouble += " somebody did not return;";
}

void Fault::check_results() {
  for (const auto& sum : sums) {
    bool bad = false;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto& outcome = sum->outcomes[rank];
      bad |= outcome && !outcome->is_ok();
      failed |= rank != gone && outcome && !outcome->is_ok();
    }
    if (!bad && absent == 4 && !destroyed && !sum->is_right()) trouble += " wrong bits;";
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (sum->has_result(rank) && sum->outcomes[rank] && sum->outcomes[rank]->is_ok() &&
          sum->outputs[rank] != sum->expected)
        trouble += " wrong bits without an error;";
    }
  }
}

void Fault::check_memory() {
  pass(overlay, std::chrono::seconds(3));
  for (std::size_t n = 0; n < 5; ++n) {
    if (gone == n) continue;
    std::optional<NodeStatistics> now;
    overlay.node(n).statistics([&](NodeStatistics statistics) { now = statistics; });
    overlay.run([&] { return now.has_value(); }, std::chrono::seconds(1));
    if (!now || now->bytes_in_transit != 0)
      trouble += " node " + std::to_string(n) + " keeps " + std::to_string(now ? now->bytes_in_transit : 0) +
                 " bytes;";
  }
}

// It fails on all.
void Fault::check_next_call() {
  Sum next(CollectiveId(0), {0, 1, 2, 3}, inputs_of(1, 4, 10), root);
  next.operation = OperationId(10);
  next.timeout = std::chrono::seconds(3);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    if (gone != rank) next.post(overlay, rank);
  pass(overlay, std::chrono::seconds(5));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    if (gone == rank) continue;
    if (!next.outcomes[rank])
      trouble += " the next call did not return;";
    else if (next.outcomes[rank]->code() != StatusCode::kFailedPrecondition)
      trouble +=
          " the next call of rank " + std::to_string(rank) + ": " + next.outcomes[rank]->to_string() + ";";
  }
}

// Says what was wrong.
std::string run_fault(std::uint64_t seed) {
  Fault fault(seed);
  fault.set_conditions();
  fault.overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
  if (!fault.overlay.publish(sum_over_a_relay(fault.all))) return "no plan";
  pass(fault.overlay, std::chrono::milliseconds(fault.below(300)));
  fault.make_sums();
  fault.post();
  const TimePoint last = fault.overlay.simulation.clock().now();
  fault.strike();
  fault.check_returns(last);
  fault.check_results();
  // Blocks for a node that came back without a plan wait for the next plan, as its window bounds
  // them; and an abort that the simulation loses is not said again before a link comes up.
  if (fault.destroyed || fault.may_lose) return fault.trouble;
  fault.check_memory();
  if (!fault.failed) return fault.trouble;
  fault.check_next_call();
  if (fault.trouble.empty()) return "";
  return fault.trouble + " kind " + std::to_string(fault.kind) + " victim " + std::to_string(fault.victim) +
         " absent " + std::to_string(fault.absent) + (fault.all ? " all-reduce" : " reduce");
}

}  // namespace

TEST_CASE("whatever fails in a sum, everybody returns in time and nothing stays behind") {
  const std::uint64_t first = seed_from_environment(1);
  for (std::uint64_t seed = first; seed < first + seeds(100); ++seed) {
    const std::string trouble = run_fault(seed);
    CHECK_MESSAGE(trouble.empty(), "rerun with SQUARE_SEED=", seed, ":", trouble);
  }
}
