"""The parts of a plan by id and by name: a plan makes them anew each time that it is asked."""

import math
from collections.abc import Iterable

from square._core import LimitedResource, Plan, PlanCollective
from square.cli import text
from square.run.outcome import ratio


class Parts:
    """A plan, read once. Nothing changes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.policy = plan.policy
        self.realised = plan.realised
        self.nodes = plan.nodes
        self.names = [node.name for node in self.nodes]
        self.links = plan.links
        self.sessions = {session.id: session for session in plan.sessions}
        self.collectives = {collective.id: collective for collective in plan.collectives}
        certificate = plan.certificate
        self.levels = certificate.levels
        self.level_bound_bps = certificate.level_bound_bps
        self.assumed_links = plan.assumed_links
        self.assumed_capacity_bps = plan.assumed_capacity_bps
        self._assumed_bounds = frozenset(plan.assumed_bounds)
        self._assumed_ends = frozenset(
            (link.from_node, link.to_node)
            for link in self.links
            if math.isinf(link.capacity_bps) and not link.avoided
        )
        self.cost_bound_usd_per_hour = certificate.cost_bound_usd_per_hour

    def is_bound_assumed(self, collective: int) -> bool:
        """Does its bound rest on what is assumed of links without a capacity?"""
        return collective in self._assumed_bounds

    def is_assumed(self, resources: Iterable[LimitedResource]) -> bool:
        """Is the capacity of a link among them assumed?"""
        return any(
            resource.kind == "link" and tuple(resource.nodes) in self._assumed_ends for resource in resources
        )

    def share_of_bound(self, collective: PlanCollective, bound_bps: float) -> str:
        """The part of its bound that it has; a dash if the bound is assumed."""
        if self.is_bound_assumed(collective.id):
            return "-"
        return text.percent(ratio(self.rate_bps(collective), bound_bps))

    def rate_bps(self, collective: PlanCollective) -> float:
        """What the streams carry; without streams, what the linear program allows."""
        return collective.rate_bps if self.realised else collective.lp_rate_bps
