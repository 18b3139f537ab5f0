"""Groups of torch.distributed that shrink when ranks are killed, and grow."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import ranks
import square.torch
import torch
from torch import distributed as dist

REPOSITORY = Path(__file__).resolve().parents[3]
LIMIT = timedelta(seconds=30)


def total(group: Any = None) -> float:
    data = torch.full((1000,), float(dist.get_rank(group) + 1))
    dist.all_reduce(data, group=group)
    return float(data[0])


def be_killed_in_turn(rank: int, size: int, victims: list[int], seconds: float) -> Any:
    """Ranks of the default group at first; the others go on without them."""
    said = []
    total()
    for victim in victims:
        if rank == victim:
            time.sleep(0.3)  # the others have what it sent
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(dist.DistBackendError) as failure:
            dist.all_reduce(torch.ones(1000))
        assert time.monotonic() - begun < seconds
        group = square.torch.shrink(timeout=LIMIT)
        assert group is dist.group.WORLD
        said.append([str(failure.value), dist.get_rank(), dist.get_world_size(), total()])
        # Groups are made of it, and it has a store.
        pair = dist.new_group([0, 1])
        if dist.get_rank() < 2:
            assert total(pair) == 3.0
    return said


@pytest.mark.parametrize("is_one_node", [False, True], ids=["nodes", "attached"])
def test_survivors_go_on_without_rank_0_and_its_store(is_one_node: bool) -> None:
    nodes = [{"SQUARE_NODE": "site" if is_one_node else f"site{rank}"} for rank in range(4)]
    victims = [0, 2]
    results = ranks.run(be_killed_in_turn, 4, victims, 15.0, environments=nodes, expect_deaths=True)
    left = [rank for rank in range(4) if rank not in victims]
    first = [rank for rank in range(4) if rank != victims[0]]
    for rank in left:
        (text, new_rank, size, sum_of), (_, last_rank, last_size, last_sum) = results[rank]
        assert f"rank {victims[0]}" in text
        assert (new_rank, size, sum_of) == (first.index(rank), 3, 6.0)
        assert (last_rank, last_size, last_sum) == (left.index(rank), 2, 3.0)


def kill_self(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def be_killed_meanwhile(rank: int, size: int, victim: int, module: str, step: str) -> Any:
    """Rank 0 dies first, then `victim`, who has a part in the next group already."""
    total()
    if rank == 0:
        time.sleep(0.3)  # the others have what it sent
        kill_self()
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1000))
    if rank == victim:
        setattr(sys.modules[module], step, kill_self)
    begun = time.monotonic()
    square.torch.shrink(timeout=LIMIT)
    assert time.monotonic() - begun < LIMIT.total_seconds()
    assert total(dist.new_group([0, 1])) == 3.0  # by the store
    return [dist.get_rank(), dist.get_world_size(), total()]


@pytest.mark.parametrize(
    ("is_one_node", "victim", "step"),
    [
        (False, 1, "calls.meet_again"),
        (False, 2, "regrouping._common_store"),
        (True, 1, "regrouping._common_store"),
        (True, 2, "calls.meet_again"),
    ],
    ids=["whose store it is", "node", "whose node it is", "attached"],
)
def test_another_rank_dies_while_the_survivors_regroup(is_one_node: bool, victim: int, step: str) -> None:
    nodes = [{"SQUARE_NODE": "site" if is_one_node else f"site{rank}"} for rank in range(4)]
    module, _, name = f"square.torch.{step}".rpartition(".")
    results = ranks.run(be_killed_meanwhile, 4, victim, module, name, environments=nodes, expect_deaths=True)
    left = [rank for rank in (1, 2, 3) if rank != victim]
    assert [results[rank] for rank in left] == [[0, 2, 3.0], [1, 2, 3.0]]


def fail_at_first(rank: int, size: int, seconds: float) -> Any:
    total()
    if rank == 2:
        time.sleep(0.3)
        kill_self()
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1000))
    module: Any = sys.modules["square.torch.regrouping"]
    works = module._common_store
    if rank == 3:
        # Whoever it is that has it cannot be reached.
        module._common_store = lambda *_: (_ for _ in ()).throw(RuntimeError("no way to the store"))
    begun = time.monotonic()
    with pytest.raises(dist.DistBackendError) as failure:
        square.torch.shrink(timeout=timedelta(seconds=seconds))
    took = time.monotonic() - begun
    module._common_store = works
    with pytest.raises(dist.DistBackendError, match="shrink"):
        total()
    square.torch.shrink(timeout=LIMIT)
    return [took, str(failure.value), dist.get_rank(), dist.get_world_size(), total()]


def test_shrink_ends_in_its_time_and_may_be_called_again() -> None:
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(4)]
    results = ranks.run(fail_at_first, 4, 4.0, environments=nodes, expect_deaths=True)
    left = [results[rank] for rank in (0, 1, 3)]
    assert [one[2:] for one in left] == [[0, 3, 6.0], [1, 3, 6.0], [2, 3, 6.0]]
    # And what it takes to learn who is gone.
    assert all(one[0] < 4.0 + 4.0 for one in left)
    assert all("shrink" in one[1] for one in left)


def shrink_a_subgroup(rank: int, size: int) -> Any:
    group = dist.new_group([1, 2, 3])
    if rank == 0:
        dist.barrier()
        return None
    if rank == 2:
        # Leaves the group without the others.
        group.abort()
        dist.barrier()
        return None
    smaller = square.torch.shrink(group, timeout=LIMIT)
    data = torch.full((10,), float(rank))
    dist.broadcast(data, src=3, group=smaller)
    assert dist.get_process_group_ranks(smaller) == [1, 3]
    sum_of = total(smaller)
    dist.barrier()
    return [float(data[0]), smaller.rank(), smaller.size(), sum_of]


def test_a_subgroup_keeps_the_names_of_its_ranks() -> None:
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(4)]
    results = ranks.run(shrink_a_subgroup, 4, environments=nodes)
    assert results == [None, [3.0, 0, 2, 3.0], None, [3.0, 1, 2, 3.0]]


def test_the_example() -> None:
    program = REPOSITORY / "examples" / "torch_shrink.py"
    command = [sys.executable, "-P", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ranks.SECONDS)
    assert result.returncode == 0, result.stderr
    assert "3 ranks are left" in result.stdout


JOINER = """
import sys
from datetime import timedelta
import torch
from torch import distributed as dist
import square.torch

square.torch.join(sys.argv[1], timeout=timedelta(seconds=30))
data = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(data)
print(dist.get_rank(), dist.get_world_size(), float(data[0]))
dist.destroy_process_group()
"""


def take_in_another(rank: int, size: int) -> Any:
    total()
    process: Any = None
    if rank == 0:
        command = [sys.executable, "-c", JOINER, square.torch.invitation()]
        place = {**os.environ, "SQUARE_NODE": "another"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=place)
    square.torch.grow(1, timeout=LIMIT)
    sum_of = total()
    result = [dist.get_rank(), dist.get_world_size(), sum_of]
    dist.destroy_process_group()
    return [*result, process.communicate(timeout=30)[0].split() if process else None]


def test_another_process_joins() -> None:
    nodes = [{"SQUARE_NODE": f"site{rank}"} for rank in range(2)]
    results = ranks.run(take_in_another, 2, environments=nodes)
    assert results == [[0, 3, 6.0, ["2", "3", "6.0"]], [1, 3, 6.0, None]]


def call_another_backend(rank: int, size: int, folder: str) -> None:
    store = dist.FileStore(str(Path(folder) / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    with pytest.raises(TypeError, match="backend square"):
        square.torch.shrink()


def test_a_group_of_another_backend_is_refused(tmp_path: Path) -> None:
    ranks.run(call_another_backend, 1, str(tmp_path), backend=None)
