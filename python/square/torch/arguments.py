"""The arguments of torch's calls: it has several ways to say the same, and two generations of them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import ReduceOp


def only(data: Any) -> Any:
    """The tensor, out of a list of one or as it is. Raises ValueError and TypeError."""
    if isinstance(data, list | tuple):
        if len(data) != 1:
            raise ValueError(f"{len(data)} tensors given, but a rank has one of them in this operation")
        data = data[0]
    if not isinstance(data, torch.Tensor):
        raise TypeError(f"expected a tensor, not {type(data).__name__}")
    return data


def parts(nested: Any) -> list[Any]:
    """The tensors for or from all ranks, out of a list of one list or as they are."""
    if nested and isinstance(nested[0], list | tuple):
        return list(nested[0])
    return list(nested)


def root(options: Any, named: dict[str, Any]) -> int:
    if "root" in named:
        return int(named["root"])
    options = named.get("opts", options)
    if isinstance(options, int):
        return options
    return int(options.rootRank) if options is not None else 0


def operation(options: Any, named: dict[str, Any]) -> Any:
    """What is done with the elements: SUM if nothing says."""
    if named.get("op") is not None:
        return named["op"]
    options = named.get("opts", options)
    if options is None:
        return ReduceOp.SUM
    return options.reduceOp if hasattr(options, "reduceOp") else options


def limit(options: Any, timeout: timedelta | None) -> timedelta | None:
    """The call's timeout; None for the group's."""
    return timeout if timeout is not None else getattr(options, "timeout", None)


def split_bytes(tensor: Any, splits: Sequence[int], size: int, what: str) -> list[int]:
    """How many bytes of `tensor` go to or come from each of `size` ranks. Raises ValueError."""
    rows = tensor.shape[0] if tensor.dim() > 0 else tensor.numel()
    row_bytes = tensor.numel() * tensor.element_size() // rows if rows else 0
    if not splits:
        if rows % size:
            raise ValueError(f"the {what}'s {rows} rows cannot be split evenly over {size} ranks")
        return [rows // size * row_bytes] * size
    check_count(splits, size, f"{what} split sizes")
    if sum(splits) != rows:
        raise ValueError(f"the {what} split sizes add up to {sum(splits)}, but it has {rows} rows")
    return [rows_of_rank * row_bytes for rows_of_rank in splits]


def check_count(items: Sequence[Any], size: int, what: str) -> None:
    """One for each rank. Raises ValueError."""
    if len(items) != size:
        raise ValueError(f"{len(items)} {what} given to a group of {size} ranks: one for each")


def check_multiple(large: Any, small: Any, size: int, large_name: str, small_name: str) -> None:
    """One has a part for each rank, which the other one is. Raises ValueError and TypeError."""
    if large.dtype != small.dtype:
        raise TypeError(f"the {large_name} is {large.dtype}, the {small_name} {small.dtype}: use one type")
    if large.numel() != small.numel() * size:
        raise ValueError(
            f"the {large_name} has {large.numel()} elements, the {small_name} {small.numel()}: make it "
            f"{size} times as many, one part for each rank"
        )
