"""How the benchmarks of the policy "exact" report: figures, what is asked of them, JSON."""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str
    least: float | None
    most: float | None

    @property
    def met(self) -> bool:
        return (self.least is None or self.value >= self.least) and (
            self.most is None or self.value <= self.most
        )

    def __str__(self) -> str:
        text = f"{self.name:62} {self.value:12.5g} {self.unit}"
        asked = [
            f"{word} {limit:g}"
            for word, limit in (("at least", self.least), ("at most", self.most))
            if limit is not None
        ]
        return f"{text.rstrip()}  ({', '.join(asked)}: {'met' if self.met else 'MISSED'})" if asked else text


class Report:
    """Prints figures as they come, or all of them as JSON at the end."""

    def __init__(self, program: str, *, as_json: bool) -> None:
        self._as_json = as_json
        self._figures: list[Figure] = []
        self._command = shlex.join(["python", f"benchmarks/{program}", *sys.argv[1:]])
        self.line(self._command)

    def line(self, text: str) -> None:
        """A remark; with --json it goes where errors go."""
        print(text, file=sys.stderr if self._as_json else sys.stdout, flush=True)

    def figure(
        self, name: str, value: float, unit: str = "", least: float | None = None, most: float | None = None
    ) -> None:
        self._figures.append(Figure(name, value, unit, least, most))
        self.line(str(self._figures[-1]))

    def finish(self) -> int:
        """The exit code: 1 if a figure misses what is asked of it."""
        missed = [figure.name for figure in self._figures if not figure.met]
        if self._as_json:
            figures = [{**asdict(figure), "met": figure.met} for figure in self._figures]
            document = {"command": self._command, "cores": os.cpu_count(), "figures": figures}
            print(json.dumps(document, indent=2))
        self.line(
            f"{len(self._figures)} figures, {len(missed)} missed{': ' if missed else ''}{', '.join(missed)}"
        )
        return 1 if missed else 0


def parser(description: str | None) -> argparse.ArgumentParser:
    """With what all of these benchmarks know."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--json", action="store_true", help="print the figures as JSON")
    return result


def timed(work: Callable[[], Answer], repeat: int = 1) -> tuple[Answer, float]:
    """The last answer, and the least seconds of `repeat` runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - start)
    return answer, best


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, int(part * len(ordered) + 0.999999) - 1))]
