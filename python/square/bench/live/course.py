"""What was seen of tenants' rates over time, and what it says."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

# Rates are over so long: a few broadcasts.
WINDOW_SECONDS = 0.5
STEP_SECONDS = 0.1

Points = tuple[tuple[float, float], ...]  # seconds from the beginning, bits per second


@dataclass(frozen=True)
class Curve:
    """One tenant's rates, in the mean of its destinations."""

    tenant: str
    measured: Points
    planned: Points

    def planned_at(self, seconds: float) -> float:
        """0 while the tenant is in no plan."""
        rate = 0.0
        for at, bps in self.planned:
            if at > seconds:
                break
            rate = bps
        return rate

    def measured_at(self, seconds: float) -> float:
        """Over the window that ends then; 0 where nothing was seen."""
        found = bisect_left(self.measured, (seconds - STEP_SECONDS / 2, 0.0))
        return self.measured[found][1] if found < len(self.measured) else 0.0


@dataclass(frozen=True)
class Verdict:
    """One figure, and what was asked of it: None where nothing was."""

    what: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.at_least is None and self.at_most is None:
            return None
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def found(self) -> str:
        return f"{self.value:.3f}{f' {self.unit}' if self.unit else ''}"

    def asked(self) -> str:
        """Empty where nothing was; says so where it does not hold."""
        words = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        words += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(words) + (": missed" if self.holds is False else "")


@dataclass(frozen=True)
class Course:
    experiment: str
    seed: int
    is_quick: bool
    curves: tuple[Curve, ...]
    marks: tuple[tuple[float, str], ...]  # what happened, and when
    verdicts: tuple[Verdict, ...]
    verified_bytes: int
    busy: float  # part of this machine's processors

    @property
    def key(self) -> tuple[str, int, bool]:
        return self.experiment, self.seed, self.is_quick

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_document(document: dict[str, Any]) -> "Course":
        def points(pairs: list[list[float]]) -> Points:
            return tuple((at, bps) for at, bps in pairs)

        curves = (Curve(c["tenant"], points(c["measured"]), points(c["planned"])) for c in document["curves"])
        return Course(
            **{
                **document,
                "curves": tuple(curves),
                "marks": tuple((at, what) for at, what in document["marks"]),
                "verdicts": tuple(Verdict(**verdict) for verdict in document["verdicts"]),
            }
        )


class Meter:
    """What destinations told of the bytes that they have, by tenant."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], list[tuple[float, int]]] = {}  # by tenant and site

    def note(self, site: str, at: float, delivered: dict[str, int]) -> None:
        for tenant, count in delivered.items():
            self._told.setdefault((tenant, site), []).append((at, count))

    def rate_bps(self, tenant: str, begin: float, end: float, destinations: int) -> float:
        """In the mean over the tenant's destinations."""
        parts = [told for (whose, _), told in self._told.items() if whose == tenant]
        received = sum(_count_at(told, end) - _count_at(told, begin) for told in parts)
        return 8 * received / (end - begin) / destinations

    def points(self, tenant: str, begin: float, end: float, destinations: int) -> Points:
        steps = int((end - begin) / STEP_SECONDS)
        times = [begin + step * STEP_SECONDS for step in range(1, steps + 1)]
        return tuple(
            (at - begin, self.rate_bps(tenant, at - WINDOW_SECONDS, at, destinations)) for at in times
        )


def _count_at(told: Sequence[tuple[float, int]], at: float) -> float:
    """Between two samples as if it came evenly."""
    after = bisect_left(told, (at, 0))
    if after == 0:
        return 0.0
    if after == len(told):
        return told[-1][1]
    (before_at, before), (after_at, then) = told[after - 1], told[after]
    return before + (then - before) * (at - before_at) / max(after_at - before_at, 1e-9)


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all are alike, 1 over their number where one has all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else 0.0


def fairness_at(curves: Sequence[Curve], seconds: float) -> float:
    """Jain's index of measured over planned rates of those that are planned then."""
    planned = [(curve, curve.planned_at(seconds)) for curve in curves]
    ratios = [curve.measured_at(seconds) / rate for curve, rate in planned if rate > 0]
    return jain(ratios) if ratios else 0.0


def first_time(begin: float, end: float, holds: Sequence[tuple[float, bool]]) -> float | None:
    """From ``begin`` until it holds for the first time; None where it does not before ``end``."""
    return next((at - begin for at, is_so in holds if begin <= at <= end and is_so), None)
