"""What the figures of the paper's section VI are: overlays, collectives, and the policies that are compared.
Behind them two that it does not have: a measured network of 63 regions, and Gloo on the same overlay.

Everything that is drawn is drawn by a seed. Where the paper does not say what it did, docs/evaluation.md
says what this does.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from square._core import Collective, Policy, Scenario, Topology
from square.errors import NotFoundError
from square.run.network import MACHINES, MODES, NETNS

MBPS = 1e6
MEAN_BPS = 10 * MBPS
STDDEV_BPS = 1 * MBPS
EMULATED_BYTES = 12_500_000  # 1e8 bits
DATACENTER_BYTES = 125_000_000  # 1e9 bits
MESH_NODES = 8
MESH_BROADCASTS = 5

# The lines of every figure: what is compared.
POLICIES = ("shortest-path", "mcf", "square", "exact")
PLANNED = "planned all-reduce"


@dataclass(frozen=True)
class Size:
    """How much of a figure is measured."""

    seeds: int = 3
    is_quick: bool = False  # fewer points
    scale_bytes: float = 1.0
    topologies: Path | None = None  # of the Internet Topology Zoo, as GML
    regions: Path | None = None  # a measured network's links, as CSV


@dataclass(frozen=True)
class Line:
    name: str
    policy: str
    scenario: Scenario
    # Run by ranks of torch.distributed over this backend, instead of by `square run`.
    backend: str | None = None


@dataclass(frozen=True)
class Point:
    """One place on the abscissa, with links of one seed."""

    figure: str
    place: str
    seed: int
    scale_bytes: float
    lines: tuple[Line, ...]


PLAN = "plan"
SIMULATION = "simulation"
# How a figure can be measured: computed, by nodes in virtual time, on one of the networks of `square run`, or
# on other machines.
WAYS = (PLAN, SIMULATION, *MODES, MACHINES)


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    places_are: str
    points: Callable[[Size], Iterator[Point]]
    ways: tuple[str, ...] = WAYS
    data: str | None = None  # the folder of Size.data that it needs


def _scaled(size_bytes: int, size: Size) -> int:
    return max(1, round(size_bytes * size.scale_bytes))


def _lines(scenario: Scenario) -> tuple[Line, ...]:
    return tuple(Line(policy, policy, scenario) for policy in POLICIES)


def _broadcasts(topology: Topology, roots: list[str], size_bytes: int, paths: str) -> Scenario:
    """A tenant each; the more broadcasts than nodes the more of them share a root."""
    collectives = [
        Collective(f"tenant {number}", root=root, size_bytes=size_bytes) for number, root in enumerate(roots)
    ]
    return Scenario(topology, Policy("square", paths=paths, fairness="collective"), collectives=collectives)


def _mesh(nodes: int, seed: int) -> Topology:
    topology = Topology.full_mesh([f"n{number}" for number in range(nodes)])
    topology.draw_capacities(MEAN_BPS, STDDEV_BPS, seed)
    return topology


def _mesh_point(figure: str, nodes: int, broadcasts: int, seed: int, size: Size) -> Point:
    names = [f"n{number % nodes}" for number in range(broadcasts)]
    # The paper: the top n-1 shortest paths.
    scenario = _broadcasts(_mesh(nodes, seed), names, _scaled(EMULATED_BYTES, size), f"shortest:{nodes - 1}")
    return Point(
        figure, str(broadcasts if figure == "2a" else nodes), seed, size.scale_bytes, _lines(scenario)
    )


def figure_2a(size: Size) -> Iterator[Point]:
    for broadcasts in (1, 10) if size.is_quick else range(1, 11):
        for seed in range(1, size.seeds + 1):
            yield _mesh_point("2a", MESH_NODES, broadcasts, seed, size)


def figure_2b(size: Size) -> Iterator[Point]:
    for nodes in (4, 8) if size.is_quick else (4, 6, 8, 10, 12, 14, 16):
        for seed in range(1, size.seeds + 1):
            yield _mesh_point("2b", nodes, MESH_BROADCASTS, seed, size)


# Two broadcasts over these, the paper says.
BROADCAST_ZOO = ("Arpanet19706", "Epoch", "Netrail")
# Five for rings; the paper does not name them.
RING_ZOO = ("Abilene", "Arpanet19706", "Epoch", "Netrail", "Sprint")


def _zoo(name: str, seed: int, size: Size) -> Topology:
    if size.topologies is None:
        raise NotFoundError(
            "figures 3a and 3b are of networks of the Internet Topology Zoo: name the folder of its GML "
            "files with --topologies"
        )
    topology = Topology.read(size.topologies / f"{name}.gml")
    topology.draw_capacities(MEAN_BPS, STDDEV_BPS, seed, only_unlimited=False)
    return topology


def figure_3a(size: Size) -> Iterator[Point]:
    for name in BROADCAST_ZOO[:1] if size.is_quick else BROADCAST_ZOO:
        for seed in range(1, size.seeds + 1):
            topology = _zoo(name, seed, size)
            roots = random.Random(seed).sample([node.name for node in topology.nodes], 2)
            scenario = _broadcasts(topology, roots, _scaled(EMULATED_BYTES, size), "widest:2")
            yield Point("3a", name, seed, size.scale_bytes, _lines(scenario))


def figure_3b(size: Size) -> Iterator[Point]:
    for name in RING_ZOO[:1] if size.is_quick else RING_ZOO:
        for seed in range(1, size.seeds + 1):
            topology = _zoo(name, seed, size)
            # As on the meshes: the top n-1 shortest paths.
            paths = f"shortest:{len(topology.nodes) - 1}"
            policy = Policy("square", paths=paths, fairness="collective")

            def sums(algorithm: str, topology: Topology = topology, policy: Policy = policy) -> Scenario:
                wanted = Collective(
                    "tenant", "all_reduce", size_bytes=_scaled(EMULATED_BYTES, size), algorithm=algorithm
                )
                return Scenario(topology, policy, collectives=[wanted])

            lines = (*_lines(sums("ring")), Line(PLANNED, "exact", sums("planned")))
            yield Point("3b", name, seed, size.scale_bytes, lines)


# From, to, Mbit/s there and back, and half a round trip in ms. The paper's are not published: these are as
# far apart as the places are, and as uneven as virtual machines of one provider.
DATACENTERS = (
    ("Frankfurt", "London", 95, 88, 7),
    ("Frankfurt", "San Francisco", 42, 51, 75),
    ("Frankfurt", "Sydney", 24, 31, 140),
    ("London", "San Francisco", 47, 55, 69),
    ("London", "Sydney", 22, 28, 135),
    ("San Francisco", "Sydney", 44, 39, 74),
)
DATACENTER_STDDEV = 0.05  # of a link, from one repetition to the next


def _datacenters(seed: int) -> Topology:
    drawn = random.Random(seed)
    topology = Topology()
    for name in ("Frankfurt", "San Francisco", "Sydney", "London"):
        topology.add_node(name)
    for one, other, there, back, milliseconds in DATACENTERS:
        for tail, head, mbps in ((one, other, there), (other, one, back)):
            rate = mbps * MBPS * max(0.5, drawn.gauss(1, DATACENTER_STDDEV))
            topology.add_link(tail, head, capacity_bps=rate, latency=milliseconds / 1000)
    return topology


def figure_3c(size: Size) -> Iterator[Point]:
    for broadcasts in (1, 8) if size.is_quick else range(1, 9):
        for seed in range(1, size.seeds + 1):
            topology = _datacenters(seed)
            names = [node.name for node in topology.nodes]
            roots = [names[number % len(names)] for number in range(broadcasts)]
            scenario = _broadcasts(topology, roots, _scaled(DATACENTER_BYTES, size), "shortest:3")
            yield Point("3c", str(broadcasts), seed, size.scale_bytes, _lines(scenario))


# A thousandth of it, so that this machine can be all of them.
REGIONS_SCALE = 1 / 1000
REGION_TENANTS = 20
REGION_BYTES = 1_250_000
# What a virtual machine of each cloud sends and receives.
REGION_LIMITS_BPS = {"aws": (5e9, 10e9), "gcp": (7e9, 16e9), "azure": (16e9, 16e9)}


def _regions(file: Path) -> Topology:
    whole = Topology.read(file)
    topology = Topology()
    for node in whole.nodes:
        egress, ingress = REGION_LIMITS_BPS.get(node.name.split(":")[0], (math.inf, math.inf))
        topology.add_node(node.name, egress * REGIONS_SCALE, ingress * REGIONS_SCALE)
    for link in whole.links:
        topology.add_link(
            link.from_node, link.to_node, capacity_bps=link.capacity_bps * REGIONS_SCALE, latency=link.latency
        )
    return topology


def figure_regions(size: Size) -> Iterator[Point]:
    if size.regions is None:
        raise NotFoundError(
            "the figure regions is of a measured network: name the CSV file of its links with --regions"
        )
    for seed in range(1, size.seeds + 1):
        drawn = random.Random(seed)
        topology = _regions(size.regions)
        names = [node.name for node in topology.nodes]
        collectives = []
        for number in range(REGION_TENANTS):
            members = drawn.sample(names, drawn.randint(3, 10))
            size_bytes = _scaled(REGION_BYTES, size)
            collectives.append(
                Collective(f"tenant {number}", root=members[0], members=members, size_bytes=size_bytes)
            )
        scenario = Scenario(topology, Policy("square", paths="shortest:8"), collectives=collectives)
        yield Point("regions", f"{len(names)} regions", seed, size.scale_bytes, _lines(scenario))


# Of float32, over the four datacenters.
GLOO_BYTES = 12_500_000


def figure_gloo(size: Size) -> Iterator[Point]:
    """Square's backend and Gloo on the overlay of 3c, by the same script of torch.

    Rounds of DiLoCo and Di-PS are planned as the all-reduce of their bytes, which neither is quicker than.
    """
    for op in ("broadcast", "all_reduce", "diloco", "parameter_server"):
        for seed in range(1, size.seeds + 1):
            topology = _datacenters(seed)
            size_bytes = _scaled(GLOO_BYTES, size)
            root = topology.nodes[0].name if op == "broadcast" else None
            planned = "broadcast" if op == "broadcast" else "all_reduce"
            wish = Collective("tenant", planned, root=root, size_bytes=size_bytes)
            scenario = Scenario(topology, Policy("exact"), collectives=[wish])
            lines = tuple(Line(backend, "exact", scenario, backend) for backend in ("square", "gloo"))
            yield Point("gloo", op, seed, size.scale_bytes, lines)


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("2a", "Broadcasts of 1e8 bits on a full mesh of 8", "broadcasts", figure_2a),
        Figure("2b", "Five broadcasts of 1e8 bits on full meshes", "nodes", figure_2b),
        Figure(
            "3a",
            "Two broadcasts of 1e8 bits on networks of the Topology Zoo",
            "network",
            figure_3a,
            data="topologies",
        ),
        Figure("3b", "An all-reduce of 1e8 bits around a ring", "network", figure_3b, data="topologies"),
        Figure("3c", "Broadcasts of 1e9 bits among four datacenters", "broadcasts", figure_3c),
        Figure(
            "regions", "Broadcasts of 20 tenants of 3 to 10 sites", "network", figure_regions, data="regions"
        ),
        Figure(
            "gloo", "torch.distributed over square and over Gloo", "operation", figure_gloo, ways=(NETNS,)
        ),
    )
}
