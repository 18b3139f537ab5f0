"""A point of a figure under one policy or several: as planned, or run on this machine."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from square import planning
from square._core import Plan
from square.bench import ranks
from square.bench.figures import PLAN, SIMULATION, Line, Point
from square.run import operations
from square.run.job import RunOptions, run_scenario
from square.run.machines import MachinesFile
from square.run.processors import ProcessorUse
from square.run.progress import Display

# Figure, place, seed, line, way and scale: what was measured once need not be again.
Key = tuple[str, str, int, str, str, float]


@dataclass(frozen=True)
class Measurement:
    """Completions are seconds from the common start, one a collective."""

    figure: str
    place: str
    seed: int
    line: str
    way: str  # "plan", "simulation", how the overlay was emulated: "pace", "netns"; or "machines"
    scale: float  # of the paper's bytes
    planned_seconds: tuple[float, ...]  # empty: who moved the bytes planned nothing
    bound_seconds: tuple[float, ...]  # no plan at all is sooner in the slowest; 0 where there is none
    solve_seconds: float
    measured_seconds: tuple[float, ...] = ()  # empty: it was planned only
    busy: float | None = None  # part of this machine's processors, while bytes moved

    @property
    def seconds(self) -> tuple[float, ...]:
        """What was found: measured where it ran."""
        return self.measured_seconds or self.planned_seconds

    @property
    def ratio(self) -> float | None:
        """Of the slowest: measured over planned."""
        if not self.measured_seconds or not self.planned_seconds:
            return None
        return max(self.measured_seconds) / max(self.planned_seconds)

    @property
    def key(self) -> "Key":
        return self.figure, self.place, self.seed, self.line, self.way, self.scale

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_document(document: dict[str, Any]) -> "Measurement":
        listed = {"planned_seconds", "bound_seconds", "measured_seconds"}
        fields: dict[str, Any] = {
            key: tuple(value) if key in listed else value for key, value in document.items()
        }
        return Measurement(**fields)


def together(lines: Sequence[Line], way: str) -> Iterator[tuple[Line, ...]]:
    """Those that one call of ``measure`` takes: lines of one scenario are run in one overlay."""
    for _, same in groupby(lines, lambda line: id(line.scenario)):
        alike = tuple(same)
        if way in (PLAN, SIMULATION) or any(map(_runs_alone, alike)):
            yield from ((line,) for line in alike)
        else:
            yield alike


def _runs_alone(line: Line) -> bool:
    """`square run` takes rings under one policy at a time."""
    return line.backend is not None or any(map(operations.is_ring, line.scenario.collectives))


def measure(
    point: Point, lines: Sequence[Line], way: str, display: Display, machines: MachinesFile | None = None
) -> list[Measurement]:
    """Lines that ``together`` gave. Blocks for as long as it takes. Raises what planning and running raise.

    `machines`: for that way.
    """
    plans = [planning.plan(line.scenario, policy=line.policy) for line in lines]
    planned = [_planned(point, line, way, plan) for line, plan in zip(lines, plans, strict=True)]
    if way == PLAN:
        return planned
    if way == SIMULATION:
        return [
            replace(one, measured_seconds=tuple(planning.simulate(line.scenario, plan, seed=point.seed)))
            for one, line, plan in zip(planned, lines, plans, strict=True)
        ]
    if lines[0].backend is not None:
        return [_measured_by_ranks(one, point, line) for one, line in zip(planned, lines, strict=True)]
    policies = tuple(line.policy for line in lines)
    options = RunOptions(policies=policies, seed=point.seed, emulate=way, machines=machines)
    outcome = run_scenario(lines[0].scenario, options, display)
    return [
        replace(
            one,
            planned_seconds=tuple(c.planned_seconds for c in done.collectives),
            measured_seconds=tuple(c.measured_seconds for c in done.collectives),
            busy=done.busy,
        )
        for one, done in zip(planned, outcome.policies, strict=True)
    ]


def _planned(point: Point, line: Line, way: str, plan: Plan) -> Measurement:
    bounds = [8 * c.size_bytes / c.bound_bps if c.bound_bps > 0 else 0.0 for c in plan.collectives]
    return Measurement(
        point.figure,
        point.place,
        point.seed,
        line.name,
        way,
        point.scale_bytes,
        tuple(c.completion_seconds for c in plan.collectives),
        tuple(bound if math.isfinite(bound) else 0.0 for bound in bounds),
        plan.solve_seconds,
    )


def _measured_by_ranks(planned: Measurement, point: Point, line: Line) -> Measurement:
    assert line.backend is not None
    use = ProcessorUse()
    seconds = ranks.run(line.scenario, line.backend, point.place)
    return replace(
        planned,
        planned_seconds=planned.planned_seconds if line.backend == "square" else (),
        measured_seconds=(seconds,),
        busy=use.busy(),
    )
