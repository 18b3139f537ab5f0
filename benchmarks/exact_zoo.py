"""The policy "exact" on every connected network of the Internet Topology Zoo: certified gaps.

Links N(10, 1) Mbit/s, both directions of a line drawn apart; 2 and 8 broadcasts to all nodes,
from roots drawn by the seed. The gap is recomputed from the certificate by the checker.
SQUARE_DATA names the directory that has topology-zoo/ in it.

    python benchmarks/exact_zoo.py [--seed 1] [--streams]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_networks import broadcasts, drawn, is_connected, names_of, zoo_files
from exact_report import Report, parser, timed

COUNTS = (2, 8)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--streams", action="store_true", help="build the streams and check them too")
    options = arguments.parse_args()
    report = Report("exact_zoo.py", as_json=options.json)
    files = zoo_files()
    if not files:
        report.line("no networks: set SQUARE_DATA to the directory with topology-zoo/")
        return 1
    worst = dict.fromkeys(COUNTS, 0.0)
    seconds = dict.fromkeys(COUNTS, 0.0)
    networks = unsound = 0
    for file in files:
        topology = drawn(file, options.seed)
        if not is_connected(topology):
            continue
        networks += 1
        for count in COUNTS:
            collectives = broadcasts(names_of(topology), count, options.seed)
            scenario = square.Scenario(topology, square.Policy("exact"), collectives=collectives)
            plan, took = timed(lambda scenario=scenario: square.plan(scenario, streams=options.streams))
            gap = max(abs(level.lp_gap) for level in square.gaps(plan))
            worst[count] = max(worst[count], gap)
            seconds[count] += took
            wrong = square.violations(plan)
            unsound += bool(wrong)
            report.line(
                f"{file.stem:40} {topology.node_count:4} nodes {count} broadcasts: "
                f"gap {gap:8.1e}, {took * 1e3:9.1f} ms{' ' + wrong[0] if wrong else ''}"
            )
    report.figure("connected networks", networks)
    for count in COUNTS:
        report.figure(f"largest lp_gap, {count} broadcasts", worst[count], most=1e-6)
        report.figure(f"all of them, {count} broadcasts", seconds[count], "s")
    report.figure("plans that fail the checker", unsound, most=0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
