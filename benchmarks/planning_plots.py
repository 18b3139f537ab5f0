"""Plan time and memory over nodes and over sessions, ours and HiGHS', as plots and as a table.

    nodes      meshes with links of N(10, 1) Mbit/s; every node broadcasts to all, or all sum (all-reduce)
    sessions   63 measured regions with the limits of a virtual machine; multicasts to 10, or groups of 3 to
               10, half of them all-reduces

HiGHS solves the arc program of the same broadcasts and multicasts, its first level alone; we make the whole
plan, streams and certificate included. Every point is a process of its own, ended after --limit seconds: then
it has no mark. Memory is the peak of that process beyond what it took before. The table is on standard
output, the plots are in --out, which needs matplotlib. SQUARE_DATA names the directory with inter-region/.

    python benchmarks/planning_plots.py [--limit 60] [--out docs/plots/planning.svg] [--json]
"""

import argparse
import json
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_lexicographic import first_level_seconds
from exact_models import arc_model
from exact_networks import broadcasts, instance_of, mesh, multicasts, names_of, regions
from exact_sessions import Group

SEED = 1
DESTINATIONS = 10
NODES = (4, 8, 16, 24, 32, 48, 64)
SESSIONS = (1, 2, 4, 8, 16)
GROUPS = (10, 30, 100, 300, 1000)
# What is solved, by whom, and over what.
Key = tuple[str, str, str]
Maker = Callable[[int], square.Scenario]


def exact(topology: square.Topology, collectives: list[square.Collective]) -> square.Scenario:
    return square.Scenario(topology, square.Policy("exact"), collectives=collectives)


def all_broadcast(nodes: int) -> square.Scenario:
    topology = mesh(nodes, SEED)
    return exact(topology, broadcasts(names_of(topology), nodes, SEED))


def all_reduce(nodes: int) -> square.Scenario:
    return exact(mesh(nodes, SEED), [square.Collective("tenant", "all_reduce", size_bytes=1 << 20)])


def some_multicast(sessions: int) -> square.Scenario:
    topology = regions(limits=True)
    return exact(topology, multicasts(names_of(topology), sessions, DESTINATIONS, SEED))


def groups(count: int) -> square.Scenario:
    chance = random.Random(SEED)
    topology = regions(limits=True)
    collectives = []
    for number in range(count):
        members = chance.sample(names_of(topology), chance.randint(3, 10))
        tenant = f"tenant {number % 100}"
        if number % 2:
            collectives.append(square.Collective(tenant, "all_reduce", members=members, size_bytes=1 << 20))
        else:
            collectives.append(square.Collective(tenant, root=members[0], members=members))
    return exact(topology, collectives)


def plan(scenario: square.Scenario) -> None:
    square.plan(scenario)


def highs(scenario: square.Scenario) -> None:
    asked = [Group("broadcast", tuple(one.members), one.root) for one in scenario.collectives]
    model = arc_model(instance_of(scenario.topology, asked))
    first_level_seconds(model.program, model.goals)


SERIES: dict[Key, tuple[Maker, Callable[[square.Scenario], None], tuple[int, ...]]] = {
    ("nodes", "square", "broadcasts of all to all"): (all_broadcast, plan, NODES),
    ("nodes", "HiGHS", "broadcasts of all to all"): (all_broadcast, highs, NODES),
    ("nodes", "square", "an all-reduce"): (all_reduce, plan, NODES),
    ("sessions", "square", "multicasts to 10"): (some_multicast, plan, SESSIONS),
    ("sessions", "HiGHS", "multicasts to 10"): (some_multicast, highs, SESSIONS),
    ("sessions", "square", "groups of 3 to 10"): (groups, plan, GROUPS),
}


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def solve(key: Key, size: int, answer: "multiprocessing.SimpleQueue[tuple[float, int]]") -> None:
    make, work, _ = SERIES[key]
    scenario = make(size)
    before, began = peak_bytes(), time.perf_counter()
    work(scenario)
    answer.put((time.perf_counter() - began, peak_bytes() - before))


def point(key: Key, size: int, limit: float) -> tuple[float, int] | None:
    """Seconds and bytes; nothing past the limit, or where it failed."""
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=solve, args=(key, size, answer))
    process.start()
    try:
        process.join(limit)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
    return None if answer.empty() else answer.get()


def measure(limit: float, quiet: bool) -> dict[Key, dict[int, tuple[float, int]]]:
    found: dict[Key, dict[int, tuple[float, int]]] = {}
    for key, (_, _, sizes) in SERIES.items():
        over, who, what = key
        found[key] = {}
        for size in sizes:
            figures = point(key, size, limit)
            if not quiet:
                text = (
                    "over the limit" if figures is None else f"{figures[0]:.3f} s, {figures[1] / 1e6:.0f} MB"
                )
                print(f"{who:>7}, {what}, {size} {over}: {text}", flush=True)
            if figures is None:
                break  # larger ones take longer
            found[key][size] = figures
    return found


def plot(found: dict[Key, dict[int, tuple[float, int]]], file: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "square"  # the same figures give the same file
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    for row, (name, part) in enumerate((("seconds", 0), ("MB beyond the start", 1))):
        for column, over in enumerate(("nodes", "sessions")):
            here = axes[row][column]
            for (kind, who, what), points in found.items():
                if kind != over or not points:
                    continue
                values = [value[part] / (1 if part == 0 else 1e6) for value in points.values()]
                style = "--" if who == "HiGHS" else "-"
                here.plot(
                    list(points),
                    [max(value, 1e-3) for value in values],
                    style,
                    marker="o",
                    label=f"{who}: {what}",
                )
            here.set(
                xscale="log", yscale="log", xlabel=over if row else "", ylabel=name if column == 0 else ""
            )
            ticks = (4, 8, 16, 32, 64) if over == "nodes" else (1, 3, 10, 30, 100, 300, 1000)
            here.set_xticks(ticks, [str(tick) for tick in ticks])
            here.set_xticks([], minor=True)
            here.grid(alpha=0.3)
            if row == 0:
                here.legend(fontsize="small")
                here.set_title("meshes" if over == "nodes" else "63 regions with limits of nodes")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="of a point (default 60)")
    made.add_argument("--out", type=Path, metavar="FILE", help=".svg, .png or .pdf; none: no plots")
    made.add_argument("--json", action="store_true", help="the figures as JSON and nothing else")
    options = made.parse_args()
    found = measure(options.limit, options.json)
    if options.json:
        rows = [
            {"over": over, "who": who, "what": what, "size": size, "seconds": seconds, "bytes": taken}
            for (over, who, what), points in found.items()
            for size, (seconds, taken) in points.items()
        ]
        print(json.dumps({"command": sys.argv, "points": rows}, indent=2))
    if options.out is not None:
        plot(found, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
