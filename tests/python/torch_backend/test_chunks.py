"""Cutting into chunks, which CUDA tensors are, here on the CPU; and CUDA tensors where there is a GPU."""

from typing import Any

import pytest
import ranks
import torch
from square.torch import cuda
from torch import distributed as dist


def cut_everything(rank: int, size: int) -> None:
    cuda.CHUNK_BYTES = 64
    cuda.is_cut = lambda tensor: tensor.numel() * tensor.element_size() > cuda.CHUNK_BYTES
    use_everything(rank, size, "cpu")


def cuda_everything(rank: int, size: int) -> None:
    cuda.CHUNK_BYTES = 1 << 10
    use_everything(rank, size, "cuda")


def use_everything(rank: int, size: int, device: str) -> None:
    """Sizes below, at and above whole chunks, contiguous and not."""

    def full(value: Any, *shape: int) -> torch.Tensor:
        return torch.full(shape, float(value), device=device)

    total = sum(range(size))
    for count in (1, 16, 17, 100, 1000):
        tensor = full(rank, count)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        assert torch.equal(tensor, full(total, count))
        assert work.is_completed()
        future = dist.all_reduce(tensor, async_op=True).get_future()
        assert torch.equal(future.wait()[0], full(total * size, count))
        wide = full(rank, count, 2)
        dist.broadcast(wide.t(), 1)
        assert torch.equal(wide, full(1, count, 2))
        into = [full(-1, 2, count).t() for _ in range(size)]
        dist.all_gather(into, full(rank, count, 2))
        assert all(torch.equal(part, full(r, count, 2)) for r, part in enumerate(into))
        flat = full(-1, size * count)
        dist.all_gather_into_tensor(flat, full(rank, count))
        assert torch.equal(flat, torch.cat([full(r, count) for r in range(size)]))
        output = full(-1, count)
        dist.reduce_scatter_tensor(output, torch.cat([full(r + rank, count) for r in range(size)]))
        assert torch.equal(output, full(total + size * rank, count))
        dist.reduce_scatter(output, [full(r, count) for r in range(size)])
        assert torch.equal(output, full(size * rank, count))
        tensor = full(rank, count)
        dist.reduce(tensor, 1)
        assert torch.equal(tensor, full(total if rank == 1 else rank, count))


def test_chunks() -> None:
    ranks.run(cut_everything, 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_cuda_tensors() -> None:
    ranks.run(cuda_everything, 2)
