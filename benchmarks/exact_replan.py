"""Planning again after a change: a Planner that keeps its state against a plan from nothing.

    mesh      16 nodes, N(10, 1) Mbit/s, 16 sessions with 6 destinations
    regions   63 regions with the limits of a virtual machine, 4 sessions with 10 destinations

Changes, one after another: 1% of the links have another capacity; a session joins; one leaves; a
node dies (each time from the network as it was); half of the capacities change. Each is planned
by the Planner and from nothing, and both give the same rates. Percentiles are over the changes of
one kind; ratios are taken change by change in the same run. SQUARE_DATA names the directory with
inter-region/.

    python benchmarks/exact_replan.py [mesh] [regions] [--changes 200]
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_networks import mesh, multicasts, names_of, regions
from exact_report import Report, parser, percentile, timed

MOST_DIFFERENCE = 1e-5  # of a rate, warm against cold
MOST_OVER_COLD = 1.1


@dataclass(frozen=True)
class Bed:
    name: str
    build: Callable[[int], square.Topology]
    sessions: int
    destinations: int
    most_seconds: float  # of the 95th percentile, 1% of the capacities changed

    def scenario(self, seed: int) -> square.Scenario:
        topology = self.build(seed)
        collectives = multicasts(names_of(topology), self.sessions, self.destinations, seed)
        return square.Scenario(topology, square.Policy("exact"), collectives=collectives)


BEDS = {
    "mesh": Bed("mesh of 16", lambda seed: mesh(16, seed), 16, 6, 0.050),
    "regions": Bed("63 regions", lambda _: regions(limits=True), 4, 10, 0.250),
}


@dataclass
class Times:
    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    difference: float = 0.0


def change_capacities(scenario: square.Scenario, rng: random.Random, part: float) -> None:
    """Each within a factor of 0.7 to 1.4 of what it is."""
    links = scenario.topology.links
    for link in rng.sample(links, max(1, round(part * len(links)))):
        scenario.set_capacity(link.from_node, link.to_node, link.capacity_bps * rng.uniform(0.7, 1.4))


def join(scenario: square.Scenario, rng: random.Random, destinations: int) -> None:
    names = names_of(scenario.topology)
    [collective] = multicasts(names, 1, destinations, rng.randrange(2**32))
    scenario.add_collective(collective)


def leave(scenario: square.Scenario, rng: random.Random) -> None:
    scenario.remove_collective(rng.choice(scenario.collectives).id)


def plan_both(planner: square.Planner, scenario: square.Scenario, times: Times) -> None:
    warm, warm_seconds = timed(lambda: planner.plan(scenario))
    cold, cold_seconds = timed(lambda: square.plan(scenario))
    times.warm.append(warm_seconds)
    times.cold.append(cold_seconds)
    for mine, theirs in zip(warm.collectives, cold.collectives, strict=True):
        away = abs(mine.lp_rate_bps - theirs.lp_rate_bps) / max(theirs.lp_rate_bps, 1.0)
        times.difference = max(times.difference, away)


def measure(bed: Bed, seed: int, changes: int) -> dict[str, Times]:
    rng = random.Random(seed)
    result = {kind: Times() for kind in ("1% changed", "joined", "left", "node died", "half changed")}
    scenario = bed.scenario(seed)
    planner = square.Planner()
    planner.plan(scenario)
    for _ in range(changes):
        change_capacities(scenario, rng, 0.01)
        plan_both(planner, scenario, result["1% changed"])
    for _ in range(changes // 4):
        join(scenario, rng, bed.destinations)
        plan_both(planner, scenario, result["joined"])
        leave(scenario, rng)
        plan_both(planner, scenario, result["left"])
    for _ in range(changes // 10):
        change_capacities(scenario, rng, 0.5)
        plan_both(planner, scenario, result["half changed"])
    for _ in range(changes // 10):
        smaller = scenario.copy()
        smaller.remove_node(rng.choice(names_of(smaller.topology)))
        planner.plan(scenario)
        plan_both(planner, smaller, result["node died"])
    return result


def show(report: Report, bed: Bed, kind: str, times: Times) -> None:
    name = f"{bed.name}, {kind}"
    factor = {"1% changed": 1.0, "joined": 2.0, "left": 2.0}.get(kind)
    asked = None if factor is None else factor * bed.most_seconds * 1e3
    warm95, cold95 = percentile(times.warm, 0.95), percentile(times.cold, 0.95)
    ratios = [warm / cold for warm, cold in zip(times.warm, times.cold, strict=True)]
    report.figure(f"{name}: changes", len(times.warm))
    report.figure(f"{name}: warm, median", median(times.warm) * 1e3, "ms")
    report.figure(f"{name}: warm, 95th percentile", warm95 * 1e3, "ms", most=asked)
    report.figure(f"{name}: cold, median", median(times.cold) * 1e3, "ms")
    report.figure(f"{name}: cold, 95th percentile", cold95 * 1e3, "ms")
    least = 5.0 if kind == "1% changed" else None
    report.figure(f"{name}: cold / warm, 95th percentiles", cold95 / warm95, "times", least)
    report.figure(f"{name}: cold / warm, median of the changes", 1 / median(ratios), "times")
    report.figure(f"{name}: worst warm / cold of a change", max(ratios), "times", most=MOST_OVER_COLD)
    report.figure(f"{name}: largest difference of a rate", times.difference, most=MOST_DIFFERENCE)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("beds", nargs="*", metavar="BED", help=f"of {', '.join(BEDS)} (default: all)")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--changes", type=int, default=200)
    options: argparse.Namespace = arguments.parse_args()
    if unknown := set(options.beds) - set(BEDS):
        arguments.error(f"no bed {', '.join(sorted(unknown))}; there are {', '.join(BEDS)}")
    report = Report("exact_replan.py", as_json=options.json)
    for name in options.beds or BEDS:
        bed = BEDS[name]
        for kind, times in measure(bed, options.seed, options.changes).items():
            if times.warm:
                show(report, bed, kind, times)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
