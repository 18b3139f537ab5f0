"""The overlay of a plan by name, and what its sessions put on it."""

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from square._core import Plan, PlanCollective, PlanLink
from square.cli.limits.duals import Duals, LinkName

# What the planner counts an unlimited link as, where no link is limited.
UNMEASURED_BPS = 1e9


@dataclass(frozen=True)
class Payload:
    """Bytes that travel from one root, or to it. The same bytes count once, however many bring them."""

    share: float  # of the collective's rate
    root: str | None  # None: a planned all-reduce may be shared over any member
    others: frozenset[str]
    adds: bool  # towards the root

    def crosses(self, into: Collection[str]) -> bool:
        """Must it enter the set?"""
        is_inside = any(name in into for name in self.others)
        is_outside = any(name not in into for name in self.others)
        if self.root is None:
            return is_inside and is_outside
        if self.adds:
            return self.root in into and is_outside
        return self.root not in into and is_inside


class Network:
    """A plan, read once. Everything is by name or id; nothing changes."""

    def __init__(self, plan: Plan) -> None:
        self.policy = plan.policy
        self.realised = plan.realised
        self.budget_usd_per_hour = plan.budget_usd_per_hour
        self.cost_usd_per_hour = plan.cost_usd_per_hour
        certificate = plan.certificate
        self.level_bound_bps = certificate.level_bound_bps
        self.cost_bound_usd_per_hour = certificate.cost_bound_usd_per_hour
        self.cuts = certificate.cuts
        self.levels = [Duals.of(level) for level in certificate.levels]
        self.nodes = {node.name: node for node in plan.nodes}
        self.names = list(self.nodes)
        self.links = {(link.from_node, link.to_node): link for link in plan.links}
        self.sessions = {session.id: session for session in plan.sessions}
        self.collectives = {collective.id: collective for collective in plan.collectives}
        self.level_of = {
            number: position for position, level in enumerate(self.levels) for number in level.collectives
        }
        self._unlimited_bps = max(
            (link.capacity_bps for link in self.links.values() if math.isfinite(link.capacity_bps)),
            default=UNMEASURED_BPS,
        )
        self._load()
        self._payloads: dict[int, list[Payload]] = {}

    def _load(self) -> None:
        self.on_link: dict[LinkName, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self.leaving: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self.entering: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for session in self.sessions.values():
            for stream in session.streams:
                for tail, head in stream.links:
                    self.on_link[tail, head][session.id] += stream.rate_bps
                    self.leaving[tail][session.id] += stream.rate_bps
                    self.entering[head][session.id] += stream.rate_bps

    def capacity_bps(self, link: PlanLink) -> float:
        """What a bound counts: an unlimited link is as wide as the widest that is limited."""
        return link.capacity_bps if math.isfinite(link.capacity_bps) else self._unlimited_bps

    def rate_bps(self, collective: PlanCollective) -> float:
        """What the streams carry; without streams, what the linear program allows."""
        return collective.rate_bps if self.realised else collective.lp_rate_bps

    def bound_bps(self, collective: PlanCollective) -> float:
        """Of the rate. Without streams nobody keeps a rate, so that it is what the level allows."""
        level = self.level_of.get(collective.id)
        if self.realised or level is None:
            return collective.bound_bps
        return self.levels[level].bound_bps * collective.weight

    def is_about_cost(self) -> bool:
        return self.cost_bound_usd_per_hour is not None

    def is_planned_all_reduce(self, collective: PlanCollective) -> bool:
        return collective.op == "all_reduce" and any(
            self.sessions[number].pair is not None for number in collective.sessions
        )

    def members_of(self, collective: PlanCollective) -> frozenset[str]:
        return frozenset(name for number in collective.sessions for name in self.sessions[number].members)

    def share_of(self, number: int) -> float:
        """The part of its collective's bytes that a session carries; of a planned all-reduce, 1.

        With fewer bytes than members it is the part of a large buffer.
        """
        session = self.sessions[number]
        collective = self.collectives[session.collective]
        if self.is_planned_all_reduce(collective):
            return 1.0
        members = len(self.members_of(collective))
        if 0 < collective.size_bytes >= members:
            return session.size_bytes / collective.size_bytes
        if collective.op in ("broadcast", "reduce"):
            return 1.0
        return (2.0 * (members - 1) if collective.op == "all_reduce" else 1.0) / members

    def payloads(self, collective: PlanCollective) -> list[Payload]:
        if collective.id not in self._payloads:
            self._payloads[collective.id] = self._find_payloads(collective)
        return self._payloads[collective.id]

    def _find_payloads(self, collective: PlanCollective) -> list[Payload]:
        if self.is_planned_all_reduce(collective):
            return [Payload(1.0, None, self.members_of(collective), adds=False)]
        copies = collective.op in ("broadcast", "all_gather")
        alike: dict[tuple[str, int, int, int], list[int]] = defaultdict(list)
        for number in collective.sessions:
            session = self.sessions[number]
            own = -1 if copies else number
            alike[session.root, session.offset_bytes, session.size_bytes, own].append(number)
        return [
            Payload(
                self.share_of(numbers[0]),
                root,
                frozenset(name for number in numbers for name in self.sessions[number].members) - {root},
                adds=self.sessions[numbers[0]].kind == "reduce",
            )
            for (root, _, _, _), numbers in alike.items()
        ]
