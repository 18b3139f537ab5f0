"""One point of a figure under one policy: as planned, or run on this machine."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from square import planning
from square.bench import ranks
from square.bench.figures import PLAN, SIMULATION, Line, Point
from square.bench.machine import ProcessorUse
from square.run.job import RunOptions, run_scenario
from square.run.machines import MachinesFile
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
    busy: float | None = None  # part of this machine's processors, while it ran

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


def measure(
    point: Point, line: Line, way: str, display: Display, machines: MachinesFile | None = None
) -> Measurement:
    """Blocks for as long as it takes. Raises what planning and running raise. `machines`: for that way."""
    plan = planning.plan(line.scenario, policy=line.policy)
    bounds = [8 * c.size_bytes / c.bound_bps if c.bound_bps > 0 else 0.0 for c in plan.collectives]
    planned = Measurement(
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
    if way == PLAN:
        return planned
    if way == SIMULATION:
        simulated = planning.simulate(line.scenario, plan, seed=point.seed)
        return replace(planned, measured_seconds=tuple(simulated))
    if line.backend is not None:
        return _measured_by_ranks(planned, point, line)
    use = ProcessorUse()
    options = RunOptions(policies=(line.policy,), seed=point.seed, emulate=way, machines=machines)
    outcome = run_scenario(line.scenario, options, display)
    busy = use.busy() if machines is None else None
    done = outcome.policies[0].collectives
    return Measurement(
        **{
            **planned.to_document(),
            "planned_seconds": tuple(one.planned_seconds for one in done),
            "measured_seconds": tuple(one.measured_seconds for one in done),
            "busy": busy,
        }
    )


def _measured_by_ranks(planned: Measurement, point: Point, line: Line) -> Measurement:
    assert line.backend is not None
    use = ProcessorUse()
    seconds = ranks.run(line.scenario, line.backend, point.place)
    return Measurement(
        **{
            **planned.to_document(),
            "planned_seconds": planned.planned_seconds if line.backend == "square" else (),
            "measured_seconds": (seconds,),
            "busy": use.busy(),
        }
    )
