"""Half an hour in which something is killed, stopped or started all the time: nothing stalls or grows."""

import itertools
import os
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import wait_until
from overlay_processes import Overlay, overlay

MEMBERS = [f"m{i}" for i in range(8)]
RELAYS = [f"r{i}" for i in range(4)]
DATA_BYTES = 100_000
MBPS = 50.0
CHURN_SECONDS = float(os.environ.get("SQUARE_CHURN_SECONDS", 30 * 60))
# An operation may wait for a member that is stopped; beyond that for so long.
STALL_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 3.0
END_SECONDS = 60.0
# Of a process that lives on: what allocators take and give back. Threads are those of no pool.
GROWTH = {"mib": 40.0, "threads": 1.0, "descriptors": 16.0}
# Threads of gRPC, by the names that the kernel shows: its pools grow under load, up to a size of their own,
# and not all of them shrink again.
PROCESSORS = os.cpu_count() or 1
POOLS = {
    "default-executo": 2 * PROCESSORS,
    "grpc_global_tim": 4 * PROCESSORS,
    "event_engine": 4 * PROCESSORS,
    "nexting_thread": max(2, PROCESSORS // 2),
}


@pytest.fixture
def twelve(tmp_path: Path) -> Iterator[Overlay]:
    mesh = dict.fromkeys(itertools.permutations([*MEMBERS, *RELAYS], 2), MBPS)
    with overlay(tmp_path, mesh, MEMBERS, RELAYS, is_stored=True) as running:
        yield running


class Churn:
    """Keeps one group of all members running; a member's death ends it, and the next one begins."""

    def __init__(self, overlay: Overlay, seed: int) -> None:
        self._overlay, self.chance = overlay, random.Random(seed)
        self._number = 0
        self.events: list[str] = []
        self.operations = 0
        self.longest = 0.0
        self._pauses: list[tuple[float, float]] = []
        self._uses: dict[str, list[tuple[int, dict[str, float]]]] = {}
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._overlay.begin(self.group, MEMBERS, DATA_BYTES)

    @property
    def group(self) -> str:
        return f"churn {self._number}"

    def _note_operations(self) -> None:
        done = self._overlay.operations(self.group)
        self.operations += len(done)
        for one in done:
            begun, seconds = one["begun"], one["seconds"]
            paused = sum(
                max(0.0, min(begun + seconds, end) - max(begun, start)) for start, end in self._pauses
            )
            self.longest = max(self.longest, seconds - paused)
            assert seconds - paused < STALL_SECONDS, (one, self.events[-10:])

    def _start_again(self, name: str) -> None:
        self._overlay.processes[name].kill()
        if name == "controller":
            self._overlay.start_controller()
        else:
            self._overlay.start(name).wait_for_line()

    def _kill_member(self, name: str) -> None:
        others = [member for member in MEMBERS if member != name]
        self._overlay.processes[name].kill()
        assert wait_until(
            lambda: all(self._overlay.end_of(other, self.group) for other in others), END_SECONDS
        ), self.events[-10:]
        for other in others:
            end = self._overlay.end_of(other, self.group)
            assert end is not None
            assert "over" in end or f'"{name}"' in end["error"], (end, self.events[-10:])
        self._note_operations()
        self._overlay.start(name).wait_for_line()
        self._begin()

    def _pause(self, name: str) -> None:
        begun = time.monotonic()
        self._overlay.processes[name].pause()
        time.sleep(self.chance.uniform(0.3, LONGEST_PAUSE_SECONDS))
        self._overlay.processes[name].go_on()
        self._pauses.append((begun, time.monotonic()))

    def step(self) -> None:
        kind = self.chance.choices(["member", "relay", "controller", "pause"], [1, 3, 1, 4])[0]
        name = {
            "member": self.chance.choice(MEMBERS),
            "relay": self.chance.choice(RELAYS),
            "controller": "controller",
            "pause": self.chance.choice([*MEMBERS, *RELAYS, "controller"]),
        }[kind]
        self.events.append(f"{time.monotonic():.2f} {kind} {name}")
        if kind == "member":
            self._kill_member(name)
        elif kind == "pause":
            self._pause(name)
        else:
            self._start_again(name)
        for member in MEMBERS:
            end = self._overlay.end_of(member, self.group)
            assert end is None, (member, end, self.events[-10:])
        self._note_uses()

    def _note_uses(self) -> None:
        for name, running in self._overlay.processes.items():
            uses = self._uses.setdefault(name, [])
            if uses and uses[0][0] != running.process.pid:
                uses.clear()
            threads = running.thread_names()
            over = {pool: threads[pool] for pool, most in POOLS.items() if threads[pool] > most}
            assert not over, (name, over, self.events[-10:])
            others = sum(count for thread, count in threads.items() if thread not in POOLS)
            uses.append((running.process.pid, running.use() | {"threads": float(others)}))

    def check_growth(self) -> None:
        """Of the processes that lived for long: the last tenth against the second one."""
        for name, uses in self._uses.items():
            tenth = len(uses) // 10
            if tenth < 5:
                continue
            for what, limit in GROWTH.items():
                early = statistics.median(use[what] for _, use in uses[tenth : 2 * tenth])
                late = statistics.median(use[what] for _, use in uses[-tenth:])
                threads = self._overlay.processes[name].thread_names()
                assert late - early < limit, (name, what, early, late, threads)

    def finish(self) -> None:
        ends = self._overlay.finish(self.group, MEMBERS, END_SECONDS)
        assert all(end and "over" in end for end in ends), (ends, self.events[-10:])
        self._note_operations()


@pytest.mark.long
@pytest.mark.timeout(CHURN_SECONDS + 300)
def test_churn(twelve: Overlay, seed: int) -> None:
    churn = Churn(twelve, seed)
    end = time.monotonic() + CHURN_SECONDS
    while time.monotonic() < end:
        time.sleep(churn.chance.uniform(0.5, 2.0))
        churn.step()
    churn.finish()
    churn.check_growth()
    print(f"{len(churn.events)} events, {churn.operations} operations, the longest {churn.longest:.2f} s")
