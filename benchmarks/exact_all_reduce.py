"""Planned all-reduce against rings: `planned` with free shares under the policy "exact".

    paths     Epoch, Abilene, Netrail, Arpanet19706 and a mesh of 8, links N(10, 1) Mbit/s: against
              the ring in the file's order, planned by the policy square over n - 1 shortest paths;
              mean over --seeds
    overlays  random overlays of 4 to 6 nodes: against the best of all rings, each neighbour served
              over any paths (a linear program a ring)
    regions   cuts of 8 of the 63 regions with the limits of a virtual machine: against the best of
              all 5,040 rings and the one in the file's order, each neighbour served over its link;
              median over --cuts

SQUARE_DATA names the directory with topology-zoo/ and inter-region/.

    python benchmarks/exact_all_reduce.py [paths] [overlays] [regions]
"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import square
from exact_instances import random_limits, random_links
from exact_models import lp_rates
from exact_networks import instance_of, mesh, names_of, regions, zoo
from exact_report import Report, parser
from exact_sessions import Group, Instance

NETWORKS: list[tuple[str, Callable[[int], square.Topology], float]] = [
    ("Epoch", partial(zoo, "Epoch"), 2.4),
    ("Abilene", partial(zoo, "Abilene"), 2.4),
    ("Netrail", partial(zoo, "Netrail"), 2.1),
    ("Arpanet19706", partial(zoo, "Arpanet19706"), 1.75),
    ("mesh of 8", partial(mesh, 8), 1.75),
]
CUT = 8
TOLERANCE = 1e-6


def all_reduce(topology: square.Topology, algorithm: str = "planned") -> square.Scenario:
    collective = square.Collective("alice", "all_reduce", size_bytes=12_600_000, algorithm=algorithm)
    return square.Scenario(topology, square.Policy("exact"), collectives=[collective])


def planned_bps(topology: square.Topology) -> float:
    """By streams, and the plan is sound."""
    plan = square.plan(all_reduce(topology))
    if wrong := square.violations(plan):
        raise SystemExit(f"the plan is not sound: {wrong[0]}")
    return plan.collectives[0].rate_bps


def paths_part(report: Report, options: argparse.Namespace) -> None:
    for name, build, asked in NETWORKS:
        ratios = []
        exact_rings = []
        for seed in range(1, options.seeds + 1):
            topology = build(seed)
            ring = all_reduce(topology, "ring")
            planned = planned_bps(topology)
            paths = f"shortest:{topology.node_count - 1}"
            ratios.append(planned / square.plan(ring, policy="square", paths=paths).collectives[0].rate_bps)
            exact_rings.append(planned / square.plan(ring).collectives[0].rate_bps)
        report.figure(f"{name}: planned / ring over n - 1 shortest paths", mean(ratios), "times", asked)
        report.figure(f"{name}: planned / ring over all paths", mean(exact_rings), "times")


def rings(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every order around, both directions, from the first name."""
    return [(names[0], *rest) for rest in permutations(names[1:])]


def random_overlay(rng: random.Random) -> Instance:
    nodes = tuple(f"n{number}" for number in range(rng.randint(4, 6)))
    around = dict.fromkeys(zip(nodes, (*nodes[1:], nodes[0]), strict=True), 5e6)
    links = around | random_links(rng, nodes)
    egress, ingress = random_limits(rng, nodes, links)
    return Instance(nodes, links, (Group("all_reduce", nodes),), egress, ingress)


def overlays_part(report: Report, options: argparse.Namespace) -> None:
    ratios = []
    for number in range(options.overlays):
        overlay = random_overlay(random.Random(f"{options.seed} {number}"))
        planned = planned_bps(overlay.topology())
        best = 0.0
        for ring in rings(overlay.nodes):
            [rate] = lp_rates(replace(overlay, groups=(Group("all_reduce", ring, algorithm="ring"),)))
            best = max(best, rate)
        ratios.append(planned / best)
        if ratios[-1] < 1 - TOLERANCE:
            report.line(f"worse than a ring: seed {options.seed}, overlay {number}: {overlay!r}")
    report.figure("random overlays", len(ratios))
    report.figure("least planned / best ring", min(ratios), "times", least=1 - TOLERANCE)
    report.figure("median planned / best ring", median(ratios), "times")


def direct_ring_bps(overlay: Instance, ring: Sequence[str]) -> float:
    """Every neighbour is sent 2 (n - 1) / n of the buffer over the link to it."""
    slowest = min(
        min(
            overlay.links[tail, head],
            overlay.egress.get(tail, float("inf")),
            overlay.ingress.get(head, float("inf")),
        )
        for tail, head in pairwise((*ring, ring[0]))
    )
    return slowest * len(ring) / (2 * (len(ring) - 1))


def regions_part(report: Report, options: argparse.Namespace) -> None:
    every = names_of(regions(limits=True))
    best_ratios = []
    given_ratios = []
    for number in range(options.cuts):
        chosen = random.Random(f"{options.seed} {number}").sample(every, CUT)
        topology = regions(limits=True, names=chosen)
        overlay = instance_of(topology, [])
        planned = planned_bps(topology)
        best = max(direct_ring_bps(overlay, ring) for ring in rings(overlay.nodes))
        best_ratios.append(planned / best)
        # In the order in which the cut was drawn, as a job lists its hosts; the file's own order
        # has the regions of a cloud, which are well connected, side by side.
        given_ratios.append(planned / direct_ring_bps(overlay, chosen))
        report.line(f"cut {number}: best ring {best_ratios[-1]:.2f}, given ring {given_ratios[-1]:.2f} times")
    report.figure("regions, median planned / best of all rings", median(best_ratios), "times", least=1.7)
    report.figure("regions, median planned / ring in given order", median(given_ratios), "times", least=3.5)
    report.figure("regions, least planned / best of all rings", min(best_ratios), "times")
    report.figure("regions, most planned / ring in given order", max(given_ratios), "times")


PARTS = {"paths": paths_part, "overlays": overlays_part, "regions": regions_part}


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    arguments.add_argument("--seed", type=int, default=1, help="of overlays and cuts")
    arguments.add_argument("--seeds", type=int, default=6, help="draws of capacities")
    arguments.add_argument("--overlays", type=int, default=100)
    arguments.add_argument("--cuts", type=int, default=20)
    options = arguments.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        arguments.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    report = Report("exact_all_reduce.py", as_json=options.json)
    for part in options.parts or PARTS:
        PARTS[part](report, options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
