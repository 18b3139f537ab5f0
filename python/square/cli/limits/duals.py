"""The duals of a freezing level by name, read once."""

from dataclasses import dataclass, field

from square._core import PlanLevel, PlanPacking

LinkName = tuple[str, str]


@dataclass(frozen=True)
class Duals:
    """Empty for a policy without levels. Lengths as in PlanLevel of include/square/plan.h."""

    bound_bps: float = 0.0
    collectives: tuple[int, ...] = ()  # that stop here
    links: dict[LinkName, float] = field(default_factory=dict)
    egress: dict[str, float] = field(default_factory=dict)
    ingress: dict[str, float] = field(default_factory=dict)
    budget: float = 0.0
    packings: dict[int, PlanPacking] = field(default_factory=dict)  # by session

    @classmethod
    def of(cls, level: PlanLevel) -> "Duals":
        return cls(
            level.bound_bps,
            tuple(level.collectives),
            {(tail, head): length for tail, head, length in level.links if length > 0},
            {node: length for node, length in level.egress if length > 0},
            {node: length for node, length in level.ingress if length > 0},
            level.budget,
            {packing.session: packing for packing in level.packings},
        )

    def of_node(self, kind: str, node: str) -> float:
        """``kind`` is "egress" or "ingress"."""
        return (self.egress if kind == "egress" else self.ingress).get(node, 0.0)
