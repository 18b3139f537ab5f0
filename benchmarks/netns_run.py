"""What the benchmarks in network namespaces share: scenarios, runs, and how figures are shown."""

import argparse
import json
import platform
import shlex
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import machine
import square
from square.errors import SquareError
from square.run.job import RunOptions, run_scenario
from square.run.network import NETNS
from square.run.outcome import CollectiveOutcome, RunOutcome
from square.run.progress import Expectation, Silence

# What has been measured by run(), and by others that add to it: main() prints it.
cost = machine.Cost()
_TREES = {"all_reduce": 2}  # of the others one


class _Meter(Silence):
    """Counts what goes by while collectives run, without the start of the processes."""

    def __init__(self) -> None:
        self.usage = machine.Usage()

    def begin(self, policy: str, collectives: list[Expectation], total_bytes: int) -> None:
        self.usage.begin()

    def end(self) -> None:
        self.usage.end()


def run_metered(scenario: square.Scenario, settings: RunOptions) -> RunOutcome:
    """Runs it and adds what it cost to `cost`."""
    meter = _Meter()
    outcome = run_scenario(scenario, settings, meter)
    gb_hops = sum(
        one.size_bytes / 1e9 * _TREES.get(one.op, 1) * (len(one.members) - 1)
        for policy in outcome.policies
        for one in policy.collectives
    )
    cost.add_usage(meter.usage, gb_hops)
    return outcome


def parser_for(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, epilog="Needs root, or `unshare --user --map-root-user`."
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median counts (default 3)")
    parser.add_argument("--seed", type=int, default=7, help="of what is drawn (default 7)")
    parser.add_argument("--unpaced", action="store_true", help="the kernel's shaper alone")
    parser.add_argument("--json", action="store_true", help="the figures as JSON and nothing else")
    return parser


def links_both_ways(capacities_mbps: dict[tuple[str, str], float]) -> square.Topology:
    """A topology whose links have the same capacity in both directions."""
    topology = square.Topology()
    for name in sorted({name for pair in capacities_mbps for name in pair}):
        topology.add_node(name)
    for (one, other), mbps in capacities_mbps.items():
        topology.add_link(one, other, capacity_bps=mbps * 1e6)
        topology.add_link(other, one, capacity_bps=mbps * 1e6)
    return topology


def run(
    topology: square.Topology,
    collectives: Sequence[square.Collective],
    options: argparse.Namespace,
    policies: tuple[str, ...] = ("exact",),
    seed: int | None = None,
) -> RunOutcome:
    scenario = square.Scenario(topology, collectives=list(collectives), name="benchmark")
    settings = RunOptions(
        policies, seed=options.seed if seed is None else seed, emulate=NETNS, paced=not options.unpaced
    )
    return run_metered(scenario, settings)


def figures_of(collective: CollectiveOutcome) -> dict[str, Any]:
    """One collective: seconds, and its rate against the plan's and against the bound of any plan."""
    return {
        "op": collective.op,
        "bytes": collective.size_bytes,
        "measured_seconds": collective.measured_seconds,
        "planned_seconds": collective.planned_seconds,
        "measured_mbps": collective.measured_bps / 1e6,
        "bound_mbps": collective.bound_bps / 1e6,
        "measured_to_planned_seconds": collective.completion_ratio,
        "rate_to_bound": collective.measured_bps / collective.bound_bps,
    }


def network_of(outcomes: Sequence[RunOutcome]) -> dict[str, Any]:
    """What the runs went over, and what the kernel did to them."""
    traffic = [policy.traffic for outcome in outcomes for policy in outcome.policies if policy.traffic]
    return {
        **outcomes[0].network.to_json(),
        "dropped_packets": [one.dropped_packets for one in traffic],
        "retransmitted_segments": [one.retransmitted_segments for one in traffic],
    }


def median_by(runs: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    """The run that is in the middle by this figure."""
    chosen = statistics.median_low([one[key] for one in runs])
    return next(one for one in runs if one[key] == chosen)


def main(
    parser: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], tuple[dict[str, Any], list[str]]],
) -> int:
    """Measures and prints. Exit code 1 only where it could not run."""
    options = parser.parse_args()
    command = shlex.join([*sys.orig_argv])
    try:
        figures, lines = measure(options)
    except SquareError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    if cost.gb_hops > 0:
        figures |= cost.figures()
        lines.append(cost.line())
    if options.json:
        print(json.dumps({"command": command, "kernel": platform.release(), **figures}, indent=2))
        return 0
    print(f"command: {command}")
    network = figures.get("network")
    if network is None:
        print("\n".join(lines))
        return 0
    shaped = ", TBF at capacity" if "qdisc" in network else ""
    print(
        f"network: {network['mode']}, MTU {network['mtu_bytes']}{shaped}, "
        f"TCP {network['congestion_control']}, {'paced' if network['paced'] else 'not paced'} by the nodes"
    )
    if shaped:
        print(
            f"packets dropped {network['dropped_packets']}, segments sent again "
            f"{network['retransmitted_segments']}"
        )
    print("\n".join(lines))
    return 0
