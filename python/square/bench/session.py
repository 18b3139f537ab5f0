"""One run of `square bench`: what is asked for, one after the other, but for what is known already."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from square.bench import results
from square.bench.figures import FIGURES, Figure, Line, Point, Size
from square.bench.live import EXPERIMENTS, Course
from square.bench.measure import Key, Measurement, measure, together
from square.bench.ranks import check_torch
from square.errors import FailedPreconditionError, InvalidArgumentError
from square.run.machines import MachinesFile
from square.run.network import NETNS
from square.run.progress import Display

NAMES = (*FIGURES, *EXPERIMENTS)


@dataclass
class Found:
    measurements: list[Measurement] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)

    def figures(self) -> list[str]:
        """Those that have measurements, in their order."""
        return list(dict.fromkeys(one.figure for one in self.measurements))


@dataclass(frozen=True)
class Session:
    way: str  # one of figures.WAYS
    size: Size
    folder: Path
    machines: MachinesFile | None
    say: Callable[[str], None]
    display: Callable[[], Display]

    def chosen(self, asked: Iterable[str]) -> list[str]:
        """Those that are named, or, of ``all``, those that can be measured here and so.

        Raises ``InvalidArgumentError`` for one that is named and cannot be.
        """
        names = list(dict.fromkeys(asked))
        if "all" not in names:
            for name in names:
                if (why := self._why_not(name)) is not None:
                    raise InvalidArgumentError(f"{name}: {why}")
            return names
        possible = []
        for name in NAMES:
            why = self._why_not(name)
            if why is None:
                possible.append(name)
            else:
                self.say(f"{name} is left out: {why}")
        return possible

    def measure(self, names: Iterable[str]) -> Found:
        """Blocks for as long as it takes. What is found is kept in the folder as it comes."""
        found = Found()
        names = list(names)
        self._measure_figures([name for name in names if name in FIGURES], found)
        self._run_experiments([name for name in names if name in EXPERIMENTS], found)
        return found

    def _why_not(self, name: str) -> str | None:
        if name in EXPERIMENTS:
            return None if self.way == NETNS else f"it is only run: --emulate {NETNS}"
        figure = FIGURES[name]
        if self.way not in figure.ways:
            return f"it is only run: --emulate {' or '.join(figure.ways)}"
        if figure.data is not None and getattr(self.size, figure.data) is None:
            return f"it needs --{figure.data}"
        if self.machines is not None:
            return self._nowhere(figure)
        if name == "gloo":
            try:
                check_torch()
            except FailedPreconditionError as error:
                return str(error)
        return None

    def _nowhere(self, figure: Figure) -> str | None:
        """That a node of it is on none of the machines."""
        assert self.machines is not None
        try:
            for point in figure.points(self.size):
                for line in point.lines:
                    self.machines.check(line.scenario)
        except InvalidArgumentError as error:
            return str(error)
        return None

    def _measure_figures(self, names: list[str], found: Found) -> None:
        known = results.measurements(self.folder)
        points = [point for name in names for point in FIGURES[name].points(self.size)]
        count, number = sum(len(point.lines) for point in points), 0
        for point in points:
            unknown = [line for line in point.lines if known.find(self._key(point, line)) is None]
            number += len(point.lines) - len(unknown)
            for lines in together(unknown, self.way):
                number += len(lines)
                what = ", ".join(line.name for line in lines)
                self.say(
                    f"{number} of {count}: figure {point.figure}, {point.place}, seed {point.seed}, {what}"
                )
                for one in measure(point, lines, self.way, self.display(), self.machines):
                    known.add(one)
            found.measurements += (known.get(self._key(point, line)) for line in point.lines)

    def _key(self, point: Point, line: Line) -> Key:
        return point.figure, point.place, point.seed, line.name, self.way, point.scale_bytes

    def _run_experiments(self, names: list[str], found: Found) -> None:
        known = results.courses(self.folder)
        for name in names:
            for seed in range(1, self.size.seeds + 1):
                one = known.find((name, seed, self.size.is_quick))
                if one is None:
                    self.say(f"{EXPERIMENTS[name].title} (seed {seed})")
                    one = EXPERIMENTS[name].run(seed, self.size.is_quick)
                    known.add(one)
                found.courses.append(one)
