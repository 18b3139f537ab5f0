"""Overlays and groups as plain numbers, and the sessions that collectives are made of.

Written from the documents, a second time: sessions with their fractions of the collective's
rate, as docs/scenario.md and docs/plan.md define them. Turns into a `square.Scenario`, but
shares nothing with the library.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import square

Link = tuple[str, str]

ROOTED = ("broadcast", "reduce", "scatter", "gather")
OPERATIONS = (*ROOTED, "all_gather", "reduce_scatter", "all_to_all", "all_reduce")


@dataclass(frozen=True)
class Group:
    """One collective."""

    op: str
    members: tuple[str, ...]  # in rank order
    root: str | None = None
    size_bytes: int = 2_520_000
    weight: float = 1.0
    tenant: str = "t0"
    algorithm: str = "planned"


@dataclass(frozen=True)
class Instance:
    """An overlay and what is to be planned on it. Its repr() makes it again."""

    nodes: tuple[str, ...]
    links: dict[Link, float]  # bit/s
    groups: tuple[Group, ...]
    egress: dict[str, float] = field(default_factory=dict)  # only where there is a limit
    ingress: dict[str, float] = field(default_factory=dict)
    tenants: dict[str, float] = field(default_factory=lambda: {"t0": 1.0})
    fairness: str = "collective"

    def topology(self) -> square.Topology:
        topology = square.Topology()
        for name in self.nodes:
            topology.add_node(name, self.egress.get(name), self.ingress.get(name))
        for (tail, head), capacity in self.links.items():
            topology.add_link(tail, head, capacity)
        return topology

    def scenario(
        self,
        policy: str = "exact",
        coding: str = "off",
        max_streams: int = 0,
        in_turn: Sequence[str] | None = None,
    ) -> square.Scenario:
        """Without codes, so that rates are those of trees and lp rates say what coding could do.

        `in_turn`: by group of this instance, the group of processes that it belongs to.
        """
        only_exact = {"coding": coding, "max_streams": max_streams} if policy == "exact" else {}
        return square.Scenario(
            self.topology(),
            square.Policy(policy, fairness=self.fairness, **only_exact),
            [square.Tenant(name, weight) for name, weight in self.tenants.items()],
            [
                square.Collective(
                    group.tenant,
                    group.op,
                    root=group.root,
                    members=list(group.members),
                    size_bytes=group.size_bytes,
                    weight=group.weight,
                    algorithm=group.algorithm,
                    group=name,
                )
                for group, name in zip(self.groups, in_turn or [""] * len(self.groups), strict=True)
            ],
        )

    def weights(self) -> list[float]:
        """By group: the tenant's weight times its own, which under "tenant" first sum to one."""
        if self.fairness == "collective":
            return [self.tenants[group.tenant] * group.weight for group in self.groups]
        sums: defaultdict[str, float] = defaultdict(float)
        for group in self.groups:
            sums[group.tenant] += group.weight
        return [self.tenants[group.tenant] * group.weight / sums[group.tenant] for group in self.groups]

    def largest(self) -> float:
        return max(self.links.values())


@dataclass(frozen=True)
class Session:
    """Data from the root to the others, or with `reduce` from the others to the root."""

    group: int
    root: str
    others: tuple[str, ...]
    fraction: float = 1.0  # of the collective's rate, or of its share's
    reduce: bool = False
    share: int | None = None  # of a planned all-reduce


def slots(size_bytes: int, count: int) -> list[float]:
    """What part of the buffer each rank has: even, and the last takes the remainder."""
    each = size_bytes // count
    if each == 0:  # planned for tensors of every size
        return [1 / count] * count
    return [each / size_bytes] * (count - 1) + [(size_bytes - each * (count - 1)) / size_bytes]


def sessions_of(number: int, group: Group) -> list[Session]:
    members = group.members
    count = len(members)
    parts = slots(group.size_bytes, count)

    def others(name: str) -> tuple[str, ...]:
        return tuple(member for member in members if member != name)

    if group.op in ("broadcast", "reduce"):
        assert group.root is not None
        return [Session(number, group.root, others(group.root), reduce=group.op == "reduce")]
    if group.op in ("scatter", "gather"):
        root = group.root
        assert root is not None
        pairs = [(root, name) if group.op == "scatter" else (name, root) for name in members]
        return _unicasts(number, pairs, parts)
    if group.op in ("all_gather", "reduce_scatter"):
        reduce = group.op == "reduce_scatter"
        return [
            Session(number, name, others(name), part, reduce)
            for name, part in zip(members, parts, strict=True)
        ]
    if group.op == "all_to_all":
        return [
            session
            for name in members
            for session in _unicasts(number, [(name, other) for other in members], parts)
        ]
    assert group.op == "all_reduce"
    if group.algorithm == "ring":
        size = group.size_bytes
        around = 2 * (count - 1)
        part = float(around * size // count) / size if size >= count else around / count
        pairs = [(name, members[(rank + 1) % count]) for rank, name in enumerate(members)]
        return _unicasts(number, pairs, [part] * count)
    return [
        Session(number, name, others(name), 1.0, reduce, share)
        for share, name in enumerate(members)
        for reduce in (True, False)
    ]


def _unicasts(number: int, pairs: Sequence[Link], parts: Sequence[float]) -> list[Session]:
    return [
        Session(number, tail, (head,), part)
        for (tail, head), part in zip(pairs, parts, strict=True)
        if tail != head
    ]


def all_sessions(instance: Instance) -> list[Session]:
    return [session for number, group in enumerate(instance.groups) for session in sessions_of(number, group)]
