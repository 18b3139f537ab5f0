"""Plans of very large overlays: how long, how far from what is proven, how much memory.

Random networks of mean degree 8 with links N(10, 3) Mbit/s, and multicasts to some nodes each, of 10
tenants. Each size is planned in a process of its own, first quickly, then by "exact" until the deadline.
Against each other stand the quick plan, the plan, and the bounds that its certificate proves; nothing else
that we know plans the largest of them.

    python benchmarks/planning_large.py [--size NODESxSESSIONS ...] [--deadline 60] [--json]
"""

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import time

import square
from square.planning import with_policy

SIZES = ("300x60", "500x100", "1000x200")
COLUMNS = (
    "nodes",
    "sessions",
    "quick plan, its least rate in Mbit/s",
    "`exact`, likewise",
    "levels",
    "gap of the first, median, worst level",
    "streams a session",
    "memory",
)
DEGREE = 8
TENANTS = 10


def scenario(nodes: int, sessions: int, options: argparse.Namespace) -> square.Scenario:
    chance = random.Random(options.seed)
    names = [f"n{i}" for i in range(nodes)]
    topology = square.Topology()
    for name in names:
        topology.add_node(name)
    pairs = {(i, i + 1) for i in range(nodes - 1)} | {(0, nodes - 1)}
    while len(pairs) < DEGREE * nodes // 2:
        one, other = sorted(chance.sample(range(nodes), 2))
        pairs.add((one, other))
    for pair in sorted(pairs):
        for one, other in (pair, pair[::-1]):
            topology.add_link(names[one], names[other], capacity_bps=max(1e6, chance.gauss(10e6, 3e6)))
    collectives = []
    for k in range(sessions):
        members = chance.sample(names, options.destinations + 1)
        collectives.append(square.Collective(f"tenant {k % TENANTS}", root=members[0], members=members))
    return with_policy(
        square.Scenario(topology, collectives=collectives), policy="exact", deadline=options.deadline
    )


def measure(
    size: str, options: argparse.Namespace, answer: "multiprocessing.SimpleQueue[dict[str, float]]"
) -> None:
    nodes, sessions = (int(part) for part in size.split("x"))
    asked = scenario(nodes, sessions, options)
    began = time.perf_counter()
    quick = square.quick_plan(asked)
    quick_seconds = time.perf_counter() - began
    began, cpu = time.perf_counter(), time.process_time()
    plan = square.plan(asked)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    gaps = [gap.rate_gap for gap in square.gaps(plan)]
    answer.put(
        {
            "nodes": nodes,
            "sessions": sessions,
            "quick_seconds": quick_seconds,
            "quick_least_bps": min(one.rate_bps for one in quick.collectives),
            "seconds": seconds,
            "cpu_seconds": cpu,
            "least_bps": min(one.rate_bps for one in plan.collectives),
            "levels": len(gaps),
            "gap_first": gaps[0],
            "gap_median": statistics.median(gaps),
            "gap_worst": max(gaps),
            "streams": sum(len(session.streams) for session in plan.sessions) / sessions,
            "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", action="append", help=f"nodes and sessions, instead of {', '.join(SIZES)}")
    parser.add_argument("--destinations", type=int, default=20)
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print("| " + " | ".join(COLUMNS) + " |")
        print("|---" * len(COLUMNS) + "|")
    for size in options.size or SIZES:
        answer: multiprocessing.SimpleQueue[dict[str, float]] = multiprocessing.SimpleQueue()
        child = multiprocessing.Process(target=measure, args=(size, options, answer))
        child.start()
        child.join()
        if child.exitcode != 0:
            raise SystemExit(f"{size}: the planning process ended with {child.exitcode}")
        row = answer.get()
        if options.json:
            print(json.dumps(row), flush=True)
            continue
        cells = (
            f"{row['nodes']}",
            f"{row['sessions']}",
            f"{row['quick_seconds']:.2f} s, {row['quick_least_bps'] / 1e6:.2f}",
            f"{row['seconds']:.0f} s, {row['least_bps'] / 1e6:.2f}",
            f"{row['levels']:.0f}",
            f"{row['gap_first']:.2%}, {row['gap_median']:.2%}, {row['gap_worst']:.1%}",
            f"{row['streams']:.0f}",
            f"{row['memory_gb']:.2f} GB",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
