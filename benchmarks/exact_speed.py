"""How fast the policy "exact" is, with the arc program solved by SciPy's HiGHS in the same run.

    mesh      16 nodes, N(10, 1) Mbit/s, 16 broadcasts to all, against HiGHS
    regions   the mesh of 63 regions, no node limits, 63 broadcasts to all, rates only
    kdl       Kdl of the Internet Topology Zoo, 754 nodes, 754 broadcasts to all, rates only
    subsets   63 regions, 8 and 16 sessions with 10 destinations, with the limits of a virtual
              machine: egress/ingress of 5/10 Gbit/s at AWS, 7/16 at GCP, 16/16 at Azure; with
              --peer the first of them against HiGHS

Seconds are the least of --repeat runs. SQUARE_DATA names the directory with topology-zoo/ and
inter-region/.

    python benchmarks/exact_speed.py [mesh] [regions] [kdl] [subsets] [--peer]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_lexicographic import first_level_seconds
from exact_models import arc_model
from exact_networks import broadcasts, instance_of, mesh, multicasts, names_of, regions, zoo
from exact_report import Report, parser, timed
from exact_sessions import Group, Instance

PARTS = ("mesh", "regions", "kdl", "subsets")
SUBSETS = {8: 5.0, 16: 15.0}  # sessions, and the seconds that are asked for
DESTINATIONS = 10


def instance_behind(scenario: square.Scenario) -> Instance:
    groups = [Group("broadcast", tuple(c.members), c.root) for c in scenario.collectives]
    return instance_of(scenario.topology, groups)


def peer(report: Report, name: str, scenario: square.Scenario, level_bps: float) -> float:
    """Seconds of HiGHS for the first level alone; says how far the two are apart."""
    model = arc_model(instance_behind(scenario))
    level, seconds = first_level_seconds(model.program, model.goals)
    report.figure(f"{name}: HiGHS, arc program, first level", seconds, "s")
    away = abs(level * model.scale / level_bps - 1)
    report.figure(f"{name}: difference of the first level", away, most=1e-5)
    return seconds


def exact(topology: square.Topology, collectives: list[square.Collective]) -> square.Scenario:
    return square.Scenario(topology, square.Policy("exact"), collectives=collectives)


def mesh_part(report: Report, options: argparse.Namespace) -> None:
    topology = mesh(16, options.seed)
    scenario = exact(topology, broadcasts(names_of(topology), 16, options.seed))
    name = "mesh of 16, 16 broadcasts"
    plan, seconds = timed(lambda: square.plan(scenario, streams=False), options.repeat)
    _, with_streams = timed(lambda: square.plan(scenario), options.repeat)
    report.figure(f"{name}: rates", seconds * 1e3, "ms")
    report.figure(f"{name}: rates and streams", with_streams * 1e3, "ms")
    highs = peer(report, name, scenario, min(c.lp_rate_bps for c in plan.collectives))
    report.figure(f"{name}: HiGHS / rates", highs / seconds, "times", least=100)
    report.figure(f"{name}: HiGHS / rates and streams", highs / with_streams, "times")


def all_receive(report: Report, name: str, scenario: square.Scenario, repeat: int, most: float) -> None:
    plan, seconds = timed(lambda: square.plan(scenario, streams=False), repeat)
    report.figure(f"{name}: rates and certificate", seconds, "s", most=most)
    gaps, checking = timed(lambda: square.gaps(plan))
    report.figure(f"{name}: largest lp_gap", max(gap.lp_gap for gap in gaps), most=1e-6)
    report.figure(f"{name}: levels", len(gaps))
    report.figure(f"{name}: checking the certificate", checking, "s")


def regions_part(report: Report, options: argparse.Namespace) -> None:
    topology = regions(limits=False)
    scenario = exact(topology, broadcasts(names_of(topology), 63, options.seed))
    all_receive(report, "63 regions, 63 broadcasts", scenario, options.repeat, 0.05)


def kdl_part(report: Report, options: argparse.Namespace) -> None:
    topology = zoo("Kdl", options.seed)
    scenario = exact(topology, broadcasts(names_of(topology), topology.node_count, options.seed))
    all_receive(report, "Kdl, 754 broadcasts", scenario, 1, 5.0)


def subsets_part(report: Report, options: argparse.Namespace) -> None:
    topology = regions(limits=True)
    for count, asked in SUBSETS.items():
        scenario = exact(topology, multicasts(names_of(topology), count, DESTINATIONS, options.seed))
        name = f"63 regions with limits, {count} sessions of {DESTINATIONS}"
        plan, seconds = timed(lambda scenario=scenario: square.plan(scenario), options.repeat)
        report.figure(f"{name}: streams and certificate", seconds, "s", most=asked)
        gaps = square.gaps(plan)
        report.figure(f"{name}: largest rate_gap", max(gap.rate_gap for gap in gaps), most=1e-3)
        report.figure(f"{name}: largest lp_gap", max(gap.lp_gap for gap in gaps))
        report.figure(f"{name}: violations", len(square.violations(plan)), most=0)
        if options.peer and count == min(SUBSETS):
            level = min(collective.lp_rate_bps for collective in plan.collectives)
            report.figure(
                f"{name}: HiGHS / this", peer(report, name, scenario, level) / seconds, "times", least=1
            )


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--peer", action="store_true", help="the subsets in HiGHS too: a minute or more")
    options = arguments.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        arguments.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    report = Report("exact_speed.py", as_json=options.json)
    work = {"mesh": mesh_part, "regions": regions_part, "kdl": kdl_part, "subsets": subsets_part}
    for part in options.parts or PARTS:
        work[part](report, options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
