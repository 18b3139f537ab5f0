"""Two paths at once: 400 Mbit/s straight, 40 Mbit/s by a relay. Asked: 418 Mbit/s together.

python benchmarks/two_paths.py [--mb 200] [--repeat 3] [--json]
"""

import argparse
import sys
from typing import Any

import square
from netns_run import figures_of, links_both_ways, main, median_by, network_of, parser_for, run

ASKED_MBPS = 418.0
LINKS = {("a", "b"): 400.0, ("a", "relay"): 40.0, ("relay", "b"): 40.0}


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    tensor = square.Collective("tenant", root="a", members=["a", "b"], size_bytes=round(options.mb * 1e6))
    outcomes = [
        run(links_both_ways(LINKS), [tensor], options, seed=options.seed + number)
        for number in range(options.repeat)
    ]
    runs = [figures_of(outcome.policies[0].collectives[0]) for outcome in outcomes]
    middle = median_by(runs, "measured_mbps")
    figures = {"asked_mbps": ASKED_MBPS, "median": middle, "runs": runs, "network": network_of(outcomes)}
    rates = ", ".join(f"{one['measured_mbps']:.1f}" for one in runs)
    lines = [
        f"400 and 40 Mbit/s together, {options.mb:g} MB: median {middle['measured_mbps']:.1f} Mbit/s "
        f"({rates}), {middle['rate_to_bound']:.3f} of the sum; asked {ASKED_MBPS:.0f}"
    ]
    return figures, lines


if __name__ == "__main__":
    parser = parser_for("Two paths of 400 and 40 Mbit/s carry one tensor.")
    parser.add_argument("--mb", type=float, default=200.0, help="megabytes to send (default 200)")
    sys.exit(main(parser, measure))
