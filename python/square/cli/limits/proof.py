"""The proof of a freezing level: an inequality that every plan keeps, in figures to add up by hand.

Formula: PlanLevel in include/square/plan.h.
"""

import math
from dataclasses import dataclass

from square._core import PlanCollective
from square.cli.limits.cuts import Resource, limit_resource, link_resource
from square.cli.limits.duals import Duals
from square.cli.limits.network import Network


@dataclass(frozen=True)
class Part:
    """A collective in the proof: ``length`` times its rate is what it uses up."""

    collective: int
    length: float
    weight: float
    lp_rate_bps: float
    rate_bps: float  # that it keeps
    is_earlier: bool  # it stopped at a lower level


@dataclass(frozen=True)
class Proof:
    resources: tuple[Resource, ...]  # with a length above 0, the most first
    budget_length: float
    budget_usd_per_hour: float
    parts: tuple[Part, ...]

    @property
    def worth(self) -> float:
        """Capacities times lengths."""
        budget = self.budget_length * self.budget_usd_per_hour if self.budget_length > 0 else 0.0
        return sum(resource.capacity_bps * resource.length for resource in self.resources) + budget

    @property
    def earlier(self) -> float:
        return sum(part.length * part.lp_rate_bps for part in self.parts if part.is_earlier)

    @property
    def active(self) -> float:
        return sum(part.length * part.weight for part in self.parts if not part.is_earlier)

    @property
    def bound_bps(self) -> float:
        """No plan gives all of those that had not stopped before more per unit of weight."""
        return max(self.worth - self.earlier, 0.0) / self.active if self.active > 0 else math.inf

    def bound_of(self, collective: int) -> float:
        """No plan gives this collective more while the others keep their rates."""
        own = sum(part.length for part in self.parts if part.collective == collective)
        others = sum(part.length * part.rate_bps for part in self.parts if part.collective != collective)
        return max(self.worth - others, 0.0) / own if own > 0 else math.inf


def prove(network: Network, position: int) -> Proof:
    duals = network.levels[position]
    resources = [link_resource(network, name, length) for name, length in duals.links.items()]
    resources += [limit_resource(network, "egress", node, length) for node, length in duals.egress.items()]
    resources += [limit_resource(network, "ingress", node, length) for node, length in duals.ingress.items()]
    resources.sort(key=lambda resource: (-resource.capacity_bps * resource.length, resource.nodes))
    parts = []
    for number, length in _lengths_of_collectives(network, duals).items():
        collective = network.collectives[number]
        parts.append(
            Part(
                number,
                length,
                collective.weight,
                collective.lp_rate_bps,
                network.rate_bps(collective),
                is_earlier=network.level_of.get(number, len(network.levels)) < position,
            )
        )
    return Proof(tuple(resources), duals.budget, network.budget_usd_per_hour or 0.0, tuple(parts))


def _lengths_of_collectives(network: Network, duals: Duals) -> dict[int, float]:
    """Those above 0."""
    packed = {}
    for number, packing in duals.packings.items():
        packed[number] = sum(length for _, length in packing.cuts)
    found = {}
    for collective in network.collectives.values():
        if network.is_planned_all_reduce(collective):
            length = _least_share(network, collective, packed)
        else:
            length = sum(network.share_of(number) * packed.get(number, 0.0) for number in collective.sessions)
        if length > 0:
            found[collective.id] = length
    return found


def _least_share(network: Network, collective: PlanCollective, packed: dict[int, float]) -> float:
    """Of a planned all-reduce: what its cheapest share costs."""
    shares = []
    for number in collective.sessions:
        session = network.sessions[number]
        if session.kind == "reduce" and session.pair is not None:
            shares.append(packed.get(number, 0.0) + packed.get(session.pair, 0.0))
    return min(shares, default=0.0)
