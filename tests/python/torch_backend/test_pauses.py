"""Processes of a job are stopped for a while and go on: no operation fails, and all of them are right."""

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from torch import distributed as dist

FLOATS = 1_000_000
# Before the first pause all ranks are connected, and after the last one all have caught up.
QUIET_SECONDS = 1.0
# Ranks of one name share a node, which is a gateway's in the process of the first of them.
SITES = ["a", "b", "c", "d", "e", "f", "f"]


def sum_until_told(rank: int, size: int, folder: str) -> list[list[float]]:
    """When each operation began, and how long it took."""
    Path(folder, f"pid-{rank}.new").write_text(str(os.getpid()))
    tensor, is_over = torch.zeros(FLOATS), torch.zeros(1)
    took = []
    step = 0
    while not is_over[0]:
        tensor.fill_(rank + step)
        is_over[0] = rank == 0 and Path(folder, "over").exists()
        for summed in (tensor, is_over):
            begun = time.monotonic()
            dist.all_reduce(summed)
            took.append([begun, time.monotonic() - begun])
        assert torch.equal(tensor, torch.full((FLOATS,), float(size * (size - 1) // 2 + size * step)))
        if step == 0:
            Path(folder, f"pid-{rank}.new").rename(Path(folder, f"pid-{rank}"))
        step += 1
    return took


class Pauses(threading.Thread):
    """Stops one process at a time, at random, and lets it go on."""

    def __init__(self, folder: Path, size: int, count: int, seed: int) -> None:
        super().__init__()
        self._folder, self._size, self._count = folder, size, count
        self._chance = random.Random(seed)
        self.taken: list[tuple[float, float, int]] = []

    def run(self) -> None:
        files = [self._folder / f"pid-{rank}" for rank in range(self._size)]
        while not all(file.exists() for file in files):
            time.sleep(0.05)
        for number in range(self._count):
            # The last one is at another one's gateway.
            rank = self._size - 1 if number == 0 else self._chance.randrange(self._size)
            seconds = self._chance.uniform(0.5, 8)
            process = int(files[rank].read_text())
            begun = time.monotonic()
            os.kill(process, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(process, signal.SIGCONT)
            self.taken.append((begun, seconds, rank))
            time.sleep(self._chance.uniform(QUIET_SECONDS, 2 * QUIET_SECONDS))
        (self._folder / "over").touch()


def check_pauses(folder: Path, count: int, seed: int) -> None:
    pauses = Pauses(folder, len(SITES), count, seed)
    pauses.start()
    took: list[Any] = ranks.run(
        sum_until_told, len(SITES), str(folder), environments=[{"SQUARE_NODE": site} for site in SITES]
    )
    pauses.join()
    all_took = [(begun, begun + seconds) for mine in took for begun, seconds in mine]
    own = sorted(end - begun for begun, end in all_took)[3 * len(all_took) // 4]  # of the larger ones

    def moving(begun: float, end: float) -> float:
        stopped = [min(end, start + pause) - max(begun, start) for start, pause, _ in pauses.taken]
        return end - begun - sum(max(0.0, one) for one in stopped)

    for start, pause, rank in pauses.taken:
        hit = [moving(begun, end) for begun, end in all_took if begun < start + pause and end > start]
        print(f"rank {rank} for {pause:.2f} s: {max(hit) - own:.2f} s more than that and {own:.2f} s")
    assert len(pauses.taken) == count


# Two pauses of up to 8 s each.
def test_paused_processes_fail_no_operation(tmp_path: Path, seed: int) -> None:
    check_pauses(tmp_path, 2, seed)


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_many_paused_processes_fail_no_operation(tmp_path: Path, seed: int, number: int) -> None:
    check_pauses(tmp_path, 10, seed + number)
