"""What a measurement cost: CPU seconds of this process and all under it, and whether the machine was full.

with Usage() as usage:
    ...
cost = Cost()
cost.add_usage(usage, gb_hops=6.0)
print(cost.line())
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Over this part of all processors' time, a run says what the machine could do, not what the program could.
FULL = 0.90
_TICKS = os.sysconf("SC_CLK_TCK")


def processors() -> tuple[float, float]:
    """Seconds that all processors were busy, and in all."""
    with open("/proc/stat", encoding="ascii") as stat:
        # user nice system idle iowait irq softirq steal; guests are in user
        times = [int(word) for word in stat.readline().split()[1:9]]
    total = sum(times) / _TICKS
    return total - (times[3] + times[4]) / _TICKS, total


def _processes() -> dict[int, tuple[int, float]]:
    """By process: its parent, and CPU seconds with those of its children that it has waited for."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    return found


def cpu_seconds() -> float:
    """Of this process and all that it started, directly or not, so far."""
    processes = _processes()
    children: dict[int, list[int]] = {}
    for process, (parent, _) in processes.items():
        children.setdefault(parent, []).append(process)
    total = 0.0
    rest = [os.getpid()]
    while rest:
        process = rest.pop()
        rest += children.get(process, [])
        total += processes[process][1] if process in processes else 0.0
    return total


@dataclass
class Usage:
    """Of the time inside ``with``, or since begin() and until end()."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    busy: float = 0.0  # part of the whole machine's processors, other work included

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        self._began = time.monotonic(), cpu_seconds(), *processors()

    def end(self) -> None:
        """Adds what went by since begin(): several such times make one usage."""
        began, cpu, busy, total = self._began
        now_busy, now_total = processors()
        seconds = time.monotonic() - began
        part = (now_busy - busy) / max(now_total - total, 1 / _TICKS)
        self.busy = (self.busy * self.seconds + part * seconds) / max(self.seconds + seconds, 1e-9)
        self.seconds += seconds
        self.cpu_seconds += cpu_seconds() - cpu

    @property
    def is_full(self) -> bool:
        return self.busy > FULL


@dataclass
class Cost:
    """Of several times, with what was carried meanwhile."""

    cpu_seconds: float = 0.0
    gb_hops: float = 0.0  # GB of payload times the links that each had to go over at least
    seconds: float = 0.0
    busy_seconds: float = 0.0  # seconds, each by the part of the machine that was busy

    def add(self, cpu_seconds: float, gb_hops: float, seconds: float, busy: float) -> None:
        self.cpu_seconds += cpu_seconds
        self.gb_hops += gb_hops
        self.seconds += seconds
        self.busy_seconds += busy * seconds

    def add_usage(self, usage: Usage, gb_hops: float) -> None:
        self.add(usage.cpu_seconds, gb_hops, usage.seconds, usage.busy)

    def figures(self) -> dict[str, float | bool]:
        busy = self.busy_seconds / max(self.seconds, 1e-9)
        return {
            "cpu_seconds_per_gb_and_hop": self.cpu_seconds / max(self.gb_hops, 1e-9),
            "machine_busy": busy,
            "machine_was_full": busy > FULL,
        }

    def line(self) -> str:
        return describe(self.figures())


def describe(figures: dict[str, float | bool]) -> str:
    """One line of Usage.figures()."""
    full = "   MACHINE FULL" if figures["machine_was_full"] else ""
    return (
        f"{figures['cpu_seconds_per_gb_and_hop']:.2f} CPU s for each GB and hop, "
        f"machine {figures['machine_busy'] * 100:.0f}% busy{full}"
    )
