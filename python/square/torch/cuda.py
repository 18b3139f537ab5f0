"""CUDA tensors by way of pinned memory: copies on a stream of their own, large tensors in chunks.

The calling thread brings one chunk after another into pinned memory and starts its operation at once, so
chunks are copied while earlier ones are on the wire. Whoever waits copies results back in the same order.
A waiter returns when the results are in the tensor, so it does not matter which streams use it later.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

# Every rank must cut alike, so this is not an option.
CHUNK_BYTES = 16 << 20

_lock = threading.Lock()
_streams: dict[int, Any] = {}


def is_cuda(tensor: Any) -> bool:
    return bool(tensor.device.type == "cuda")


def _stream(device: Any) -> Any:
    """The stream for copies to and from this device."""
    with _lock:
        if device.index not in _streams:
            _streams[device.index] = torch.cuda.Stream(device=device)
        return _streams[device.index]


def pinned_like(tensor: Any) -> Any:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def copy_to_host(tensor: Any, host: Any) -> None:
    """After all that the current stream has been given before. Blocks until it is done."""
    side = _stream(tensor.device)
    side.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(side):
        host.copy_(tensor.detach(), non_blocking=True)
        done = side.record_event()
    tensor.record_stream(side)
    done.synchronize()


def copy_back_later(tensor: Any, host: Any) -> Callable[[], None]:
    """What copies `host` to the tensor, after all that the current stream has been given before now."""
    earlier = torch.cuda.current_stream(tensor.device).record_event()

    def copy_back() -> None:
        side = _stream(tensor.device)
        side.wait_event(earlier)
        with torch.cuda.stream(side):
            tensor.detach().copy_(host.reshape(tensor.shape), non_blocking=True)
            done = side.record_event()
        tensor.record_stream(side)
        done.synchronize()

    return copy_back


def is_cut(tensor: Any) -> bool:
    """Whether an operation on it is made of several."""
    return is_cuda(tensor) and tensor.numel() * tensor.element_size() > CHUNK_BYTES


def cut(tensors: Sequence[Any]) -> list[list[Any]]:
    """Chunk by chunk a flat view of the same elements of every one of these, which are equally large.

    A tensor that is not contiguous gives the chunks of a copy: see uncut().
    """
    flat = [tensor.detach().contiguous().view(-1) for tensor in tensors]
    elements = CHUNK_BYTES // tensors[0].element_size()
    return [list(chunk) for chunk in zip(*(tensor.split(elements) for tensor in flat), strict=True)]


def uncut(tensor: Any, chunks: Sequence[Any]) -> None:
    """Copies the chunks to where they come from, unless they are views of it."""
    if not tensor.is_contiguous():
        tensor.detach().copy_(torch.cat(list(chunks)).view(tensor.shape))
