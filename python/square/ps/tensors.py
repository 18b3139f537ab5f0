"""A model as the tensors that a worker pushes: of a torch module, or a dict of arrays."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

_DTYPES = ("float32", "bfloat16", "float16", "float64")


class Tensor(Protocol):
    """One of the model's tensors, and memory of float32 that stands for it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    # The tensor holds less than float32 does.
    is_rounded: bool
    # Where its memory begins, and how many bytes it has.
    place: tuple[int, int]

    @property
    def buffer(self) -> Any:
        """float32 on the CPU, contiguous."""

    def load(self) -> None:
        """Brings the buffer up to the tensor."""

    def store(self) -> None:
        """Brings the tensor up to the buffer."""


def tensors_of(model: Any) -> list[Tensor]:
    """Those of a module that are trained, each once; or those of a dict.

    Frozen parameters and buffers stay where they are. Raises ValueError for what cannot be pushed.
    """
    if isinstance(model, Mapping):
        made = [_tensor(str(name), value) for name, value in model.items()]
    elif hasattr(model, "named_parameters"):
        named: Iterable[tuple[str, Any]] = model.named_parameters()
        made = [_tensor(name, value) for name, value in named if value.requires_grad]
    else:
        raise TypeError(f"a model is a torch module or a dict of tensors, not {type(model).__name__}")
    if not made:
        raise ValueError("the model has no tensors that are trained")
    _check_apart(made)
    return made


def _check_apart(tensors: list[Tensor]) -> None:
    """Two names for one memory would be pushed, and moved, twice."""
    ordered = sorted((tensor for tensor in tensors if tensor.place[1]), key=lambda tensor: tensor.place)
    for one, other in itertools.pairwise(ordered):
        if one.place[0] + one.place[1] > other.place[0]:
            raise ValueError(f"tensors {one.name!r} and {other.name!r} share memory: give only one of them")


def _tensor(name: str, value: Any) -> Tensor:
    if hasattr(value, "full_tensor"):
        raise ValueError(
            f"tensor {name!r} is a DTensor: gather the model on one rank of the site and give a dict of it "
            "to the worker"
        )
    if hasattr(value, "detach"):
        return _TorchTensor(name, value.detach())
    if hasattr(value, "__array_interface__"):
        return _Array(name, value)
    raise ValueError(f"tensor {name!r} is a {type(value).__name__}: use tensors of torch or arrays of NumPy")


def _check_dtype(name: str, dtype: str) -> str:
    if dtype not in _DTYPES:
        raise ValueError(f"tensor {name!r} is {dtype}: use {', '.join(_DTYPES)}")
    return dtype


class _TorchTensor:
    """Its own memory where that is float32 on the CPU; otherwise a copy."""

    def __init__(self, name: str, tensor: Any) -> None:
        import torch

        self.name = name
        self.dtype = _check_dtype(name, str(tensor.dtype).removeprefix("torch."))
        self.shape = tuple(tensor.shape)
        self.is_rounded = self.dtype in ("bfloat16", "float16")
        self.place = (tensor.data_ptr(), tensor.nbytes if tensor.is_contiguous() else 0)
        self._tensor = tensor
        is_plain = self.dtype == "float32" and tensor.device.type == "cpu" and tensor.is_contiguous()
        self._copy = None if is_plain else torch.empty(self.shape, dtype=torch.float32)

    @property
    def buffer(self) -> Any:
        return (self._tensor if self._copy is None else self._copy).reshape(-1)

    def load(self) -> None:
        if self._copy is not None:
            self._copy.copy_(self._tensor)

    def store(self) -> None:
        if self._copy is not None:
            self._tensor.copy_(self._copy)


class _Array:
    def __init__(self, name: str, array: Any) -> None:
        import numpy as np

        self.name = name
        self.dtype = _check_dtype(name, str(array.dtype))
        self.shape = tuple(array.shape)
        if not array.flags.writeable:
            raise ValueError(f"tensor {name!r} is read-only: give an array that can be written")
        self.is_rounded = self.dtype == "float16"
        self.place = (array.__array_interface__["data"][0], array.nbytes if array.flags.c_contiguous else 0)
        self._array = array
        is_plain = self.dtype == "float32" and array.flags.c_contiguous
        self._copy = None if is_plain else np.empty(self.shape, np.float32)

    @property
    def buffer(self) -> Any:
        return (self._array if self._copy is None else self._copy).reshape(-1)

    def load(self) -> None:
        if self._copy is not None:
            self._copy[...] = self._array

    def store(self) -> None:
        if self._copy is not None:
            self._array[...] = self._copy
