"""torch's reduction operations in square's words."""

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import ReduceOp

from square.torch import tensors

_Kind = ReduceOp.RedOpType
_NAMES = {
    _Kind.SUM: "sum",
    _Kind.AVG: "average",
    _Kind.PRODUCT: "product",
    _Kind.MIN: "min",
    _Kind.MAX: "max",
    _Kind.BAND: "and",
    _Kind.BOR: "or",
    _Kind.BXOR: "xor",
    _Kind.PREMUL_SUM: "sum",
}
_LINEAR = (_Kind.SUM, _Kind.AVG, _Kind.PREMUL_SUM)
_BITWISE = (_Kind.BAND, _Kind.BOR, _Kind.BXOR)


def kind_of(operation: Any) -> Any:
    """Of a ReduceOp or the kind itself, which torch takes for an instance of ReduceOp too."""
    return getattr(operation, "op", operation)


class Reduction:
    """What to do with the elements of one operation: `op` and `dtype` as a communicator takes them.

    Raises ValueError for what cannot be reduced.
    """

    def __init__(self, operation: Any, dtype: Any, size: int) -> None:
        """`size` is the number of ranks."""
        kind = kind_of(operation)
        if kind not in _NAMES:
            raise ValueError(f"the operation {operation} is not known: use one of {sorted(_NAMES.values())}")
        _check(kind, dtype)
        is_whole = not (dtype.is_floating_point or dtype.is_complex)
        self._divisor = size if kind == _Kind.AVG and is_whole else None
        self.op = _NAMES[kind] if self._divisor is None else "sum"
        self.dtype = tensors.element_name(dtype)
        self._factor = operation.__getstate__()[1] if kind == _Kind.PREMUL_SUM else None

    @property
    def scales(self) -> bool:
        """Whether inputs are multiplied before they are added."""
        return self._factor is not None

    def scaled(self, tensor: Any) -> Any:
        """The input to give; a copy where it is multiplied."""
        if self._factor is None:
            return tensor
        # The factor may be a tensor of another type, which the product would have then.
        return torch.mul(tensor.detach(), self._factor).to(tensor.dtype)

    @property
    def finish(self) -> Callable[[Any], None] | None:
        """What turns a sum on the CPU into the result, in place; None where the sum is the result."""
        return None if self._divisor is None else self._divide

    def _divide(self, sums: Any) -> None:
        # As NCCL does it: the sum wraps around in its type, the quotient is rounded towards zero.
        assert self._divisor is not None
        if sums.dtype == getattr(torch, "uint64", None):
            _divide_unsigned(sums.view(torch.int64), self._divisor)
        else:
            # The divisor may be too large for the type itself.
            sums.copy_(torch.div(sums.to(torch.int64), self._divisor, rounding_mode="trunc"))


def _check(kind: Any, dtype: Any) -> None:
    if dtype.is_complex and kind not in _LINEAR:
        raise ValueError(f"{_NAMES[kind]} of {dtype} makes no sense: use SUM, AVG or PREMUL_SUM")
    if kind in _BITWISE and dtype.is_floating_point:
        raise ValueError(f"{_NAMES[kind]} of {dtype} makes no sense: bits are those of integers and bool")
    if kind == _Kind.AVG and dtype == torch.bool:
        raise ValueError(
            f"the average of {dtype} makes no sense: convert the tensor to an integer or float type"
        )
    if kind == _Kind.PREMUL_SUM and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"PREMUL_SUM of {dtype} makes no sense: use SUM, or a floating-point type")


def _divide_unsigned(bits: Any, divisor: int) -> None:
    """Divides the unsigned numbers that these bits of int64 are: torch does not divide uint64."""
    half = (bits >> 1) & torch.iinfo(torch.int64).max
    quotient = torch.div(half, divisor, rounding_mode="trunc") * 2
    rest = bits - quotient * divisor  # less than two divisors
    bits.copy_(quotient + (rest >= divisor))
