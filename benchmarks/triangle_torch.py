"""Three hosts, A-B 50 Mbit/s, the other hops 400 each way, by torch: backend square against Gloo.

A broadcast of 33.55 MB from A (asked: at most 0.69 s) and an all-reduce (asked: 90% of the bound). Every
host is a network namespace, every link shaped by the kernel. Needs root and torch.

    python benchmarks/triangle_torch.py [--repeat 3] [--json]
"""

import argparse
import statistics
import sys
from typing import Any

import square
from netns_run import links_both_ways, main, parser_for
from netns_torch import Sites
from triangle import ASKED_OF_BOUND, ASKED_SECONDS, LINKS, SIZE_BYTES

ELEMENTS = SIZE_BYTES // 4


def bound_bps(topology: square.Topology, op: str) -> float:
    root = {} if op == "all_reduce" else {"root": "a"}
    wish = square.Collective("tenant", op, size_bytes=SIZE_BYTES, **root)
    plan = square.plan(square.Scenario(topology, square.Policy("exact"), collectives=[wish]))
    return plan.collectives[0].bound_bps


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    topology = links_both_ways(LINKS)
    figures: dict[str, Any] = {"asked_seconds": ASKED_SECONDS, "asked_of_bound": ASKED_OF_BOUND}
    lines = []
    with Sites(topology) as sites:
        for op in ("broadcast", "all_reduce"):
            call = getattr(sites, op)
            ours = statistics.median(call("square", ELEMENTS, options.repeat))
            theirs = statistics.median(call("gloo", ELEMENTS, 1))
            of_bound = 8 * SIZE_BYTES / ours / bound_bps(topology, op)
            figures[op] = {"square_seconds": ours, "gloo_seconds": theirs, "of_bound": of_bound}
            lines.append(
                f"{op}: square {ours:.3f} s, Gloo {theirs:.3f} s, {theirs / ours:.1f} times sooner; "
                f"{of_bound:.3f} of the bound"
            )
    lines.append(f"asked: the broadcast at most {ASKED_SECONDS} s, the all-reduce {ASKED_OF_BOUND}")
    return figures, lines


if __name__ == "__main__":
    sys.exit(main(parser_for("Broadcast and all-reduce by torch over three hosts."), measure))
