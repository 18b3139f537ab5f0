"""More asynchronous calls than any bound below Python lets be under way: they wait, in order."""

import resource
import time
from collections.abc import Callable
from typing import Any

import pytest
import ranks
import torch
from torch import distributed as dist

SIZE = 2
# Over every bound that was met once: 4,096 operations under way, 4,096 messages to a gateway.
FEW = 5_000
MANY = 20_000
# Of one call that waits, with its tensors and what torch keeps of it: about 7 KiB measured.
BYTES_OF_ONE = 32 << 10

Calls = Callable[[int, int, int], list[Any]]


def value(rank: int, call: int) -> int:
    return 7 * rank + call


def numbers(rank: int, count: int, width: int = 1) -> list[torch.Tensor]:
    return [torch.full((width,), value(rank, call)) for call in range(count)]


def wait(works: list[Any]) -> None:
    for work in works:
        work.wait()


def check(kind: str, got: list[torch.Tensor], wanted: Callable[[int], list[int]]) -> None:
    for call, tensor in enumerate(got):
        assert tensor.tolist() == wanted(call), f"{kind}: call {call} of {len(got)}"


def broadcast(rank: int, size: int, count: int) -> None:
    tensors = numbers(rank, count)
    wait([dist.broadcast(tensor, 0, async_op=True) for tensor in tensors])
    check("broadcast", tensors, lambda call: [value(0, call)])


def all_reduce(rank: int, size: int, count: int) -> None:
    tensors = numbers(rank, count)
    wait([dist.all_reduce(tensor, async_op=True) for tensor in tensors])
    check("all_reduce", tensors, lambda call: [sum(value(one, call) for one in range(size))])


def all_gather(rank: int, size: int, count: int) -> None:
    outputs = [torch.zeros(size, dtype=torch.int64) for _ in range(count)]
    inputs = numbers(rank, count)
    wait(
        [
            dist.all_gather_into_tensor(output, tensor, async_op=True)
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
    )
    check("all_gather", outputs, lambda call: [value(one, call) for one in range(size)])


def reduce_scatter(rank: int, size: int, count: int) -> None:
    outputs = numbers(0, count)
    inputs = numbers(rank, count, size)
    wait(
        [
            dist.reduce_scatter_tensor(output, tensor, async_op=True)
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
    )
    check("reduce_scatter", outputs, lambda call: [sum(value(one, call) for one in range(size))])


def all_to_all(rank: int, size: int, count: int) -> None:
    outputs = [torch.zeros(size, dtype=torch.int64) for _ in range(count)]
    inputs = numbers(rank, count, size)
    wait(
        [
            dist.all_to_all_single(output, tensor, async_op=True)
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
    )
    check("all_to_all", outputs, lambda call: [value(one, call) for one in range(size)])


def barrier(rank: int, size: int, count: int) -> None:
    wait([dist.barrier(async_op=True) for _ in range(count)])


def messages_as_they_come(rank: int, size: int, count: int) -> None:
    """Each rank sends and receives in turn."""
    sent, got = numbers(rank, count), numbers(9, count)
    works = []
    for call in range(count):
        works.append(dist.isend(sent[call], 1 - rank))
        works.append(dist.irecv(got[call], 1 - rank))
    wait(works)
    check("messages", got, lambda call: [value(1 - rank, call)])


def all_sends_first(rank: int, size: int, count: int) -> None:
    """Both ranks have called every send before either calls a receive; another group goes on meanwhile."""
    beside = dist.new_group(list(range(size)))
    sent, got = numbers(rank, count), numbers(9, count)
    works = [dist.isend(tensor, 1 - rank) for tensor in sent]
    dist.barrier()
    between = torch.tensor([1])
    dist.all_reduce(between, group=beside)
    assert between.item() == size
    works += [dist.irecv(tensor, 1 - rank) for tensor in got]
    wait(works)
    check("sends first", got, lambda call: [value(1 - rank, call)])


def from_any(rank: int, size: int, count: int) -> None:
    """All sends before the first receive from any source."""
    if rank == 0:
        wait([dist.isend(tensor, 1) for tensor in numbers(0, count)])
        return
    got = numbers(9, count)
    time.sleep(0.5)
    wait([dist.irecv(tensor) for tensor in got])
    check("from any", got, lambda call: [value(0, call)])


KINDS = {
    kind.__name__: kind
    for kind in (
        broadcast,
        all_reduce,
        all_gather,
        reduce_scatter,
        all_to_all,
        barrier,
        messages_as_they_come,
        all_sends_first,
        from_any,
    )
}


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_kinds(rank: int, size: int, kinds: list[str], count: int) -> dict[str, float]:
    """Seconds of each kind, and the memory that they took at their peak."""
    dist.all_reduce(torch.ones(1))
    took: dict[str, float] = {}
    before = peak_bytes()
    for kind in kinds:
        began = time.monotonic()
        KINDS[kind](rank, size, count)
        took[kind] = round(time.monotonic() - began, 2)
    took["bytes of one"] = (peak_bytes() - before) / count
    print(f"rank {rank}: {took}")
    return took


NODES: dict[str, list[dict[str, str]] | None] = {
    "one node": None,
    "a node each": [{"SQUARE_NODE": name} for name in "ab"],
}


def check_kinds(kinds: list[str], count: int, nodes: str) -> None:
    for took in ranks.run(run_kinds, SIZE, kinds, count, environments=NODES[nodes]):
        assert took["bytes of one"] < BYTES_OF_ONE


@pytest.mark.parametrize(("kind", "nodes"), [("broadcast", "one node"), ("all_sends_first", "a node each")])
def test_more_calls_than_may_be_under_way(kind: str, nodes: str) -> None:
    check_kinds([kind], FEW, nodes)


@pytest.mark.long
@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_thousand_calls(kind: str, nodes: str) -> None:
    check_kinds([kind], MANY, nodes)
