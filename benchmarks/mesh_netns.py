"""Five broadcasts at once on a mesh of eight, links N(10, 1) Mbit/s, in namespaces.

Asked: every completion at most 1.10 times the planned one, in the median of three runs, each with
links of its own.

    python benchmarks/mesh_netns.py [--repeat 3] [--seed 7] [--json]
"""

import argparse
import sys
from typing import Any

import square
from netns_run import figures_of, main, median_by, network_of, parser_for, run

ASKED_RATIO = 1.10
NAMES = [f"n{number}" for number in range(8)]
BROADCASTS = 5


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    outcomes, runs, lines = [], [], []
    for seed in range(options.seed, options.seed + options.repeat):
        topology = square.Topology.full_mesh(NAMES)
        topology.draw_capacities(10e6, 1e6, seed)
        broadcasts = [
            square.Collective(f"tenant {number}", root=NAMES[number], size_bytes=round(options.mb * 1e6))
            for number in range(BROADCASTS)
        ]
        outcome = run(topology, broadcasts, options, (options.policy,), seed)
        collectives = [figures_of(collective) for collective in outcome.policies[0].collectives]
        ratios = [one["measured_to_planned_seconds"] for one in collectives]
        outcomes.append(outcome)
        runs.append({"seed": seed, "worst_ratio": max(ratios), "collectives": collectives})
        listed = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        lines.append(f"  seed {seed}: measured over planned completion {listed}")
    middle = median_by(runs, "worst_ratio")
    lines.append(
        f"{BROADCASTS} broadcasts of {options.mb:g} MB, policy {options.policy}: the worst of a run is "
        f"{middle['worst_ratio']:.3f} of its plan in the median; asked {ASKED_RATIO:.2f} at most"
    )
    figures = {
        "asked_ratio": ASKED_RATIO,
        "policy": options.policy,
        "median_worst_ratio": middle["worst_ratio"],
        "runs": runs,
        "network": network_of(outcomes),
    }
    return figures, lines


if __name__ == "__main__":
    parser = parser_for("Five broadcasts at once on a mesh of eight.")
    parser.add_argument("--mb", type=float, default=12.5, help="megabytes of each (default 12.5)")
    parser.add_argument("--policy", default="exact", help="exact or square (default exact)")
    sys.exit(main(parser, measure))
