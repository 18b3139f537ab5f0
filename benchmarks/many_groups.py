"""Many small groups of many tenants: how long a registration takes, and whether closed ones leave anything.

A controller and 16 nodes in one process, a full mesh of uneven links, and groups of 2 to 4 members of 100
tenants, each with an all-reduce or a broadcast, that are registered one after another by all of their members
at once. A registration is over for a member when the plan that knows the group is active on every node; its
first plan is there when that is so for the last of its members. Then groups are made and closed, and the growth
of the process is taken between the first tenth of them and the end.

    python benchmarks/many_groups.py [--groups 1000] [--closed 10000] [--json]
"""

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import machine
import square

NODES = [f"n{number:02}" for number in range(16)]
TENANTS = 100
MOST_MEMBERS = 4
MBPS = 1e6
MIB = 1 << 20
MOST_REGISTRATION = 0.100  # seconds, of 95 in 100
MOST_FIRST_PLAN = 0.300
MOST_GROWTH = 32 * MIB
SETTLE_SECONDS = 2.0
TIMEOUT = 120.0


@dataclass
class Figures:
    """Seconds of each registration, and of each group's first plan at all of its members."""

    registrations: list[float] = field(default_factory=list)
    first_plans: list[float] = field(default_factory=list)
    growth_bytes: int = 0
    sessions_left: int = 0

    def summary(self) -> dict[str, float]:
        return {
            "registration_p50": percentile(self.registrations, 0.50),
            "registration_p95": percentile(self.registrations, 0.95),
            "registration_most": max(self.registrations),
            "first_plan_p50": percentile(self.first_plans, 0.50),
            "first_plan_p95": percentile(self.first_plans, 0.95),
            "first_plan_most": max(self.first_plans),
            "growth_mib": self.growth_bytes / MIB,
            "sessions_left": self.sessions_left,
        }


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def overlay(draw: random.Random) -> square.Scenario:
    topology = square.Topology()
    for name in NODES:
        topology.add_node(name)
    for tail in NODES:
        for head in NODES:
            if tail != head:
                topology.add_link(tail, head, capacity_bps=draw.uniform(50, 1000) * MBPS)
    return square.Scenario(topology, square.Policy("exact"))


class Job:
    """Nodes, and the members of groups at them."""

    def __init__(self, stack: ExitStack, draw: random.Random) -> None:
        self._draw = draw
        self._controller = stack.enter_context(square.Controller(overlay(draw)))
        self._nodes = {
            name: stack.enter_context(square.Node(name, self._controller.address)) for name in NODES
        }
        self._controller.wait_for_nodes(NODES, TIMEOUT)
        self._pool = stack.enter_context(ThreadPoolExecutor(MOST_MEMBERS))

    def make(self, number: int, figures: Figures | None) -> list[square.Communicator]:
        names = self._draw.sample(NODES, self._draw.randint(2, MOST_MEMBERS))
        operation = self._draw.choice(["all_reduce", "broadcast"])
        begin = time.monotonic()

        def join(rank: int) -> tuple[square.Communicator, float]:
            member = square.Communicator(
                self._nodes[names[rank]],
                f"group {number}",
                f"tenant {number % TENANTS}",
                names,
                rank,
                [(operation, 0, MIB, 1.0)],
                timeout=TIMEOUT,
            )
            return member, time.monotonic() - begin

        joined = list(self._pool.map(join, range(len(names))))
        if figures is not None:
            figures.registrations += [seconds for _, seconds in joined]
            figures.first_plans.append(max(seconds for _, seconds in joined))
        return [member for member, _ in joined]

    def sessions(self) -> int:
        """That nodes still know of."""
        return sum(node.statistics()["sessions"] for node in self._nodes.values())


def churn(job: Job, first: int, count: int, figures: Figures) -> None:
    before = 0
    sessions = job.sessions()
    for number in range(first, first + count):
        for member in job.make(number, None):
            member.close()
        if number == first + count // 10:
            before = resident_bytes()
    time.sleep(SETTLE_SECONDS)
    # The next plan is one without those that have ended.
    for member in job.make(first + count, None):
        member.close()
    time.sleep(SETTLE_SECONDS)
    figures.growth_bytes = resident_bytes() - before
    figures.sessions_left = max(0, job.sessions() - sessions)


def run(options: argparse.Namespace) -> tuple[Figures, machine.Usage]:
    figures = Figures()
    draw = random.Random(options.seed)
    with ExitStack() as stack:
        job = Job(stack, draw)
        with machine.Usage() as usage:
            kept = [job.make(number, figures) for number in range(options.groups)]
        # Beside a few of them: what grows is what is looked for.
        for members in kept[options.beside :]:
            for member in members:
                member.close()
        time.sleep(SETTLE_SECONDS)
        if options.closed > 0:
            churn(job, options.groups, options.closed, figures)
        for members in kept[: options.beside]:
            for member in members:
                member.close()
    return figures, usage


def main() -> int:
    parser = argparse.ArgumentParser(description="Registrations of many groups of many tenants.")
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--closed", type=int, default=0, help="groups that are made and closed afterwards")
    parser.add_argument("--beside", type=int, default=10, help="groups that stay meanwhile")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(shlex.join(sys.argv), file=sys.stderr)
    figures, usage = run(options)
    summary = figures.summary()
    if options.json:
        print(json.dumps(summary))
    else:
        for name, value in summary.items():
            seconds = name.startswith(("registration", "first_plan"))
            print(f"{name:18} {1e3 * value:9.1f} ms" if seconds else f"{name:18} {value:9.1f}")
    print(f"machine {100 * usage.busy:.0f}% busy", file=sys.stderr)
    in_time = (
        summary["registration_p95"] <= MOST_REGISTRATION and summary["first_plan_p95"] <= MOST_FIRST_PLAN
    )
    return 0 if in_time and figures.growth_bytes <= MOST_GROWTH and figures.sessions_left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
