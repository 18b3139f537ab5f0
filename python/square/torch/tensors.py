"""Tensors as the buffers that a communicator takes, with copies only where there is no other way."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch

from square.torch import cuda

Buffer = memoryview | bytearray

# How square calls the elements of a tensor. Complex numbers are two of these.
_ELEMENTS = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.bool: "bool",
    torch.complex32: "float16",
    torch.complex64: "float32",
    torch.complex128: "float64",
}
for _name in ("uint16", "uint32", "uint64"):  # newer than the oldest torch
    if hasattr(torch, _name):
        _ELEMENTS[getattr(torch, _name)] = _name

_WRITABLE = 0x200  # PyBUF_WRITE
_memory_view = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_view.restype = ctypes.py_object
_memory_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def known_name(dtype: Any) -> str | None:
    """None for elements that square moves and does not know."""
    return _ELEMENTS.get(dtype)


def element_name(dtype: Any) -> str:
    """Raises ValueError for elements that square cannot add up."""
    name = known_name(dtype)
    if name is None:
        known = ", ".join(sorted(str(known).removeprefix("torch.") for known in _ELEMENTS))
        raise ValueError(f"elements of type {dtype} cannot be reduced: use one of {known}")
    return name


def view(tensor: Any) -> Buffer:
    """The bytes of a contiguous tensor on the CPU, which must outlive the view."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return bytearray()
    memory: memoryview = _memory_view(tensor.data_ptr(), size, _WRITABLE)
    return memory


def is_direct(tensor: Any) -> bool:
    """Whether the tensor's own memory can be sent and received into."""
    return bool(
        tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def check(tensor: Any) -> None:
    """Raises TypeError or ValueError for what cannot be moved as bytes."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of the layout {tensor.layout} has no buffer: call to_dense() first")
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"square moves tensors on cpu and cuda, not on {tensor.device}")


Change = Callable[[Any], None]


class Staging:
    """Buffers for the tensors of one operation; finish() copies results to where they belong.

    A `change` is applied to a result on the CPU, before it is copied.
    """

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self._changes: list[Callable[[], None]] = []
        self._copies: list[Callable[[], None]] = []

    def input(self, tensor: Any) -> Buffer:
        return view(self._host(tensor, reads=True, writes=False))

    def output(self, tensor: Any, change: Change | None = None) -> Buffer:
        return self._result(self._host(tensor, reads=False, writes=True), change)

    def in_place(self, tensor: Any, change: Change | None = None) -> Buffer:
        return self._result(self._host(tensor, reads=True, writes=True), change)

    def _result(self, host: Any, change: Change | None) -> Buffer:
        if change is not None:
            self._changes.append(lambda: change(host.detach()))
        return view(host)

    def inputs(self, tensors: Sequence[Any]) -> list[Buffer]:
        return [self.input(tensor) for tensor in tensors]

    def outputs(self, tensors: Sequence[Any]) -> list[Buffer]:
        return [self.output(tensor) for tensor in tensors]

    def packed(self, tensors: Sequence[Any], *, reads: bool, writes: bool) -> Any:
        """One flat tensor of all of these, which have one element type."""
        sizes = [tensor.numel() for tensor in tensors]
        flat = torch.empty(sum(sizes), dtype=tensors[0].dtype)  # on the CPU, wherever these are
        parts = flat.split(sizes)
        if reads:
            for part, tensor in zip(parts, tensors, strict=True):
                check(tensor)
                part.copy_(tensor.detach().reshape(-1))
        if writes:
            for part, tensor in zip(parts, tensors, strict=True):
                self._copy_later(tensor, part)
        self.kept.append(flat)
        return flat

    def finish(self) -> None:
        """Changes results, then copies those that are not where they belong. Call it once, after success."""
        with torch.no_grad():
            for step in self._changes + self._copies:
                step()
        self._changes.clear()
        self._copies.clear()

    def _host(self, tensor: Any, *, reads: bool, writes: bool) -> Any:
        check(tensor)
        if is_direct(tensor):
            self.kept.append(tensor)
            return tensor
        if cuda.is_cuda(tensor):
            host = cuda.pinned_like(tensor)
            if reads:
                cuda.copy_to_host(tensor, host)
        else:
            host = torch.empty(tensor.shape, dtype=tensor.dtype)
            if reads:
                host.copy_(tensor.detach())
        if writes:
            self._copy_later(tensor, host)
        self.kept.append(host)
        return host

    def _copy_later(self, tensor: Any, host: Any) -> None:
        if cuda.is_cuda(tensor):
            self._copies.append(cuda.copy_back_later(tensor, host))
        else:
            self._copies.append(lambda: tensor.detach().copy_(host.reshape(tensor.shape)))
