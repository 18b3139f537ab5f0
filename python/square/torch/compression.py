"""Compression of a group's all_reduce: which tensors, what is kept of each, what it came to."""

import threading
from collections import OrderedDict
from typing import Any

import torch

import square
from square.torch.reductions import Reduction
from square.torch.tensors import Buffer

DEFAULT_COMPRESSION = "none"

# Smaller tensors take a few packets either way. Every rank must choose alike, so this is not an option.
LEAST_BYTES = 64 << 10

# Tensors whose residuals a group keeps; the one that was used least recently is forgotten first.
MOST_RESIDUALS = 64


class Compressor:
    """One member's compression of one group. Thread-safe.

    Raises ValueError for a text that names none.
    """

    def __init__(self, text: str) -> None:
        self.compression = square.Compression.parse(text)
        self._lock = threading.Lock()
        self._residuals: OrderedDict[tuple[int, int], square.ErrorFeedback] = OrderedDict()
        self._total = square.CompressionReport()

    def applies_to(self, tensor: Any, reduction: Reduction) -> bool:
        """Whether all_reduce compresses it: float32, SUM or AVG, at least LEAST_BYTES."""
        return (
            self.compression.kind != "none"
            and tensor.dtype == torch.float32
            and reduction.op in ("sum", "average")
            and not reduction.scales
            and tensor.numel() * tensor.element_size() >= LEAST_BYTES
        )

    def begin(
        self, to: square.Communicator, tensor: Any, buffer: Buffer, reduction: Reduction, seconds: float
    ) -> square.Work:
        """Begins an all_reduce of `buffer` in place; `tensor` is whose elements these are."""
        work: square.Work = to.all_reduce_async(
            buffer,
            op=reduction.op,
            dtype=reduction.dtype,
            compression=self.compression,
            feedback=self.residual(tensor) if self.compression.error_feedback else None,
            timeout=seconds,
        )
        return work

    def add(self, work: square.Work) -> None:
        """Counts what a work did that is over."""
        report = work.compression_report
        if report is not None:
            with self._lock:
                self._total = self._total + report

    def report(self) -> square.CompressionReport:
        """Of all calls that are over and were waited for."""
        with self._lock:
            return self._total

    def residual(self, tensor: Any) -> square.ErrorFeedback:
        """What was not sent of a tensor. It is known by its memory, which gradients have in every step."""
        key = (tensor.data_ptr(), tensor.numel())
        with self._lock:
            residual = self._residuals.setdefault(key, square.ErrorFeedback())
            self._residuals.move_to_end(key)
            while len(self._residuals) > MOST_RESIDUALS:
                self._residuals.popitem(last=False)
        # Two calls at once for the same memory: the second one does without.
        return square.ErrorFeedback() if residual.is_in_use else residual

    def set_residual(self, tensor: Any, values: bytes) -> None:
        """As residual(tensor).tobytes() was: of a call that is taken back, or of a checkpoint."""
        with self._lock:
            self._residuals[tensor.data_ptr(), tensor.numel()] = square.ErrorFeedback(values)


def compression_report(group: Any = None) -> square.CompressionReport:
    """What compression did to what this rank gave to all_reduce of a group, the default group if None.

    Counts calls that are over and were waited for. Raises ValueError for a group of another backend, and
    where there is no default group.
    """
    if group is None and not torch.distributed.is_initialized():
        raise ValueError("there is no default group: call init_process_group, or pass a group")
    chosen = torch.distributed.group.WORLD if group is None else group
    if not hasattr(chosen, "compression_report"):
        raise ValueError(f"{chosen!r} is no process group of the backend square")
    report: square.CompressionReport = chosen.compression_report()
    return report
