"""What torch and others do for a backend called "gloo" alone works here, too."""

import warnings
from datetime import timedelta

import pytest
import ranks
import torch
from torch import distributed as dist

# As a script does it that imports names: before there is any group.
from torch.distributed import monitored_barrier
from torch.distributed._shard import sharded_tensor
from torch.distributed._shard.sharding_spec import ChunkShardingSpec
from torch.distributed.nn import functional

SIZE = 2


def meet(rank: int) -> None:
    monitored_barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=10), wait_all_ranks=True)
    dist.monitored_barrier(timeout=5.0)
    by_name = dist.new_group(backend="gloo")
    dist.monitored_barrier(by_name)
    assert dist.get_backend(by_name) == "gloo"
    alone = dist.new_group([0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rank 1 is not in the group
        dist.monitored_barrier(alone)
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(seconds=0.2))


def differentiate(rank: int, size: int) -> None:
    numbers = torch.arange(4.0, requires_grad=True)
    halves = functional.all_to_all([torch.empty(2) for _ in range(size)], list(numbers.split(2)))
    gathered = functional.all_gather(numbers * 2)
    total = functional.all_reduce(numbers * (rank + 1))
    part = functional.reduce_scatter(torch.empty(2), [numbers[:2] * 1, numbers[2:] * 3])
    (sum(half.sum() for half in halves) + sum(map(torch.sum, gathered)) + total.sum() + part.sum()).backward()
    # What each of the four gives, from all ranks' losses together.
    expected = torch.full((4,), 1.0 + 2 * size + (rank + 1) * size) + torch.tensor([1.0, 1, 3, 3])
    assert torch.equal(numbers.grad, expected)


def gather_shards(rank: int) -> None:
    layout = ChunkShardingSpec(dim=0, placements=["rank:0/cpu", "rank:1/cpu"])
    tensor = sharded_tensor.full(layout, (4, 3), 7.0)
    whole = torch.empty(4, 3) if rank == 0 else None
    tensor.gather(0, whole)
    assert whole is None or (whole == 7).all()


def write_inference_tensors(rank: int, size: int) -> None:
    """Lightning validates in this mode, but for Gloo."""
    with torch.inference_mode():
        wide = torch.full((6, 8), float(rank))
        total = torch.full((4,), rank)
        works = [
            dist.all_reduce(wide.t(), async_op=True),
            dist.all_reduce(total, dist.ReduceOp.AVG, async_op=True),
        ]
    # Another thread, or this one outside of the mode, ends them.
    works[0].get_future().wait()
    works[1].wait()
    assert (wide == sum(range(size))).all()
    assert total.tolist() == [sum(range(size)) // size] * 4


def set_timeout(rank: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1))
    if rank == 0:
        with pytest.raises(dist.DistBackendError):
            dist.barrier()


def use_all(rank: int, size: int) -> None:
    meet(rank)
    differentiate(rank, size)
    if not torch.cuda.is_available():  # which torch would take
        gather_shards(rank)
    assert dist.distributed_c10d._get_object_coll_device() == "cpu"
    write_inference_tensors(rank, size)
    set_timeout(rank)


def test_what_torch_does_for_gloo_alone() -> None:
    ranks.run(use_all, SIZE, environment={"GLOO_SOCKET_IFNAME": "lo"})
