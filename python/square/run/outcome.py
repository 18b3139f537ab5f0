"""What a run was: figures, and the JSON document `square.run/1`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from square.run.network import NetworkOutcome, Traffic
from square.run.operations import results

FORMAT = "square.run/1"


def ratio(numerator: float, denominator: float) -> float:
    """NaN where it means nothing: nothing was sent, or without a limit."""
    if denominator == 0 or not math.isfinite(numerator) or not math.isfinite(denominator):
        return math.nan
    return numerator / denominator


def jain(levels: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything."""
    squares = sum(level * level for level in levels)
    return sum(levels) ** 2 / (len(levels) * squares) if squares > 0 else 1.0


def mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


@dataclass(frozen=True)
class CollectiveOutcome:
    """One collective under one policy. Completions are from the common start to the last member."""

    id: int
    tenant: str
    op: str
    root: str | None
    members: tuple[str, ...]
    weight: float
    size_bytes: int
    planned_bps: float
    bound_bps: float
    planned_seconds: float
    finished_seconds: dict[str, float]  # by member
    sha256: str
    is_bound_assumed: bool = False  # it rests on what is assumed of links without a capacity

    @property
    def rate_to_bound(self) -> float:
        """NaN if the bound is assumed."""
        return math.nan if self.is_bound_assumed else ratio(self.planned_bps, self.bound_bps)

    @property
    def measured_seconds(self) -> float:
        return max(self.finished_seconds.values())

    @property
    def measured_bps(self) -> float:
        """NaN where there was nothing to send."""
        has_work = self.size_bytes > 0 and len(self.members) > 1
        return 8 * self.size_bytes / self.measured_seconds if has_work else math.nan

    @property
    def completion_ratio(self) -> float:
        return ratio(self.measured_seconds, self.planned_seconds)

    @property
    def destinations(self) -> int:
        """The members that get the result."""
        return results(self.op, len(self.members))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "tenant": self.tenant,
            "op": self.op,
            "root": self.root,
            "members": list(self.members),
            "weight": self.weight,
            "bytes": self.size_bytes,
            "planned_rate_mbps": mbps(self.planned_bps),
            "measured_rate_mbps": mbps(self.measured_bps),
            "bound_mbps": mbps(self.bound_bps),
            "rate_to_bound": finite(self.rate_to_bound),
            "bound_is_assumed": self.is_bound_assumed,
            "planned_completion_seconds": finite(self.planned_seconds),
            "measured_completion_seconds": self.measured_seconds,
            "ratio": finite(self.completion_ratio),
            "finished_seconds": self.finished_seconds,
            "sha256": self.sha256,
            "verified_destinations": self.destinations,
        }


@dataclass(frozen=True)
class Totals:
    min_bps: float
    total_bps: float
    jain: float

    @classmethod
    def of(cls, rates_and_weights: Iterable[tuple[float, float]]) -> "Totals":
        known = [(rate, weight) for rate, weight in rates_and_weights if math.isfinite(rate)]
        rates = [rate for rate, _ in known]
        return cls(min(rates, default=0.0), sum(rates), jain([rate / weight for rate, weight in known]))

    def to_json(self) -> dict[str, Any]:
        return {
            "min_rate_mbps": mbps(self.min_bps),
            "total_rate_mbps": mbps(self.total_bps),
            "jain": self.jain,
        }


@dataclass(frozen=True)
class PolicyOutcome:
    policy: str
    epoch: int
    solve_seconds: float
    collectives: tuple[CollectiveOutcome, ...]
    traffic: Traffic | None = None  # where the kernel shaped the links
    # The part of this machine's processors that was used while bytes moved, 0 to 1; None: it ran elsewhere.
    busy: float | None = None
    assumed_links: int = 0  # that have no capacity
    assumed_bps: float = 0.0  # what each of them is planned as

    @property
    def planned(self) -> Totals:
        return Totals.of((c.planned_bps, c.weight) for c in self.collectives)

    @property
    def measured(self) -> Totals:
        return Totals.of((c.measured_bps, c.weight) for c in self.collectives)

    @property
    def mean_seconds(self) -> float:
        return mean(c.measured_seconds for c in self.collectives)

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "epoch": self.epoch,
            "solve_seconds": self.solve_seconds,
            "planned": self.planned.to_json(),
            "measured": self.measured.to_json(),
            "mean_completion_seconds": self.mean_seconds,
            "machine_busy": self.busy,
            "collectives": [collective.to_json() for collective in self.collectives],
            "traffic": None if self.traffic is None else self.traffic.to_json(),
        }


@dataclass(frozen=True)
class RunOutcome:
    scenario: str
    nodes: int
    links: int
    input: str | None
    seed: int
    network: NetworkOutcome
    policies: tuple[PolicyOutcome, ...]
    wall_seconds: float

    @property
    def verified_destinations(self) -> int:
        return sum(c.destinations for policy in self.policies for c in policy.collectives)

    @property
    def verified_bytes(self) -> int:
        return sum(c.destinations * c.size_bytes for policy in self.policies for c in policy.collectives)

    def gains(self, baseline: PolicyOutcome) -> list[float]:
        """By collective: how many times sooner the first policy completed it."""
        pairs = zip(baseline.collectives, self.policies[0].collectives, strict=True)
        return [ratio(theirs.measured_seconds, ours.measured_seconds) for theirs, ours in pairs]

    def mean_gain(self, baseline: PolicyOutcome) -> float:
        """The same of the mean completions."""
        return ratio(baseline.mean_seconds, self.policies[0].mean_seconds)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "scenario": self.scenario,
            "nodes": self.nodes,
            "links": self.links,
            "payload": {"input": self.input, "seed": None if self.input else self.seed},
            "network": self.network.to_json(),
            "runs": [policy.to_json() for policy in self.policies],
            "comparison": {
                "policy": self.policies[0].policy,
                "baselines": [
                    {
                        "policy": baseline.policy,
                        "mean_gain": finite(self.mean_gain(baseline)),
                        "gains": [finite(gain) for gain in self.gains(baseline)],
                    }
                    for baseline in self.policies[1:]
                ],
            },
            "verified": {
                "hash": "sha256",
                "bytes": self.verified_bytes,
                "destinations": self.verified_destinations,
            },
            "wall_seconds": self.wall_seconds,
        }


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def mbps(rate_bps: float) -> float | None:
    return finite(rate_bps / 1e6)
