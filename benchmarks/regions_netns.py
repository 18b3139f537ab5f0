"""All-reduce over sites of a measured network, for real: backend square against Gloo, and the bound.

Cuts of eight of the 63 regions, scaled so that all capacities together are --total Mbit/s; every
site is a network namespace, every link shaped by the kernel. Both backends run in the same
processes, in turn, with as many bytes as square is planned to take --seconds for. Needs root and torch.
SQUARE_DATA names the directory with inter-region/.

    python benchmarks/regions_netns.py [--cuts 10] [--json]
"""

import argparse
import random
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import machine
import square
from exact_networks import names_of, regions
from netns_run import main, parser_for
from netns_torch import Sites

SITES = 8
ASKED_TIMES = 8.0
ASKED_OF_BOUND = 0.85
FLOAT_BYTES = 4


def cut(options: argparse.Namespace, number: int) -> square.Topology:
    """In the order in which its sites are drawn, as a job lists its hosts."""
    chosen = random.Random(f"{options.seed} {number}").sample(names_of(regions(limits=False)), SITES)
    whole = regions(limits=False, names=chosen)
    scale = options.total * 1e6 / sum(link.capacity_bps for link in whole.links)
    topology = square.Topology()
    for name in chosen:
        topology.add_node(name)
    for link in whole.links:
        topology.add_link(link.from_node, link.to_node, capacity_bps=link.capacity_bps * scale)
    return topology


def measure_cut(options: argparse.Namespace, number: int) -> dict[str, Any]:
    topology = cut(options, number)
    wish = square.Collective("tenant", "all_reduce", size_bytes=1 << 20)
    plan = square.plan(square.Scenario(topology, square.Policy("exact"), collectives=[wish]))
    bound_bps = plan.collectives[0].bound_bps
    elements = int(bound_bps * options.seconds / 8 / FLOAT_BYTES)
    with Sites(topology) as sites:
        ours = statistics.median(sites.all_reduce("square", elements, options.repeat))
        cost = sites.cost
        secured = compare(options, sites, elements, ours) if options.clear else {}
        theirs = None if options.alone else statistics.median(sites.all_reduce("gloo", elements, 1))
    bits = 8 * FLOAT_BYTES * elements
    return {
        "cut": number,
        **cost.figures(),
        **secured,
        "bytes": FLOAT_BYTES * elements,
        "square_seconds": ours,
        **({"gloo_seconds": theirs, "times_sooner": theirs / ours} if theirs else {}),
        "of_bound": bits / ours / bound_bps,
        "bound_mbps": bound_bps / 1e6,
    }


def compare(options: argparse.Namespace, sites: Sites, elements: int, ours: float) -> dict[str, Any]:
    """What TLS and sealing cost: the same without both, in the same processes."""
    secured = sites.cost
    clear = statistics.median(sites.all_reduce("square", elements, options.repeat, insecure=True))
    return {
        "clear_seconds": clear,
        "rate_of_clear": clear / ours,
        "cpu_of_clear": secured.cpu_seconds / sites.cost.cpu_seconds,
        "clear_busy": sites.cost.figures(),
    }


def describe(one: dict[str, Any]) -> str:
    gloo = ""
    if "gloo_seconds" in one:
        gloo = f"Gloo {one['gloo_seconds']:.2f} s: {one['times_sooner']:.1f} times; "
    secured = ""
    if "cpu_of_clear" in one:
        cpu, rate = one["cpu_of_clear"], one["rate_of_clear"]
        secured = f"{cpu:.2f} of the CPU and {rate:.3f} of the rate in the clear; "
    return (
        f"{secured}square {one['square_seconds']:.2f} s; {gloo}{one['of_bound']:.3f} of the bound of "
        f"{one['bound_mbps']:.1f} Mbit/s; {machine.describe(one)}"
    )


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    cuts = []
    for number in range(options.cuts):
        cuts.append(measure_cut(options, number))
        one = cuts[-1]
        print(f"cut {number}: {describe(one)}", file=sys.stderr)
    of_bound = statistics.median(one["of_bound"] for one in cuts)
    figures = {
        "asked_times": ASKED_TIMES,
        "asked_of_bound": ASKED_OF_BOUND,
        "cuts": cuts,
        "median_of_bound": of_bound,
    }
    line = f"median of {len(cuts)} cuts: {of_bound:.3f} of the bound, asked {ASKED_OF_BOUND}"
    if not options.alone:
        figures["median_times_sooner"] = times = statistics.median(one["times_sooner"] for one in cuts)
        line += f"; {times:.1f} times sooner than Gloo, asked {ASKED_TIMES}"
    return figures, [line]


def options_parser() -> argparse.ArgumentParser:
    parser = parser_for("All-reduce over cuts of a measured network: backend square against Gloo.")
    parser.add_argument("--cuts", type=int, default=10, help="(default 10)")
    parser.add_argument(
        "--total", type=float, default=2000, help="Mbit/s of all links together (default 2000)"
    )
    parser.add_argument("--clear", action="store_true", help="and without TLS and sealing, to compare")
    parser.add_argument("--alone", action="store_true", help="without Gloo, which takes most of the time")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="that square is planned to take (default 2)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(options_parser(), measure))
