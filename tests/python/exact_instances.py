"""Random overlays with random groups, small enough for the oracles."""

import random
from collections.abc import Callable, Sequence

from exact_sessions import OPERATIONS, Group, Instance, Link, Session, sessions_of

# Flow variables of the arc program: more take an oracle in HiGHS seconds.
MOST_FLOWS = 1600
NODE_COUNTS = (3, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 9, 10)
MOST_GROUPS = 6


def random_instance(rng: random.Random, counts: Sequence[int] = NODE_COUNTS) -> Instance:
    """At least one group; every destination in reach of its source."""
    while True:
        nodes = tuple(f"n{number}" for number in range(rng.choice(counts)))
        links = random_links(rng, nodes)
        reach = reachable(nodes, links)
        tenants = {f"t{number}": rng.choice([1.0, 1.0, 2.0, 0.3]) for number in range(rng.randint(1, 3))}
        groups: list[Group] = []
        flows = 0
        for _ in range(rng.randint(1, MOST_GROUPS)):
            group = random_group(rng, nodes, reach, tuple(tenants))
            if group is None:
                continue
            flows += flow_count(group) * len(links)
            if flows > MOST_FLOWS:
                break
            groups.append(group)
        if groups:
            egress, ingress = random_limits(rng, nodes, links)
            fairness = rng.choice(["collective", "tenant"])
            return Instance(nodes, links, tuple(groups), egress, ingress, tenants, fairness)


def random_links(rng: random.Random, nodes: Sequence[str]) -> dict[Link, float]:
    """Both directions of a pair apart; mostly around a ring, so that all can reach all."""
    density = rng.choice([0.15, 0.3, 0.3, 0.5, 0.7, 1.0])
    ring = list(nodes)
    rng.shuffle(ring)
    kept = {(tail, ring[(index + 1) % len(ring)]) for index, tail in enumerate(ring)}
    if rng.random() < 0.2:
        kept = set()
    draw = capacities(rng)
    pairs = [(tail, head) for tail in nodes for head in nodes if tail != head]
    links = {pair: draw() for pair in pairs if pair in kept or rng.random() < density}
    return links or {pairs[0]: draw()}


def capacities(rng: random.Random) -> Callable[[], float]:
    """One of four ways to draw a capacity, in bit/s."""
    ways: list[Callable[[], float]] = [
        lambda: rng.uniform(1e6, 40e6),
        lambda: max(rng.gauss(10e6, 1e6), 1e6),
        lambda: 10 ** rng.uniform(5, 8),
        lambda: rng.choice([1e7, 1e7, 2e7]),  # ties
    ]
    return rng.choice(ways)


def random_limits(
    rng: random.Random, nodes: Sequence[str], links: dict[Link, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """In half of the instances, of some nodes, around what one link carries and what all do."""
    egress: dict[str, float] = {}
    ingress: dict[str, float] = {}
    if rng.random() < 0.5:
        return egress, ingress
    for name in rng.sample(list(nodes), rng.randint(1, len(nodes))):
        for limits, end in ((egress, 0), (ingress, 1)):
            mine = [capacity for link, capacity in links.items() if link[end] == name]
            if mine and rng.random() < 0.7:
                limits[name] = rng.uniform(0.5 * min(mine), sum(mine))
    return egress, ingress


def reachable(nodes: Sequence[str], links: dict[Link, float]) -> dict[str, set[str]]:
    """By node: those in its reach, itself included."""
    result = {}
    for start in nodes:
        seen, front = {start}, [start]
        while front:
            here = front.pop()
            following = {head for tail, head in links if tail == here} - seen
            seen |= following
            front.extend(following)
        result[start] = seen
    return result


def random_group(
    rng: random.Random, nodes: Sequence[str], reach: dict[str, set[str]], tenants: Sequence[str]
) -> Group | None:
    """None where nobody can be reached in the way that the operation needs."""
    op = rng.choice(["broadcast", "broadcast", "broadcast", *OPERATIONS])
    anchor = rng.choice(nodes)
    towards = {name for name in nodes if anchor in reach[name]}
    if op in ("broadcast", "scatter"):
        partners = reach[anchor]
    elif op in ("reduce", "gather"):
        partners = towards
    else:
        partners = reach[anchor] & towards
    others = sorted(partners - {anchor})
    if not others:
        return None
    count = len(others) if rng.random() < 0.4 else rng.randint(1, len(others))
    members = [anchor, *rng.sample(others, count)]
    rng.shuffle(members)
    return Group(
        op,
        tuple(members),
        root=anchor if op in ("broadcast", "reduce", "scatter", "gather") else None,
        size_bytes=rng.choice([0, 1, 2_520_000, 1_000_003]),
        weight=rng.choice([1.0, 1.0, 1.0, 3.0]),
        tenant=rng.choice(tenants),
        algorithm=rng.choice(["planned", "ring"]) if op == "all_reduce" else "planned",
    )


def flow_count(group: Group) -> int:
    """Blocks of flows that the arc program has for it."""

    def flows(session: Session) -> int:
        return len(session.others)

    sessions = sessions_of(0, group)
    if all(flows(session) == 1 for session in sessions):
        return len({session.root for session in sessions})
    return sum(flows(session) for session in sessions)
