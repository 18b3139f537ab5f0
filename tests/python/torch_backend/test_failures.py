"""Everything in torch that waits for an operation raises DistBackendError, which names the gone rank."""

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import failing_loops
import pytest
import ranks
import square.torch
import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

SIZE = 4
TIMEOUT_SECONDS = 4.0
# A second after the timeout, a second to learn who is gone, and what a loaded machine adds.
SLACK_SECONDS = 10.0
# A rank that is stopped stays so for this long after the others' timeout. In a monitored barrier rank 0 has
# twice the time.
STOPPED_BEYOND_SECONDS = 1.0 + TIMEOUT_SECONDS
SETTLING_STEPS = 3
# Nobody trains for longer, so a run in which nothing fails ends, and is seen.
LONGEST_LOOP_SECONDS = 60.0
LATEST_FAULT_SECONDS = 0.3
MISMATCHED_FLOATS = 7777
FAULTS = ["kill", "stop", "mismatch", "abort", "shutdown"]


def fault_later(fault: str, seconds: float, folder: Path) -> None:
    """Kills, stops or aborts this process from a thread, in the middle of whatever it does then."""

    def happen() -> None:
        (folder / "fault").write_text(str(time.monotonic()))
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "stop":
            stopped = TIMEOUT_SECONDS + STOPPED_BEYOND_SECONDS
            subprocess.Popen(["sh", "-c", f"sleep {stopped}; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        if fault == "abort":
            # Some loops use subgroups alone.
            groups: list[Any] = list(c10d._world.pg_map)
            for group in groups:
                group.abort()

    threading.Timer(seconds, happen).start()


def fault_now(fault: str, folder: Path) -> None:
    (folder / "fault").write_text(str(time.monotonic()))
    if fault == "mismatch":
        dist.all_reduce(torch.ones(MISMATCHED_FLOATS))
    if fault == "shutdown":
        dist.destroy_process_group()
        raise RuntimeError("it left")


def wait_for_others(rank: int, folder: Path, others: list[int]) -> None:
    """A rank that ends its process before all have raised is gone, too, and rightly named."""
    (folder / f"raised-{rank}").touch()
    end = time.monotonic() + TIMEOUT_SECONDS + SLACK_SECONDS
    while time.monotonic() < end and not all((folder / f"raised-{other}").exists() for other in others):
        time.sleep(0.02)


def train_until_it_fails(
    rank: int, size: int, loop: str, fault: str, victim: int, seconds: float, at: str
) -> dict[str, Any] | None:
    folder = Path(at)
    store = dist.FileStore(str(folder / "store"), size)
    # Groups that torch makes for itself, too.
    limit = c10d.default_pg_timeout = timedelta(seconds=TIMEOUT_SECONDS)
    dist.init_process_group("square", store=store, rank=rank, world_size=size, timeout=limit)
    steps = failing_loops.BY_NAME[loop](rank, size)
    end = time.monotonic() + LONGEST_LOOP_SECONDS
    done = 0
    try:
        while time.monotonic() < end:
            if rank == victim and done == SETTLING_STEPS:
                if fault in ("mismatch", "shutdown"):
                    fault_now(fault, folder)
                else:
                    fault_later(fault, seconds, folder)
            next(steps)
            done += 1
    except Exception as error:
        raised = time.monotonic()
        kind, text = type(error).__name__, str(error)
    else:
        return None
    wait_for_others(rank, folder, [other for other in range(size) if other != victim or fault != "kill"])
    went_on = None
    if fault == "kill" and rank != victim:
        group = square.torch.shrink(timeout=limit + timedelta(seconds=SLACK_SECONDS))
        summed = torch.ones(100)
        dist.all_reduce(summed)
        went_on = [group.size(), summed[0].item()]
    return {"raised": raised, "kind": kind, "text": text, "went_on": went_on}


def judge(loop: str, fault: str, seed: int, folder: Path) -> None:
    choose = random.Random(f"{seed} {loop} {fault}")
    victim, seconds = choose.randrange(SIZE), choose.uniform(0, LATEST_FAULT_SECONDS)
    results = ranks.run(
        train_until_it_fails,
        SIZE,
        loop,
        fault,
        victim,
        seconds,
        str(folder),
        backend=None,
        environments=[{"SQUARE_NODE": f"site{rank}"} for rank in range(SIZE)],
        expect_deaths=fault == "kill",
    )
    said = json.dumps({"loop": loop, "fault": fault, "victim": victim, "results": results}, indent=1)
    happened = float((folder / "fault").read_text())
    for rank, result in enumerate(results):
        if rank == victim and fault in ("kill", "shutdown"):
            continue
        assert result is not None, said
        assert result["kind"] == "DistBackendError", said
        assert result["raised"] - happened < TIMEOUT_SECONDS + SLACK_SECONDS, said
        gone = re.findall(r'rank \d+ on node "(\w+)"', result["text"].partition("; gone: ")[2])
        if fault == "kill":
            assert gone == [f"site{victim}"], said
            assert result["went_on"] == [SIZE - 1, SIZE - 1], said
        elif fault != "shutdown":
            assert not gone, said


@pytest.mark.parametrize(
    ("loop", "fault"),
    [
        ("ddp", "kill"),
        ("ddp", "stop"),
        ("ddp", "mismatch"),
        ("ddp_power_sgd_hook", "abort"),
        ("fsdp2", "kill"),
        ("pipeline_1f1b", "abort"),
        ("compiled", "kill"),
    ],
)
def test_a_failure_raises(loop: str, fault: str, seed: int, tmp_path: Path) -> None:
    judge(loop, fault, seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("loop", failing_loops.BY_NAME)
def test_every_failure_raises(loop: str, fault: str, seed: int, tmp_path: Path) -> None:
    judge(loop, fault, seed, tmp_path)
