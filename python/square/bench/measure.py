"""One point of a figure under one policy: as planned, or run on this machine."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from square import planning
from square.bench.figures import Line, Point
from square.run.job import RunOptions, run_scenario
from square.run.progress import Display

PLAN = "plan"

# Figure, place, seed, line, way and scale: what was measured once need not be again.
Key = tuple[str, str, int, str, str, float]


@dataclass(frozen=True)
class Measurement:
    """Completions are seconds from the common start, one a collective."""

    figure: str
    place: str
    seed: int
    line: str
    way: str  # "plan", or how the overlay was emulated: "pace", "netns"
    scale: float  # of the paper's bytes
    planned_seconds: tuple[float, ...]
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
        if not self.measured_seconds:
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


def measure(point: Point, line: Line, way: str, display: Display) -> Measurement:
    """Blocks for as long as it takes. Raises what planning and running raise."""
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
    before = _processor_ticks()
    outcome = run_scenario(
        line.scenario, RunOptions(policies=(line.policy,), seed=point.seed, emulate=way), display
    )
    used, passed = (now - then for now, then in zip(_processor_ticks(), before, strict=True))
    done = outcome.policies[0].collectives
    return Measurement(
        **{
            **planned.to_document(),
            "planned_seconds": tuple(one.planned_seconds for one in done),
            "measured_seconds": tuple(one.measured_seconds for one in done),
            "busy": used / passed if passed > 0 else None,
        }
    )


def _processor_ticks() -> tuple[int, int]:
    """Of all processors since the machine started: what was used, and all of it."""
    first = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0]
    user, nice, system, idle, waiting, *others = (int(word) for word in first.split()[1:9])
    used = user + nice + system + sum(others)
    return used, used + idle + waiting
