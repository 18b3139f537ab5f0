"""What people see while a run is on: bars on a terminal, a line now and then elsewhere."""

import math
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_SECONDS = 2.0


@dataclass(frozen=True)
class Expectation:
    """What a policy should do to one collective."""

    id: int
    tenant: str
    destinations: int
    planned_seconds: float


class Display(Protocol):
    """What the job tells whoever watches. Called from one thread."""

    def say(self, text: str) -> None: ...
    def begin(self, policy: str, collectives: list[Expectation], total_bytes: int) -> None: ...
    def update(self, elapsed: float, delivered_bytes: int, done: dict[int, int]) -> None:
        """``done``: by collective, the destinations that have everything."""

    def end(self) -> None: ...


class Silence:
    """Shows nothing."""

    def say(self, text: str) -> None:
        pass

    def begin(self, policy: str, collectives: list[Expectation], total_bytes: int) -> None:
        pass

    def update(self, elapsed: float, delivered_bytes: int, done: dict[int, int]) -> None:
        pass

    def end(self) -> None:
        pass


class Lines:
    """Plain lines, for logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._destinations = 0
        self._total_bytes = 0
        self._last = -math.inf

    def say(self, text: str) -> None:
        print(f"square: {text}", file=self._out, flush=True)

    def begin(self, policy: str, collectives: list[Expectation], total_bytes: int) -> None:
        self._destinations = sum(collective.destinations for collective in collectives)
        self._total_bytes = total_bytes
        planned = max((collective.planned_seconds for collective in collectives), default=0.0)
        self._last = time.monotonic()
        count = "1 collective" if len(collectives) == 1 else f"{len(collectives)} collectives"
        self.say(f"policy {policy}: {count}, planned to take {planned:.1f} s")

    def update(self, elapsed: float, delivered_bytes: int, done: dict[int, int]) -> None:
        if time.monotonic() - self._last < LINE_SECONDS:
            return
        self._last = time.monotonic()
        part = delivered_bytes / self._total_bytes if self._total_bytes else 1.0
        self.say(
            f"{elapsed:6.1f} s: {min(part, 1.0):4.0%} of {self._total_bytes / 1e6:.1f} MB delivered, "
            f"{sum(done.values())} of {self._destinations} destinations done"
        )

    def end(self) -> None:
        pass


class Bars:
    """A bar for all bytes, as delivered, and one a collective: time against the plan."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._bytes: TaskID | None = None
        self._tasks: dict[int, tuple[TaskID, Expectation]] = {}

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def begin(self, policy: str, collectives: list[Expectation], total_bytes: int) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._bytes = self._progress.add_task(f"[bold]{policy}[/]", total=max(total_bytes, 1), state="")
        self._tasks = {
            collective.id: (
                self._progress.add_task(
                    f"  {collective.id} {escape(collective.tenant)}",
                    total=max(collective.planned_seconds, 1e-9),
                    state="",
                ),
                collective,
            )
            for collective in collectives
        }
        self._progress.start()

    def update(self, elapsed: float, delivered_bytes: int, done: dict[int, int]) -> None:
        if self._progress is None or self._bytes is None:
            return
        self._progress.update(
            self._bytes, completed=delivered_bytes, state=f"{delivered_bytes / 1e6:.1f} MB delivered"
        )
        for collective, (task, expected) in self._tasks.items():
            finished = done.get(collective, 0)
            if finished == expected.destinations:
                self._progress.update(task, completed=expected.planned_seconds, state="done")
                continue
            self._progress.update(
                task,
                # Not full before it is done, however late it is.
                completed=min(max(elapsed, 0.0), 0.99 * expected.planned_seconds),
                state=f"{max(elapsed, 0.0):.0f} of {expected.planned_seconds:.0f} s planned, "
                f"{finished} of {expected.destinations} destinations done",
            )

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def display_for(out: TextIO, *, quiet: bool) -> Display:
    if quiet:
        return Silence()
    return Bars() if out.isatty() else Lines(out)
