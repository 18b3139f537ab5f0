"""Every call of torch.distributed on every type of element, against what one process computes."""

import functools
import time
from typing import Any

import pytest
import ranks
import torch
from torch import distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import _functional_collectives as functional

SIZE = 3
TYPES = ["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"]
COMPLEX = ["complex64", "complex128"]


def given(rank: int, count: int, dtype: str) -> torch.Tensor:
    """Small whole numbers, which every type adds exactly; the same for a rank wherever it is computed."""
    numbers = torch.arange(count) * 7 + 3 * rank
    if dtype == "bool":
        return numbers % (rank + 2) == 0
    if dtype.startswith("complex"):
        return torch.complex((numbers % 5).double(), (numbers % 3).double()).to(getattr(torch, dtype))
    return (numbers % 5 + 1).to(getattr(torch, dtype))


def combined(operation: str, parts: list[torch.Tensor]) -> torch.Tensor:
    functions: dict[str, Any] = {
        "SUM": torch.logical_or if parts[0].dtype == torch.bool else torch.add,
        "PRODUCT": torch.logical_and if parts[0].dtype == torch.bool else torch.mul,
        "MIN": torch.logical_and if parts[0].dtype == torch.bool else torch.minimum,
        "MAX": torch.logical_or if parts[0].dtype == torch.bool else torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }
    return functools.reduce(functions[operation], parts)


def operations(dtype: str) -> list[str]:
    if dtype.startswith("complex"):
        return ["SUM"]
    bitwise = [] if "float" in dtype else ["BAND", "BOR", "BXOR"]
    return ["SUM", "PRODUCT", "MIN", "MAX", *bitwise]


def reduce_everything(rank: int, size: int) -> None:
    count = 999
    for dtype in TYPES + COMPLEX:
        all_given = [given(r, count, dtype) for r in range(size)]
        for operation in operations(dtype):
            expected = combined(operation, all_given)
            kind = getattr(ReduceOp, operation)
            tensor = all_given[rank].clone()
            dist.all_reduce(tensor, kind)
            assert torch.equal(tensor, expected), (dtype, operation, "all_reduce")
            tensor = all_given[rank].clone()
            dist.reduce(tensor, 1, kind)
            assert torch.equal(tensor, expected if rank == 1 else all_given[rank]), (dtype, operation)
            output = torch.empty_like(tensor[: count // size])
            dist.reduce_scatter_tensor(output, all_given[rank].clone(), kind)
            assert torch.equal(output, expected.chunk(size)[rank]), (dtype, operation, "reduce_scatter")


def test_reductions_of_every_type() -> None:
    ranks.run(reduce_everything, SIZE)


def average_and_scale(rank: int, size: int) -> None:
    tensor = torch.full((10,), float(rank))
    dist.all_reduce(tensor, ReduceOp.AVG)
    assert torch.equal(tensor, torch.full((10,), (size - 1) / 2))
    factor = dist._make_nccl_premul_sum(0.5)
    tensor = torch.full((10,), float(rank))
    dist.all_reduce(tensor, factor)
    assert torch.equal(tensor, torch.full((10,), sum(range(size)) / 2))
    tensor = torch.full((10,), float(rank))
    dist.reduce(tensor, 0, factor)
    assert torch.equal(tensor, torch.full((10,), sum(range(size)) / 2.0 if rank == 0 else float(rank)))
    output = torch.empty(2)
    dist.reduce_scatter_tensor(output, torch.full((2 * size,), float(rank)), factor)
    assert torch.equal(output, torch.full((2,), sum(range(size)) / 2))

    # A factor that is a tensor does not decide the type.
    halves = torch.full((10,), float(rank), dtype=torch.float16)
    dist.all_reduce(halves, dist._make_nccl_premul_sum(torch.tensor([0.5])))
    assert torch.equal(halves, torch.full((10,), sum(range(size)) / 2, dtype=torch.float16))


def test_average_and_scaled_sum() -> None:
    ranks.run(average_and_scale, SIZE)


def whole_numbers(rank: int, dtype: str) -> list[int]:
    """Six that a sum over ranks carries out of the type, rounds and makes negative."""
    bits = torch.iinfo(getattr(torch, dtype)).bits
    if dtype.startswith("u"):
        return [0, rank, 7 * rank + 1, 2**bits - 1 - rank, 2 ** (bits - 1), 2**bits // 3 + 1]
    return [0, rank, -7 * rank - 1, 2 ** (bits - 1) - 1 - rank, -(2 ** (bits - 1)), -(2**bits) // 7 - 1]


def average_in_type(numbers: tuple[int, ...], dtype: str) -> int:
    """As NCCL does it: a sum that wraps around, and a quotient rounded towards zero."""
    bits = torch.iinfo(getattr(torch, dtype)).bits
    total = sum(numbers) % 2**bits
    if not dtype.startswith("u") and total >= 2 ** (bits - 1):
        total -= 2**bits
    return abs(total) // len(numbers) * (-1 if total < 0 else 1)


def average_whole_numbers(rank: int, size: int) -> None:
    for dtype in ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"):
        numbers = [whole_numbers(r, dtype) for r in range(size)]
        expected = [average_in_type(of_all, dtype) for of_all in zip(*numbers, strict=True)]
        own, part = torch.tensor(numbers[rank], dtype=getattr(torch, dtype)), 6 // size
        own_part = expected[rank * part : (rank + 1) * part]
        tensor = own.clone()
        dist.all_reduce(tensor, ReduceOp.AVG)
        assert tensor.tolist() == expected, dtype
        wide = own.reshape(2, 3).t().clone(memory_format=torch.preserve_format)
        assert not wide.is_contiguous()
        dist.all_reduce(wide, ReduceOp.AVG)
        assert wide.t().reshape(-1).tolist() == expected, (dtype, "not contiguous")
        tensor = own.clone()
        dist.reduce(tensor, 1, ReduceOp.AVG)
        assert tensor.tolist() == (expected if rank == 1 else numbers[rank]), (dtype, "reduce")
        output = torch.empty(part, dtype=own.dtype)
        dist.reduce_scatter_tensor(output, own, ReduceOp.AVG)
        assert output.tolist() == own_part, (dtype, "reduce_scatter_tensor")
        output = torch.empty(part, dtype=own.dtype)
        dist.reduce_scatter(output, list(own.clone().split(part)), ReduceOp.AVG)
        assert output.tolist() == own_part, (dtype, "reduce_scatter")
        tensors = [own.clone(), own.clone().view(2, 3), torch.full((2,), rank + 1.0)]
        options = dist.AllreduceCoalescedOptions()
        options.reduceOp = ReduceOp.AVG
        dist.group.WORLD.allreduce_coalesced(tensors, options).wait()
        assert tensors[0].tolist() == tensors[1].view(-1).tolist() == expected, (dtype, "coalesced")
        assert tensors[2].tolist() == [(size + 1) / 2] * 2
        with dist._coalescing_manager():
            tensor = own.clone()
            dist.all_reduce(tensor, ReduceOp.AVG)
        assert tensor.tolist() == expected, (dtype, "coalescing manager")
        got = functional.all_reduce(own.clone(), "avg", dist.group.WORLD)
        assert got.tolist() == expected, (dtype, "functional all_reduce")
        got = functional.reduce_scatter_tensor(own.clone(), "avg", 0, dist.group.WORLD)
        assert got.tolist() == own_part, (dtype, "functional reduce_scatter")
    tensor = torch.tensor(4 + rank)
    dist.all_reduce(tensor, ReduceOp.AVG)
    assert tensor.item() == 5


def test_averages_of_whole_numbers_are_those_of_nccl() -> None:
    ranks.run(average_whole_numbers, SIZE)


def move_everything(rank: int, size: int) -> None:
    for dtype in TYPES + COMPLEX:
        parts = [given(r, 12, dtype).view(3, 4) for r in range(size)]
        own = parts[rank]
        for root in range(size):
            tensor = own.clone()
            dist.broadcast(tensor, root)
            assert torch.equal(tensor, parts[root]), (dtype, "broadcast")
            into = [torch.empty_like(own) for _ in range(size)] if rank == root else None
            dist.gather(own, into, root)
            assert into is None or all(map(torch.equal, into, parts)), (dtype, "gather")
            tensor = torch.empty_like(own)
            dist.scatter(tensor, parts if rank == root else None, root)
            assert torch.equal(tensor, own), (dtype, "scatter")
        into = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(into, own)
        assert all(map(torch.equal, into, parts)), (dtype, "all_gather")
        flat = torch.empty(3 * size, 4, dtype=own.dtype)
        dist.all_gather_into_tensor(flat, own)
        assert torch.equal(flat, torch.cat(parts)), (dtype, "all_gather_into_tensor")


def test_movements_of_every_type() -> None:
    ranks.run(move_everything, SIZE)


def exchange_everything(rank: int, size: int) -> None:
    # Rank i gives rank j i + j + 1 rows of the value 10 i + j.
    def rows(source: int, target: int) -> torch.Tensor:
        return torch.full((source + target + 1, 2), 10 * source + target)

    out_of = [rows(rank, other) for other in range(size)]
    expected = [rows(other, rank) for other in range(size)]
    into = [torch.empty_like(part) for part in expected]
    dist.all_to_all(into, out_of)
    assert all(map(torch.equal, into, expected))
    output = torch.empty_like(torch.cat(expected))
    dist.all_to_all_single(
        output, torch.cat(out_of), [len(part) for part in expected], [len(part) for part in out_of]
    )
    assert torch.equal(output, torch.cat(expected))
    even = torch.arange(4 * size) + 100 * rank
    output = torch.empty_like(even)
    dist.all_to_all_single(output, even)
    others = [(torch.arange(4 * size) + 100 * r).chunk(size)[rank] for r in range(size)]
    assert torch.equal(output, torch.cat(others))


def test_all_to_all() -> None:
    ranks.run(exchange_everything, SIZE)


def exchange_messages(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    # Tags come in another order than they are waited for.
    first, second = torch.empty(5), torch.empty(1000)
    works = [dist.irecv(second, left, tag=2), dist.irecv(first, left, tag=1)]
    works += [dist.isend(torch.full((5,), float(rank)), right, tag=1)]
    works += [dist.isend(torch.full((1000,), rank + 0.5), right, tag=2)]
    for work in works:
        work.wait()
    assert torch.equal(first, torch.full((5,), float(left)))
    assert torch.equal(second, torch.full((1000,), left + 0.5))
    if rank == 0:
        heard = []
        for _ in range(size - 1):
            tensor = torch.empty(3)
            source = dist.recv(tensor)
            assert torch.equal(tensor, torch.full((3,), float(source)))
            heard.append(source)
        assert sorted(heard) == list(range(1, size))
    else:
        dist.send(torch.full((3,), float(rank)), 0)
    dist.barrier()  # else rank 0 may hear from anyone what follows here
    batch = [dist.P2POp(dist.isend, torch.tensor([rank]), right), dist.P2POp(dist.irecv, first, left)]
    batch[1].tensor = torch.empty(1, dtype=torch.int64)
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert batch[1].tensor.item() == left


def test_messages() -> None:
    ranks.run(exchange_messages, SIZE)


def use_awkward_memory(rank: int, size: int) -> None:
    wide = torch.zeros(6, 8)
    column = wide[:, 3]
    column += rank + 1
    dist.all_reduce(column)
    assert torch.equal(column, torch.full((6,), size * (size + 1) / 2))
    assert wide.sum() == column.sum()
    dist.broadcast(wide.t(), 1)
    into = [torch.zeros(4, 6).t() for _ in range(size)]
    dist.all_gather(into, torch.full((4, 6), float(rank)).t())
    assert [part.mean().item() for part in into] == list(range(size))
    conjugate = torch.full((4,), 1 + 2j).conj()
    dist.group.WORLD.allreduce([conjugate]).wait()
    assert torch.equal(conjugate, torch.full((4,), size * (1 - 2j)))
    for empty in (torch.empty(0), torch.empty(0, 5, dtype=torch.int32)):
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar, ReduceOp.MAX)
    assert scalar.item() == size - 1
    parameter = torch.nn.Parameter(torch.ones(5))
    dist.all_reduce(parameter)
    assert torch.equal(parameter.detach(), torch.full((5,), float(size)))


def test_strides_views_and_empty_tensors() -> None:
    ranks.run(use_awkward_memory, SIZE)


def coalesce(rank: int, size: int) -> None:
    group = dist.group.WORLD
    tensors = [torch.full((3,), float(rank)), torch.full((2, 2), rank), torch.full((4,), float(rank)).t()]
    group.allreduce_coalesced(tensors).wait()
    assert all((tensor == sum(range(size))).all() for tensor in tensors)
    inputs = [torch.full((3,), float(rank)), torch.full((2,), rank)]
    outputs = [torch.empty(3 * size), torch.empty(2 * size, dtype=torch.int64)]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    assert [part.float().mean().item() for part in outputs[0].chunk(size)] == list(range(size))
    assert outputs[1].view(size, 2)[:, 0].tolist() == list(range(size))
    outputs = [torch.empty(2), torch.empty(1)]
    group.reduce_scatter_tensor_coalesced(
        outputs, [torch.full((2 * size,), 1.0), torch.full((size,), 2.0)]
    ).wait()
    assert outputs[0].tolist() == [size, size]
    assert outputs[1].tolist() == [2 * size]
    with dist._coalescing_manager(async_ops=True) as manager:
        tensors = [torch.ones(5), torch.ones(7)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert all((tensor == size).all() for tensor in tensors)


def test_coalesced_calls() -> None:
    ranks.run(coalesce, SIZE)


def use_groups_at_once(rank: int, size: int) -> None:
    pair = dist.new_group([0, 2])
    alone = [dist.new_group([r]) for r in range(size)][rank]
    works = []
    world = [torch.full((1000,), float(rank + i)) for i in range(20)]
    inner = [torch.full((1000,), float(rank + i)) for i in range(20)]
    for i in range(20):
        works.append(dist.all_reduce(world[i], async_op=True))
        if rank in (0, 2):
            works.append(dist.all_reduce(inner[i], group=pair, async_op=True))
    for work in reversed(works):
        work.wait()
        assert work.is_completed()
    assert all((tensor == sum(range(size)) + size * i).all() for i, tensor in enumerate(world))
    if rank in (0, 2):
        assert all((tensor == 2 + 2 * i).all() for i, tensor in enumerate(inner))
        tensor = torch.tensor([float(rank)])
        dist.broadcast(tensor, 2, group=pair)
        assert tensor.item() == 2
    lonely = torch.tensor([5.0])
    dist.all_reduce(lonely, group=alone)
    dist.barrier(group=alone)
    assert lonely.item() == 5.0
    dist.destroy_process_group(alone)
    if rank in (0, 2):
        dist.destroy_process_group(pair)
    dist.barrier()


def test_groups_at_once() -> None:
    ranks.run(use_groups_at_once, SIZE)


def use_futures(rank: int, size: int) -> None:
    tensor = torch.full((100,), float(rank))
    doubled = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0] * 2)
    assert torch.equal(doubled.wait(), torch.full((100,), size * (size - 1.0)))
    # Nobody waits, nobody keeps the work: it goes on all the same.
    forgotten = torch.full((100_000,), float(rank))
    dist.all_reduce(forgotten, async_op=True)
    expected = torch.full((100_000,), sum(range(size)) * 1.0)
    deadline = time.monotonic() + 30
    while not torch.equal(forgotten, expected):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    dist.barrier()


def test_futures_and_forgotten_works() -> None:
    ranks.run(use_futures, SIZE)


def send_objects(rank: int, size: int) -> None:
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert [item["rank"] for item in gathered] == list(range(size))
    objects = [rank, "a", None]
    dist.broadcast_object_list(objects, 1)
    assert objects == [1, "a", None]
    received: list[Any] = [None]
    dist.scatter_object_list(received, [{"to": r} for r in range(size)] if rank == 0 else None, 0)
    assert received == [{"to": rank}]


def test_objects() -> None:
    ranks.run(send_objects, SIZE)


def add_sparse(rank: int, size: int) -> None:
    indices = torch.tensor([[rank, size], [0, rank]])
    tensor = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0]), (size + 1, size))
    dist.all_reduce(tensor)
    expected = torch.zeros(size + 1, size)
    for r in range(size):
        expected[r, 0] += 1
        expected[size, r] += 2
    assert torch.equal(tensor.to_dense(), expected)


def test_sparse_sums() -> None:
    ranks.run(add_sparse, SIZE)


def misuse(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        dist.group.WORLD.allreduce([torch.ones(2, dtype=torch.complex64)], op=ReduceOp.MAX)
    scaled_sum = dist._make_nccl_premul_sum(0.5)
    for operation, dtype in [
        (ReduceOp.AVG, torch.bool),
        (ReduceOp.BXOR, torch.float32),
        (scaled_sum, torch.int32),
        (scaled_sum, torch.bool),
    ]:
        with pytest.raises(ValueError, match="makes no sense"):
            dist.all_reduce(torch.ones(2, dtype=dtype), operation)
    with pytest.raises(ValueError, match="one for each"):
        dist.group.WORLD.allgather([[torch.ones(2)]], [torch.ones(2)])
    with pytest.raises(ValueError, match="times as many"):
        dist.group.WORLD._allgather_base(torch.ones(size + 1), torch.ones(1))
    with pytest.raises(ValueError, match="cannot be reduced"):
        dist.group.WORLD.allreduce([torch.ones(2).to(torch.float8_e5m2)])
    with pytest.raises(ValueError, match="add up to"):
        dist.group.WORLD.alltoall_base(torch.ones(4), torch.ones(4), [1] * size, [9] * size)
    # Nothing of that was sent, so the group is as good as new.
    dist.barrier()


def test_misuse_is_refused_before_anything_is_sent() -> None:
    ranks.run(misuse, SIZE)
