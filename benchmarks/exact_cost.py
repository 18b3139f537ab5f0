"""Least egress cost at a required rate on the 63 regions, against its certified bound.

Limits of a virtual machine; multicasts with 10 destinations, each required at a part of the
largest rate that the policy "exact" finds for all of them. One multicast at a time, drawn by the
seeds, then four together; then the frontier between rate and cost in 50 points. SQUARE_DATA names
the directory with inter-region/.

    python benchmarks/exact_cost.py [--seeds 20] [--part 0.5]
"""

import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_networks import multicasts, names_of, regions
from exact_report import Report, parser, timed

DESTINATIONS = 10
MOST_OVER_BOUND = 0.01
MOST_SECONDS = 2.0
FRONTIER_POINTS = 50
MOST_FRONTIER_SECONDS = 10.0


def cheapest(
    topology: square.Topology, count: int, seed: int, part: float
) -> tuple[square.Plan, square.Plan, float]:
    """The fastest plan, the cheapest at `part` of its smallest rate, and seconds of the latter."""
    names = names_of(topology)
    fast = square.plan(
        square.Scenario(
            topology, square.Policy("exact"), collectives=multicasts(names, count, DESTINATIONS, seed)
        )
    )
    required = part * fast.min_rate_bps
    collectives = multicasts(names, count, DESTINATIONS, seed, required)
    scenario = square.Scenario(topology, square.Policy("exact", objective="cost"), collectives=collectives)
    plan, seconds = timed(lambda: square.plan(scenario))
    for collective in plan.collectives:
        if collective.rate_bps < required * (1 - 1e-6):
            raise SystemExit(f"collective {collective.id} has {collective.rate_bps} of {required} bit/s")
    if wrong := square.violations(plan):
        raise SystemExit(f"the plan is not sound: {wrong[0]}")
    return fast, plan, seconds


def over_bound(plan: square.Plan) -> float:
    bound = plan.certificate.cost_bound_usd_per_hour
    if bound is None:
        raise SystemExit("the plan does not bound its cost")
    return plan.cost_usd_per_hour / bound - 1


def costs(report: Report, topology: square.Topology, count: int, seeds: int, part: float) -> None:
    gaps, times, savings = [], [], []
    for seed in range(1, seeds + 1):
        fast, plan, seconds = cheapest(topology, count, seed, part)
        gaps.append(over_bound(plan))
        times.append(seconds)
        # The fastest plan's cost of a bit against the cheapest's.
        savings.append(fast.cost_usd_per_hour / fast.total_rate_bps)
        savings[-1] /= plan.cost_usd_per_hour / plan.total_rate_bps
    name = f"{count} of {DESTINATIONS} destinations"
    report.figure(f"{name}: largest cost / bound - 1", max(gaps), most=MOST_OVER_BOUND)
    report.figure(f"{name}: median cost / bound - 1", median(gaps))
    report.figure(f"{name}: longest", max(times), "s", most=MOST_SECONDS if count == 1 else None)
    report.figure(f"{name}: median", median(times), "s")
    report.figure(f"{name}: median cost of a bit, fastest / cheapest", median(savings), "times")


def frontier(report: Report, topology: square.Topology, count: int, seed: int) -> None:
    collectives = multicasts(names_of(topology), count, DESTINATIONS, seed)
    scenario = square.Scenario(topology, square.Policy("exact"), collectives=collectives)
    points, seconds = timed(lambda: square.frontier(scenario, points=FRONTIER_POINTS))
    if len(points) != FRONTIER_POINTS:
        raise SystemExit(f"{len(points)} points came back, not {FRONTIER_POINTS}")
    gaps = [
        point.cost_usd_per_hour / point.cost_bound_usd_per_hour - 1
        for point in points
        if point.cost_bound_usd_per_hour > 0
    ]
    name = f"frontier of {FRONTIER_POINTS} points, {count} of {DESTINATIONS} destinations"
    report.figure(name, seconds, "s", most=MOST_FRONTIER_SECONDS if count == 1 else None)
    report.figure(f"{name}: largest cost / bound - 1", max(gaps), most=MOST_OVER_BOUND)
    levels = [point.level_bps for point in points]
    falls = sum(before >= after for before, after in pairwise(levels))
    report.figure(f"{name}: levels that do not rise", falls, most=0)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=20, help="draws of roots and destinations")
    arguments.add_argument("--part", type=float, default=0.5, help="of the largest rate, required")
    options = arguments.parse_args()
    report = Report("exact_cost.py", as_json=options.json)
    topology = regions(limits=True)
    costs(report, topology, 1, options.seeds, options.part)
    costs(report, topology, 4, max(1, options.seeds // 5), options.part)
    for count in (1, 4):
        frontier(report, topology, count, 1)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
