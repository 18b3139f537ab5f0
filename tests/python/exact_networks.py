"""Networks that the tests and benchmarks of the policy "exact" plan on.

Small ones whose optimum is known, and the measured ones of SQUARE_DATA: networks of the
Internet Topology Zoo, and the mesh of 63 regions of three clouds.
"""

import os
import random
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import square
from exact_sessions import Group, Instance, Link

REPOSITORY = Path(__file__).resolve().parents[2]
# What a virtual machine of each cloud can send and receive, bit/s.
EGRESS_BPS = {"aws": 5e9, "gcp": 7e9, "azure": 16e9}
INGRESS_BPS = {"aws": 10e9, "gcp": 16e9, "azure": 16e9}


def both_ways(links: dict[Link, float]) -> dict[Link, float]:
    return links | {(head, tail): capacity for (tail, head), capacity in links.items()}


def nodes_of(links: dict[Link, float]) -> tuple[str, ...]:
    return tuple(sorted({name for link in links for name in link}))


def butterfly() -> Instance:
    """Two sinks want both halves over one link in the middle: 2 Mbit/s, and 1.5 by trees."""
    pairs = ["sa", "sb", "ac", "bc", "cd", "at", "bu", "dt", "du"]
    links = {(pair[0], pair[1]): 1e6 for pair in pairs}
    return Instance(nodes_of(links), links, (Group("broadcast", ("s", "t", "u"), "s"),))


def combination_network(middles: int, each: int) -> Instance:
    """A source, middles, and a sink for each choice of `each` middles; all links 1 Mbit/s.

    `each` Mbit/s, and by trees middles / (middles - each + 1): a tree reaches every sink only by
    so many of the middles.
    """
    links = {("s", f"m{m}"): 1e6 for m in range(middles)}
    sinks = []
    for chosen in combinations(range(middles), each):
        sinks.append("t" + "".join(map(str, chosen)))
        links |= {(f"m{m}", sinks[-1]): 1e6 for m in chosen}
    return Instance(nodes_of(links), links, (Group("broadcast", ("s", *sinks), "s"),))


def detour() -> Instance:
    """5 Mbit/s from p, then 8 from x, but only if the first leaves the way over x to the second."""
    links = {("p", "x"): 5e6, ("p", "y"): 5e6, ("x", "t"): 8e6, ("y", "t"): 6e6}
    groups = (Group("broadcast", ("p", "t"), "p"), Group("broadcast", ("x", "t"), "x"))
    return Instance(nodes_of(links), links, groups, egress={"p": 5e6})


def data_directory() -> Path:
    return Path(os.environ.get("SQUARE_DATA", REPOSITORY.parent / "shared" / "data"))


def zoo_files() -> list[Path]:
    """None where the data are not there."""
    return sorted((data_directory() / "topology-zoo").glob("*.gml"))


def zoo(name: str, seed: int) -> square.Topology:
    """Links N(10, 1) Mbit/s, both directions of a line drawn apart."""
    return drawn(data_directory() / "topology-zoo" / f"{name}.gml", seed)


def drawn(file: Path, seed: int) -> square.Topology:
    topology = square.Topology.read(str(file))
    topology.draw_capacities(10e6, 1e6, seed, only_unlimited=False)
    return topology


def is_connected(topology: square.Topology) -> bool:
    """Lines go both ways, so one node that reaches all is enough."""
    return len(topology.reachable_from(topology.nodes[0].name)) == topology.node_count


def mesh(count: int, seed: int) -> square.Topology:
    topology = square.Topology.full_mesh([f"n{number}" for number in range(count)])
    topology.draw_capacities(10e6, 1e6, seed)
    return topology


def regions(*, limits: bool, names: Sequence[str] | None = None) -> square.Topology:
    """The 63 regions, or some of them, with the limits of a virtual machine or without."""
    whole = square.Topology.read(str(data_directory() / "inter-region" / "links.csv"))
    chosen = set(names if names is not None else names_of(whole))
    topology = square.Topology()
    for node in whole.nodes:
        if node.name in chosen:
            cloud = node.name.split(":")[0]
            topology.add_node(node.name, *((EGRESS_BPS[cloud], INGRESS_BPS[cloud]) if limits else ()))
    for link in whole.links:
        if {link.from_node, link.to_node} <= chosen:
            topology.add_link(
                link.from_node, link.to_node, link.capacity_bps, link.latency, link.price_usd_per_gb
            )
    return topology


def names_of(topology: square.Topology) -> list[str]:
    return [node.name for node in topology.nodes]


def broadcasts(names: Sequence[str], count: int, seed: int) -> list[square.Collective]:
    """From `count` different nodes, drawn by the seed, or from all; each of a tenant of its own."""
    roots = names if count >= len(names) else random.Random(seed).sample(list(names), count)
    return [square.Collective(f"tenant {root}", root=root, size_bytes=12_500_000) for root in roots]


def multicasts(
    names: Sequence[str], count: int, destinations: int, seed: int, required_bps: float | None = None
) -> list[square.Collective]:
    """Roots and destinations drawn by the seed; roots differ as long as there are enough."""
    rng = random.Random(seed)
    roots = rng.sample(list(names), count) if count <= len(names) else rng.choices(names, k=count)
    return [
        square.Collective(
            f"tenant {number}",
            root=root,
            members=[root, *rng.sample([name for name in names if name != root], destinations)],
            size_bytes=12_500_000,
            required_bps=required_bps,
        )
        for number, root in enumerate(roots)
    ]


def instance_of(topology: square.Topology, groups: Sequence[Group]) -> Instance:
    """For the oracles."""
    return Instance(
        tuple(names_of(topology)),
        {(link.from_node, link.to_node): link.capacity_bps for link in topology.links},
        tuple(groups),
        {node.name: node.egress_bps for node in topology.nodes if node.egress_bps != float("inf")},
        {node.name: node.ingress_bps for node in topology.nodes if node.ingress_bps != float("inf")},
    )
