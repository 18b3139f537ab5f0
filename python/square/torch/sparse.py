"""Sums of sparse tensors: everybody's entries are gathered and added by every rank in rank order."""

from typing import Any

import torch
from torch.distributed import ReduceOp

from square.torch.operations import Operations, Timeout
from square.torch.reductions import kind_of
from square.torch.work import Work


def all_reduce(group: Operations, tensor: Any, operation: Any, timeout: Timeout) -> Work:
    """Blocks until the sum is there. Raises ValueError for another operation than SUM."""
    if kind_of(operation) != ReduceOp.RedOpType.SUM:
        raise ValueError(f"sparse tensors can be reduced by SUM only, not by {operation}")
    own = tensor.detach().coalesce()
    indices, values = own.indices(), own.values()
    counts = [torch.empty(1, dtype=torch.int64) for _ in range(group.size)]
    group.all_gather(counts, torch.tensor([own._nnz()]), timeout).wait()
    entries = [int(count.item()) for count in counts]
    all_indices = _gather(group, indices.t(), entries, timeout)
    all_values = _gather(group, values, entries, timeout)
    total = torch.sparse_coo_tensor(
        torch.cat(all_indices).t(), torch.cat(all_values), own.size(), device=tensor.device
    ).coalesce()
    tensor.copy_(total)
    return group.done("all_reduce", [tensor])


def _gather(group: Operations, rows: Any, entries: list[int], timeout: Timeout) -> list[Any]:
    """Everybody's rows; all send as many as the one with the most has."""
    most = max(entries)
    padded = rows.new_zeros((most, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    parts = [torch.empty_like(padded) for _ in entries]
    group.all_gather(parts, padded, timeout).wait()
    return [part[:count] for part, count in zip(parts, entries, strict=True)]
