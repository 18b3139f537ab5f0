"""A service's day: many groups over 63 measured regions; some come, some go, capacities change.

Groups of 3 to 10 regions, all-reduces and broadcasts, of 100 tenants; nodes have the limits of a virtual
machine of their cloud. Each change is planned by a Planner that keeps its state, and one in --cold of them
also from nothing: the rates must be the same. Changes are drawn: two in five a group that joins, as many one
that leaves, else a link that has half to one and a half of its capacity. SQUARE_DATA names the directory with
inter-region/.

    python benchmarks/planning_day.py [--groups 1000] [--changes 200] [--json]
"""

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_networks import names_of, regions

TENANTS = 100
ASKED_SECONDS = 0.1
MOST_DIFFERENCE = 1e-6  # of a rate, kept state against none


class Day:
    """What is asked for, and how it changes."""

    def __init__(self, groups: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.network = regions(limits=True)
        self.names = names_of(self.network)
        self.groups = 0
        first = [self.group() for _ in range(groups)]
        self.scenario = square.Scenario(self.network, square.Policy("exact"), collectives=first)

    def group(self) -> square.Collective:
        self.groups += 1
        members = self.chance.sample(self.names, self.chance.randint(3, 10))
        tenant, group = f"tenant {self.chance.randrange(TENANTS)}", f"group {self.groups}"
        if self.chance.random() < 0.5:
            return square.Collective(tenant, "all_reduce", members=members, group=group, size_bytes=1 << 20)
        return square.Collective(tenant, root=members[0], members=members, group=group, size_bytes=1 << 20)

    def change(self, plan: square.Plan) -> str:
        kind = self.chance.choices(("join", "leave", "capacity"), (2, 2, 1))[0]
        if kind == "join":
            self.scenario.add_collective(self.group())
        elif kind == "leave":
            self.scenario.remove_collective(self.chance.choice(plan.collectives).id)
        else:
            link = self.chance.choice(self.network.links)
            capacity = link.capacity_bps * self.chance.uniform(0.5, 1.5)
            self.scenario.set_capacity(link.from_node, link.to_node, capacity)
        return kind


def difference(one: square.Plan, other: square.Plan) -> float:
    pairs = zip(one.collectives, other.collectives, strict=True)
    return max(abs(a.rate_bps / b.rate_bps - 1) for a, b in pairs)


def measure(options: argparse.Namespace) -> dict[str, object]:
    day = Day(options.groups, options.seed)
    planner = square.Planner()
    began = time.perf_counter()
    plan = planner.plan(day.scenario)
    cold = [time.perf_counter() - began]
    seconds: dict[str, list[float]] = {"join": [], "leave": [], "capacity": []}
    worst = 0.0
    for number in range(options.changes):
        kind = day.change(plan)
        began = time.perf_counter()
        plan = planner.plan(day.scenario)
        seconds[kind].append(time.perf_counter() - began)
        if number % options.cold == 0:
            began = time.perf_counter()
            fresh = square.plan(day.scenario)
            cold.append(time.perf_counter() - began)
            worst = max(worst, difference(plan, fresh))
    every = sorted(second for kind in seconds.values() for second in kind)
    return {
        "groups": options.groups,
        "seed": options.seed,
        "streams": sum(len(session.streams) for session in plan.sessions),
        "levels": len(square.gaps(plan)),
        "gap": max(gap.rate_gap for gap in square.gaps(plan)),
        "valid": not square.violations(plan),
        "cold_seconds": statistics.median(cold),
        "median_seconds": {kind: statistics.median(times) for kind, times in seconds.items() if times},
        "p95_seconds": every[int(0.95 * len(every))],
        "longest_seconds": every[-1],
        "largest_difference": worst,
    }


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--groups", type=int, default=1000, metavar="N", help="at first (default 1000)")
    made.add_argument("--changes", type=int, default=200, metavar="N", help="(default 200)")
    made.add_argument("--cold", type=int, default=10, metavar="N", help="changes from one plan to the next")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="(default 1)")
    made.add_argument("--json", action="store_true", help="the figures as JSON and nothing else")
    options = made.parse_args()
    figures = measure(options)
    if options.json:
        print(json.dumps({"command": sys.argv, **figures}, indent=2))
    else:
        medians = figures["median_seconds"]
        assert isinstance(medians, dict)
        kinds = ", ".join(f"{kind} {1e3 * seconds:.0f} ms" for kind, seconds in medians.items())
        print(f"{options.groups} groups: from nothing {1e3 * float(str(figures['cold_seconds'])):.0f} ms")
        print(f"medians: {kinds}; 95 of 100 within {1e3 * float(str(figures['p95_seconds'])):.0f} ms")
        print(f"{figures['streams']} streams, {figures['levels']} levels, gap {figures['gap']:.1e}")
        print(f"rates differ from a plan from nothing by {figures['largest_difference']:.1e}")
    is_well = float(str(figures["p95_seconds"])) <= ASKED_SECONDS and bool(figures["valid"])
    return 0 if is_well and float(str(figures["largest_difference"])) <= MOST_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
