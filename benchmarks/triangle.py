"""Three hosts, A-B 50 Mbit/s, the other hops 400 each way: what relaying by C is worth.

A broadcast of 33.55 MB from A, also over the direct links alone as a library does that knows no
relays (asked: at most 0.69 s), and what an all-reduce is made of, a reduce to A and then the
broadcast (asked: 90% of the bound). With sums in the library also the planned all-reduce.

    python benchmarks/triangle.py [--repeat 3] [--json]
"""

import argparse
import statistics
import sys
from typing import Any

import square
from netns_run import figures_of, links_both_ways, main, median_by, network_of, parser_for, run
from square.run.outcome import RunOutcome

SIZE_BYTES = 33_550_000
ASKED_SECONDS = 0.69
ASKED_OF_BOUND = 0.90
LINKS = {("a", "b"): 50.0, ("a", "c"): 400.0, ("b", "c"): 400.0}
HAS_SUMS = hasattr(square.Communicator, "reduce")


def run_one(op: str, options: argparse.Namespace, policy: str = "exact") -> list[RunOutcome]:
    root = {} if op == "all_reduce" else {"root": "a"}
    tensor = square.Collective("tenant", op=op, size_bytes=SIZE_BYTES, **root)
    return [
        run(links_both_ways(LINKS), [tensor], options, (policy,), options.seed + number)
        for number in range(options.repeat)
    ]


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    outcomes = {"broadcast": run_one("broadcast", options)}
    if HAS_SUMS:
        outcomes["reduce"] = run_one("reduce", options)
        outcomes["all_reduce"] = run_one("all_reduce", options)
    direct = run_one("broadcast", options, "shortest-path")
    runs = {op: [figures_of(one.policies[0].collectives[0]) for one in made] for op, made in outcomes.items()}
    medians = {op: median_by(many, "measured_seconds") for op, many in runs.items()}
    figures: dict[str, Any] = {"asked_seconds": ASKED_SECONDS, "asked_of_bound": ASKED_OF_BOUND}
    figures |= {"medians": medians, "runs": runs}
    figures["direct_seconds"] = statistics.median(
        one.policies[0].collectives[0].measured_seconds for one in direct
    )
    broadcast = medians["broadcast"]
    figures["times_sooner_than_direct"] = figures["direct_seconds"] / broadcast["measured_seconds"]
    lines = [
        f"  {op}: {one['measured_seconds']:.3f} s, {one['measured_mbps']:.1f} of at most "
        f"{one['bound_mbps']:.1f} Mbit/s, {one['rate_to_bound']:.3f} of the bound"
        for op, one in medians.items()
    ]
    lines.append(
        f"broadcast: {broadcast['measured_seconds']:.3f} s, asked {ASKED_SECONDS} at most; over the direct "
        f"links {figures['direct_seconds']:.3f} s, {figures['times_sooner_than_direct']:.1f} times as long"
    )
    if HAS_SUMS:
        parts = [medians["reduce"], medians["broadcast"]]
        bound_seconds = sum(8e-6 * SIZE_BYTES / one["bound_mbps"] for one in parts)
        figures["reduce_then_broadcast_of_bound"] = bound_seconds / sum(
            one["measured_seconds"] for one in parts
        )
        lines.append(
            f"a reduce, then the broadcast: {figures['reduce_then_broadcast_of_bound']:.3f} of the bound of "
            f"both; all-reduce: {medians['all_reduce']['rate_to_bound']:.3f}; asked {ASKED_OF_BOUND}"
        )
    else:
        lines.append("this build's Communicator adds nothing yet: no reduce, no all-reduce")
    figures["network"] = network_of([one for made in outcomes.values() for one in made])
    return figures, lines


if __name__ == "__main__":
    sys.exit(main(parser_for("Broadcast, reduce and all-reduce over three hosts."), measure))
