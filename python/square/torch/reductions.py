"""torch's reduction operations in square's words."""

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

    def __init__(self, operation: Any, dtype: Any) -> None:
        kind = kind_of(operation)
        if kind not in _NAMES:
            raise ValueError(f"the operation {operation} is not known: use one of {sorted(_NAMES.values())}")
        if dtype.is_complex and kind not in _LINEAR:
            raise ValueError(f"{_NAMES[kind]} of {dtype} makes no sense: use SUM, AVG or PREMUL_SUM")
        if kind in _BITWISE and dtype.is_floating_point:
            raise ValueError(f"{_NAMES[kind]} of {dtype} makes no sense: bits are those of integers and bool")
        if kind == _Kind.AVG and not (dtype.is_floating_point or dtype.is_complex):
            raise ValueError(f"average of {dtype} makes no sense: use SUM, and divide")
        self.op = _NAMES[kind]
        self.dtype = tensors.element_name(dtype)
        self._factor = operation.__getstate__()[1] if kind == _Kind.PREMUL_SUM else None

    @property
    def scales(self) -> bool:
        """Whether inputs are multiplied before they are added."""
        return self._factor is not None

    def scaled(self, tensor: Any) -> Any:
        """The input to give; a copy where it is multiplied."""
        return tensor if self._factor is None else torch.mul(tensor.detach(), self._factor)
