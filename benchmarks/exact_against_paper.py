"""The policy "exact" against the paper's path sets: the smallest rate of a broadcast.

Links N(10, 1) Mbit/s; `square` over the two widest paths to each destination. Topology Zoo networks
with 2 broadcasts to all, over every pair of roots; a mesh of 8 with 8. The roots decide: where the
widest paths of the two do not meet, both are optimal. SQUARE_DATA names the directory that has
topology-zoo/ in it.

    python benchmarks/exact_against_paper.py [--seeds 6]
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_networks import broadcasts, mesh, names_of, zoo
from exact_report import Report, parser

PATHS = "widest:2"
# What is planned, how many broadcasts, and the ratio that is asked for.
NETWORKS: list[tuple[str, Callable[[int], square.Topology], int, float | None]] = [
    ("Epoch", partial(zoo, "Epoch"), 2, 1.9),
    ("Abilene", partial(zoo, "Abilene"), 2, 1.9),
    ("Netrail", partial(zoo, "Netrail"), 2, None),
    ("Arpanet19706", partial(zoo, "Arpanet19706"), 2, None),
    ("mesh of 8", partial(mesh, 8), 8, 5.0),
]


def ratio(topology: square.Topology, roots: tuple[str, ...]) -> float:
    """The smallest rate of `exact` over that of `square`; what is certified is checked."""
    scenario = square.Scenario(
        topology,
        square.Policy("square", fairness="collective"),
        collectives=broadcasts(roots, len(roots), seed=0),
    )
    exact = square.plan(scenario, policy="exact")
    assert max(gap.rate_gap for gap in square.gaps(exact)) < 1e-6
    return exact.min_rate_bps / square.plan(scenario, policy="square", paths=PATHS).min_rate_bps


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=6)
    options = arguments.parse_args()
    report = Report("exact_against_paper.py", as_json=options.json)
    for name, build, count, asked in NETWORKS:
        ratios: dict[tuple[str, ...], list[float]] = {}
        for seed in range(1, options.seeds + 1):
            topology = build(seed)
            for roots in combinations(names_of(topology), count):
                ratios.setdefault(roots, []).append(ratio(topology, roots))
        every = [value for values in ratios.values() for value in values]
        report.figure(
            f"{name}, {count} broadcasts: exact / square {PATHS}, mean", mean(every), "times", asked
        )
        report.figure(f"{name}: the same, median", median(every), "times")
        report.figure(f"{name}: the same, mean of the best roots", max(map(mean, ratios.values())), "times")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
