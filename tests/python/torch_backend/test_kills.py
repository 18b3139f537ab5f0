"""A rank is killed at a random moment: every other one raises in time and names it."""

import json
import os
import random
import re
import signal
import threading
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import ranks
import square
import torch
from square.errors import SquareError
from square.run import namespaces
from square.run.ranks import Ranks
from square.run.sites import Sites
from torch import distributed as dist

TIMEOUT_SECONDS = 6.0
# The project's promise: the timeout, then at most a second; and what a loaded machine adds.
SLACK_SECONDS = 10.0
LATEST_KILL_SECONDS = 1.2
LARGEST_BYTES = 1_000_000
# Nobody calls for longer, so a run in which nothing is noticed ends, and fails.
CALLING_SECONDS = LATEST_KILL_SECONDS + TIMEOUT_SECONDS + SLACK_SECONDS


@dataclass(frozen=True)
class Run:
    """What a seed makes of it. Ranks with the same name in `nodes` share a node."""

    seed: int
    nodes: list[str]
    victim: int
    kill_after_seconds: float
    is_store_in_rank_0: bool

    @classmethod
    def draw(cls, seed: int) -> "Run":
        choose = random.Random(seed)
        size = choose.randint(3, 5)
        one_each = [f"site{rank}" for rank in range(size)]
        shared = [f"site{choose.randrange(2)}" for _ in range(size)]
        nodes = choose.choice([one_each, shared, ["site0"] * size])
        # The store and the controller live with rank 0, and its node is a gateway where others share it.
        victim = choose.choice([0, choose.randrange(size)])
        return cls(seed, nodes, victim, choose.uniform(0, LATEST_KILL_SECONDS), choose.random() < 0.7)


def call_anything(choose: random.Random, rank: int, size: int, pair: Any) -> Any:
    """One operation, the same at all ranks whose `choose` has the same state: it, or a Work of it."""
    count = choose.choice([0, 1, choose.randint(1, 1000), choose.randint(1, LARGEST_BYTES // 4)])
    share = count // size
    one, other = choose.sample(range(size), 2)
    is_async = choose.random() < 0.4
    full, part = torch.ones(share * size), torch.ones(share)
    parts = [torch.ones(share) for _ in range(size)]
    at_one = parts if rank == one else None
    kind = choose.randrange(12)
    if kind == 0:
        return dist.all_reduce(full, async_op=is_async)
    if kind == 1:
        return dist.broadcast(full, one, async_op=is_async)
    if kind == 2:
        return dist.all_gather_into_tensor(full, part, async_op=is_async)
    if kind == 3:
        return dist.reduce_scatter_tensor(part, full, async_op=is_async)
    if kind == 4:
        return dist.all_to_all_single(torch.empty_like(full), full, async_op=is_async)
    if kind == 5:
        return dist.reduce(full, one, async_op=is_async)
    if kind == 6:
        return dist.gather(part, at_one, dst=one, async_op=is_async)
    if kind == 7:
        return dist.scatter(part, at_one, src=one, async_op=is_async)
    if kind == 8:
        return dist.barrier(async_op=is_async)
    if kind == 9:
        return dist.all_gather(parts, part, async_op=is_async)
    if kind == 10:
        return dist.all_reduce(full, group=pair, async_op=is_async) if rank < 2 else None
    if rank == one:
        dist.send(full, other)
    elif rank == other:
        dist.recv(full, one)
    return None


def die_later(seconds: float, file: Path) -> None:
    def die() -> None:
        file.write_text(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Timer(seconds, die).start()


def meet(rank: int, size: int, run: Run, folder: Path) -> None:
    limit = timedelta(seconds=TIMEOUT_SECONDS)
    store: Any = None
    if not run.is_store_in_rank_0:
        store = dist.FileStore(str(folder / "store"), size)
    elif rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, size, is_master=True, timeout=limit, wait_for_workers=False)
        (folder / "port.new").write_text(str(store.port))
        (folder / "port.new").rename(folder / "port")
    else:
        while not (folder / "port").exists():
            time.sleep(0.01)
        store = dist.TCPStore("127.0.0.1", int((folder / "port").read_text()), size, timeout=limit)
    dist.init_process_group("square", store=store, rank=rank, world_size=size, timeout=limit)


def wait_for_others(rank: int, size: int, victim: int, folder: Path) -> None:
    """Who ends its process before all have raised is gone, too, and rightly named."""
    (folder / f"raised-{rank}").touch()
    others = [folder / f"raised-{other}" for other in range(size) if other != victim]
    end = time.monotonic() + TIMEOUT_SECONDS + SLACK_SECONDS
    while time.monotonic() < end and not all(file.exists() for file in others):
        time.sleep(0.02)


def call_until_it_fails(rank: int, size: int, drawn: dict[str, Any], folder: str) -> dict[str, Any]:
    run = Run(**drawn)
    meet(rank, size, run, Path(folder))
    # One of them may have raised already, and never call what the other waits in.
    pair = dist.new_group([0, 1], timeout=timedelta(seconds=TIMEOUT_SECONDS))
    if rank == run.victim:
        die_later(run.kill_after_seconds, Path(folder, "killed"))
    choose = random.Random(run.seed)
    end = time.monotonic() + CALLING_SECONDS
    works: list[Any] = []
    operations = 0
    while time.monotonic() < end:
        try:
            works.append(call_anything(choose, rank, size, pair))
            operations += 1
            if len(works) > 5:
                for work in works:
                    if work is not None:
                        work.wait()
                works.clear()
        except dist.DistBackendError as error:
            raised = time.monotonic()
            wait_for_others(rank, size, run.victim, Path(folder))
            return {"raised": raised, "text": str(error), "operations": operations}
    return {"raised": None, "text": "", "operations": operations}


def named(text: str) -> list[int]:
    """The ranks that an error says are gone."""
    found = re.search(r"; gone: (.*)$", text)
    return [int(rank) for rank in re.findall(r'rank (\d+) on node "', found.group(1))] if found else []


def judge(seed: int, folder: Path) -> dict[str, Any]:
    """Runs it, and says of every survivor how late it raised and whether it named the dead rank only."""
    run = Run.draw(seed)
    size = len(run.nodes)
    names = [{"SQUARE_NODE": node} for node in run.nodes]
    results = ranks.run(
        call_until_it_fails,
        size,
        asdict(run),
        str(folder),
        backend=None,
        environments=names,
        expect_deaths=True,
    )
    killed = float((folder / "killed").read_text())
    survivors = {}
    for rank, result in enumerate(results):
        if rank != run.victim:
            survivors[rank] = result and {**result, "late": result["raised"] and result["raised"] - killed}
    return {"run": asdict(run), "survivors": survivors}


@pytest.mark.parametrize("number", range(4))
def test_a_killed_rank_is_named_in_time(seed: int, number: int, tmp_path: Path) -> None:
    check(judge(seed + number, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("number", range(50))
def test_many_killed_ranks_are_named_in_time(seed: int, number: int, tmp_path: Path) -> None:
    check(judge(seed + number, tmp_path))


def check(verdict: dict[str, Any]) -> None:
    said = json.dumps(verdict, indent=1)
    for survivor in verdict["survivors"].values():
        assert survivor is not None, said
        assert survivor["raised"] is not None, said
        assert survivor["late"] < TIMEOUT_SECONDS + SLACK_SECONDS, said
        assert named(survivor["text"]) == [verdict["run"]["victim"]], said


def come_without_one(rank: int, size: int, folder: str) -> str:
    if rank == 1:
        os._exit(0)
    store = dist.FileStore(f"{folder}/store", size)
    with pytest.raises(RuntimeError) as raised:
        dist.init_process_group(
            "square", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=2)
        )
    return str(raised.value)


def test_a_rank_that_never_comes_is_named(tmp_path: Path) -> None:
    texts = ranks.run(come_without_one, 3, str(tmp_path), backend=None, expect_deaths=True)
    assert "rank 1 has not come" in texts[0]
    assert "rank 1 has not come" in texts[2]


SITES = ["a", "b", "b", "c"]
DIE_OR_SAY = """
import os, pathlib, signal, sys, time
from datetime import timedelta
import torch
from torch import distributed as dist

victim, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
dist.init_process_group("square", timeout=timedelta(seconds=8))
rank = dist.get_rank()
tensor = torch.ones(10_000)
dist.all_reduce(tensor)
(folder / f"came-{rank}").touch()
if rank == victim:
    while len(list(folder.glob("came-*"))) < dist.get_world_size():
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 1)
except dist.DistBackendError as error:
    (folder / f"said-{rank}").write_text(str(error))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("victim", [0, 2, *(pytest.param(rank, marks=pytest.mark.long) for rank in (1, 3))])
def test_a_rank_of_another_host_is_named(victim: int, tmp_path: Path) -> None:
    """Every site is a network of its own, so nobody sees the processes of another."""
    try:
        namespaces.check_possible()
        namespaces.Namespace().close()
    except SquareError as error:
        pytest.skip(str(error))
    script = tmp_path / "script.py"
    script.write_text(DIE_OR_SAY)
    command = [str(script), str(victim), str(tmp_path)]
    with Sites(square.Topology.full_mesh(["a", "b", "c"])) as sites, Ranks(sites, SITES, command) as job:
        for rank, process in enumerate(job.processes):
            assert process.wait(ranks.SECONDS) == (-signal.SIGKILL if rank == victim else 0)
    for rank in {0, 1, 2, 3} - {victim}:
        text = (tmp_path / f"said-{rank}").read_text()
        print(text)
        assert named(text) == [victim], text
