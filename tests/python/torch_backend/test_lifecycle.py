"""From import to exit: nothing breaks, nothing stays, and whoever is missing is named."""

import importlib.util
import itertools
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import ranks
import square
import torch
from square.torch.site import SITES
from torch import distributed as dist

SHORT = timedelta(seconds=2)
# The project's promise: a timeout, then at most a second; and what a loaded machine adds.
SLACK_SECONDS = 10


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


ORDERS = list(itertools.permutations(["torch", "square", "grpc"]))


@pytest.mark.parametrize("order", [*ORDERS, ("square.torch", "torch"), ("torch", "square.torch", "square")])
def test_import_order(order: tuple[str, ...]) -> None:
    """With grpcio where it is installed: it brings a gRPC of its own."""
    has_grpc = importlib.util.find_spec("grpc") is not None
    imports = [name for name in order if name != "grpc" or has_grpc]
    code = (
        f"import {', '.join(imports)}; import torch.distributed as d; assert 'SQUARE' in d.Backend._plugins"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_torch_knows_the_backend_without_an_import_of_square() -> None:
    done = python(
        "import sys, torch.distributed as d\n"
        "assert d.is_backend_available('square') and 'square' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stderr


def test_square_does_not_import_torch() -> None:
    done = python("import sys, square; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_a_broken_square_does_not_break_torch(tmp_path: Path) -> None:
    (tmp_path / "square").mkdir()
    (tmp_path / "square" / "__init__.py").write_text("raise ImportError('libgrpc is not there')\n")
    done = python(
        "import torch, torch.distributed as d\n"
        "store = d.HashStore()\n"
        "try: d.init_process_group('square', store=store, rank=0, world_size=1)\n"
        "except ImportError as error: print(error)\n",
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "libgrpc is not there" in done.stdout


def resources() -> dict[str, int]:
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
    }


def come_and_go(rank: int, size: int, cycles: int, folder: str) -> dict[str, int]:
    """How much more there is of everything after many cycles than after a few."""
    warm_cycles = 5
    before = resources()
    for cycle in range(cycles + warm_cycles):
        store = dist.FileStore(f"{folder}/{cycle}", size)
        dist.init_process_group("square", store=store, rank=rank, world_size=size)
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        assert tensor[0] == size
        dist.destroy_process_group()
        if cycle == warm_cycles - 1:
            before = resources()
    deadline = time.monotonic() + SLACK_SECONDS
    while any(count > before[kind] for kind, count in resources().items()) and time.monotonic() < deadline:
        time.sleep(0.05)  # the last sockets close by themselves
    return {kind: count - before[kind] for kind, count in resources().items()}


@pytest.mark.parametrize("cycles", [15, pytest.param(100, marks=pytest.mark.long)])
def test_groups_leave_nothing_behind(tmp_path: Path, cycles: int) -> None:
    for more in ranks.run(come_and_go, 2, cycles, str(tmp_path), backend=None):
        assert more["threads"] <= 0
        assert more["files"] <= 0


def sub_groups_come_and_go(rank: int, size: int, cycles: int) -> int:
    """How many collectives the overlay still knows of when all sub-groups are destroyed."""
    for _ in range(cycles):
        pair = dist.new_group([0, 1])
        tensor = torch.ones(10)
        dist.all_reduce(tensor, group=pair)
        assert tensor[0] == 2
        dist.destroy_process_group(pair)
    dist.barrier()
    host = next(iter(SITES._sites.values())).host
    if not isinstance(host, square.Node):
        return 0
    deadline = time.monotonic() + SLACK_SECONDS
    # One of the default group, and what the plan before the active one still knows.
    while host.statistics()["collectives"] > 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    return int(host.statistics()["collectives"])


def test_destroyed_groups_are_closed() -> None:
    for left in ranks.run(sub_groups_come_and_go, 2, 30):
        assert left <= 4


def come_again_to_the_same_store(rank: int, size: int, folder: str) -> None:
    store = dist.FileStore(f"{folder}/store", size)
    for _ in range(3):
        dist.init_process_group("square", store=store, rank=rank, world_size=size)
        dist.barrier()
        dist.destroy_process_group()


def test_a_store_may_be_used_again(tmp_path: Path) -> None:
    ranks.run(come_again_to_the_same_store, 3, str(tmp_path), backend=None)


def fork_late(rank: int, size: int) -> None:
    dist.barrier()
    running = dist.irecv(torch.empty(3), (rank + 1) % size, tag=9)
    child = os.fork()
    if child == 0:
        try:
            dist.barrier()
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # A child that touches nothing, and ends as any program does, is nobody's problem.
    child = os.fork()
    if child == 0:
        sys.exit(0)
    dist.isend(torch.ones(3), (rank - 1) % size, tag=9)
    running.wait()
    dist.barrier()


def test_a_forked_child_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    ranks.run(fork_late, 2)


def abort(rank: int, size: int) -> None:
    group = dist.group.WORLD
    receiving = dist.irecv(torch.empty(3), (rank + 1) % size)
    dist.barrier()
    group.monitored_barrier()  # by the store: nobody is in the barrier any more
    group.abort()
    with pytest.raises(RuntimeError, match=r"receive of group .* failed on rank"):
        receiving.wait()
    with pytest.raises(RuntimeError, match="cannot be used any more: it was aborted"):
        dist.all_reduce(torch.ones(3))


def test_after_abort_the_group_says_so() -> None:
    ranks.run(abort, 2)


def miss_a_call(rank: int, size: int) -> None:
    dist.barrier()
    group = dist.new_group(timeout=SHORT)
    if rank != 1:
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError, match=r"all_reduce .* Timed out on rank \d: DEADLINE"):
            dist.all_reduce(torch.ones(10), group=group)
        assert time.monotonic() - begin < SHORT.total_seconds() + SLACK_SECONDS
    dist.group.WORLD.monitored_barrier()  # by the store: until then all ranks are there


def test_a_timeout_ends_the_call() -> None:
    ranks.run(miss_a_call, 3)


def wait_shortly(rank: int, size: int) -> None:
    if rank == 0:
        tensor = torch.empty(1)
        work = dist.irecv(tensor, 1)
        with pytest.raises(RuntimeError, match="goes on"):
            work.wait(timedelta(seconds=0.2))
        dist.send(torch.ones(1), 1)
        work.wait()
        assert tensor.item() == 7
    else:
        dist.recv(torch.empty(1), 0)
        dist.send(torch.full((1,), 7.0), 0)


def test_a_wait_that_is_given_up_ends_nothing() -> None:
    ranks.run(wait_shortly, 2)


def die(rank: int, size: int) -> str:
    dist.barrier()
    dist.group.WORLD.monitored_barrier()  # by the store: nobody is in the barrier any more
    if rank == 1:
        os._exit(0)
    try:
        for _ in range(1000):
            dist.all_reduce(torch.ones(100_000))
    except dist.DistBackendError as error:
        return str(error)
    return "nothing was noticed"


@pytest.mark.parametrize("hosts", ["one host", "a host each"])
def test_a_dead_rank_is_noticed_at_once(hosts: str) -> None:
    names = [{"SQUARE_NODE": f"site{rank}"} for rank in range(3)] if hosts == "a host each" else None
    begin = time.monotonic()
    texts = ranks.run(die, 3, environments=names, expect_deaths=True)
    assert time.monotonic() - begin < 60
    culprit = "rank 1" if names is None else "site1"
    assert culprit in texts[0]
    assert culprit in texts[2]


def disagree(rank: int, size: int) -> str:
    with pytest.raises(dist.DistBackendError) as raised:
        dist.all_reduce(torch.ones(10 + rank))
    return str(raised.value)


def test_different_sizes_are_an_error_on_every_rank() -> None:
    for rank, text in enumerate(ranks.run(disagree, 2)):
        assert f"all_reduce of group '0' failed on rank {rank}" in text


def come_late(rank: int, size: int) -> None:
    group = dist.group.WORLD
    dist.barrier()
    group.monitored_barrier(timedelta(seconds=60))
    if rank == 0:
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier in 200 ms"):
            group.monitored_barrier(timedelta(seconds=0.2), wait_all_ranks=True)
    # The store told, so the group still works.
    dist.barrier()


def test_a_monitored_barrier_names_who_is_missing() -> None:
    ranks.run(come_late, 3)


def test_a_script_may_end_without_destroying_its_group(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, torch.distributed as d\n"
        "rank, size = int(sys.argv[1]), 2\n"
        f"store = d.FileStore({str(tmp_path / 'store')!r}, size)\n"
        "d.init_process_group('square', store=store, rank=rank, world_size=size)\n"
        "tensor = torch.ones(100000)\n"
        "d.all_reduce(tensor)\n"
        "assert tensor[5] == 2\n"
    )
    children = [subprocess.Popen([sys.executable, script, str(rank)]) for rank in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
