"""Cuts: sets of nodes that data must enter, what carries it in, and who needs how much of that."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from square.cli.limits.duals import Duals, LinkName
from square.cli.limits.network import Network


@dataclass(frozen=True)
class Cut:
    into: frozenset[str]
    # How much of the proof it is, over `sessions`; 0 for a cut without a dual.
    length: float = 0.0
    sessions: tuple[int, ...] = ()
    # The certificate names the set that data of a reduce leaves.
    is_left: bool = False


@dataclass(frozen=True)
class Resource:
    """A link, or the limit of a node over all its links. Rates are bits per second."""

    kind: str  # "link", "egress", "ingress"
    nodes: tuple[str, ...]  # from and to, or the node
    capacity_bps: float
    by_session: dict[int, float]
    length: float = 0.0

    @property
    def load_bps(self) -> float:
        return sum(self.by_session.values())


@dataclass(frozen=True)
class Demand:
    """What one collective must bring across a cut."""

    collective: int
    crossings: float  # per unit of its rate
    rate_bps: float

    @property
    def needs_bps(self) -> float:
        return self.crossings * self.rate_bps


@dataclass(frozen=True)
class Crossing:
    """A cut with all that crosses it."""

    cut: Cut
    links: tuple[Resource, ...]
    limits: tuple[Resource, ...]  # of nodes at the links' ends that hold the cut or have a dual
    carried_bps: float  # by the links, within the limits of the nodes at one of their ends
    demands: tuple[Demand, ...]

    def others_bps(self, collective: int) -> float:
        return sum(demand.needs_bps for demand in self.demands if demand.collective != collective)

    def bound_bps(self, collective: int) -> float:
        """No plan gives the collective more while the others keep their rates."""
        own = sum(demand.crossings for demand in self.demands if demand.collective == collective)
        return max(self.carried_bps - self.others_bps(collective), 0.0) / own if own > 0 else math.inf


def links_into(network: Network, into: frozenset[str]) -> list[LinkName]:
    return [(tail, head) for tail, head in network.links if head in into and tail not in into]


def packed_cuts(network: Network, duals: Duals, sessions: Iterable[int]) -> list[Cut]:
    """The cuts that these sessions have at a level, the longest first; equal sets are put together."""
    everything = frozenset(network.names)
    length: dict[frozenset[str], float] = defaultdict(float)
    users: dict[frozenset[str], list[int]] = defaultdict(list)
    is_left: dict[frozenset[str], bool] = {}
    for number in sessions:
        if number not in duals.packings:
            continue
        reverse = network.sessions[number].kind == "reduce"
        share = network.share_of(number)
        for names, cut_length in duals.packings[number].cuts:
            into = everything - frozenset(names) if reverse else frozenset(names)
            length[into] += share * cut_length
            users[into].append(number)
            is_left.setdefault(into, reverse)
    cuts = [Cut(into, length[into], tuple(sorted(set(users[into]))), is_left[into]) for into in length]
    return sorted(cuts, key=lambda cut: (-cut.length, len(cut.into), sorted(cut.into)))


def certified_cuts(network: Network, collective: int) -> list[Cut]:
    """The cuts of a policy without levels, the narrowest first."""
    everything = frozenset(network.names)
    found = [cut for cut in network.cuts if cut.collective == collective]
    found.sort(key=lambda cut: cut.bound_bps)
    return [Cut(everything - frozenset(cut.source_side)) for cut in found]


def link_resource(network: Network, name: LinkName, length: float = 0.0) -> Resource:
    capacity = network.capacity_bps(network.links[name])
    return Resource("link", name, capacity, dict(network.on_link.get(name, {})), length)


def limit_resource(network: Network, kind: str, node: str, length: float = 0.0) -> Resource:
    on_node = network.leaving if kind == "egress" else network.entering
    found = network.nodes[node]
    capacity = found.egress_bps if kind == "egress" else found.ingress_bps
    return Resource(kind, (node,), capacity, dict(on_node.get(node, {})), length)


def crossing(network: Network, cut: Cut, duals: Duals) -> Crossing:
    names = links_into(network, cut.into)
    links = [link_resource(network, name, duals.links.get(name, 0.0)) for name in names]
    links.sort(key=lambda link: (-link.load_bps, -link.capacity_bps, link.nodes))
    by_tail, tails = _within_limits(network, links, "egress")
    by_head, heads = _within_limits(network, links, "ingress")
    hold = tails if by_tail <= by_head else heads
    hold |= {("egress", tail) for tail, _ in names if tail in duals.egress}
    hold |= {("ingress", head) for _, head in names if head in duals.ingress}
    limits = [limit_resource(network, kind, node, duals.of_node(kind, node)) for kind, node in sorted(hold)]
    return Crossing(cut, tuple(links), tuple(limits), min(by_tail, by_head), _demands(network, cut.into))


def _within_limits(
    network: Network, links: Iterable[Resource], kind: str
) -> tuple[float, set[tuple[str, str]]]:
    """What the links carry within the limits of the nodes at one of their ends; which limits count."""
    together: dict[str, float] = defaultdict(float)
    for link in links:
        together[link.nodes[0 if kind == "egress" else 1]] += link.capacity_bps
    carried = 0.0
    hold = set()
    for node, capacity in together.items():
        limit = limit_resource(network, kind, node).capacity_bps
        if limit < capacity:
            hold.add((kind, node))
        carried += min(limit, capacity)
    return carried, hold


def _demands(network: Network, into: frozenset[str]) -> tuple[Demand, ...]:
    demands = []
    for collective in network.collectives.values():
        crossings = sum(payload.share for payload in network.payloads(collective) if payload.crosses(into))
        if crossings > 0:
            demands.append(Demand(collective.id, crossings, network.rate_bps(collective)))
    return tuple(demands)
