"""Sums over a group of what changed, in as few bytes as asked for."""

from typing import Any

import torch
from torch import distributed as dist

from square.torch.compression import Compressor
from square.torch.process_group import ProcessGroup

# As torch casts them; all other texts are square.Compression's.
_CASTS = {"none": None, "fp16": torch.float16, "bf16": torch.bfloat16}


class Sums:
    """One fragment's sums with one compression: none, fp16, bf16, or, over square, int8 and top-k.

    What error feedback keeps is taken back where a sum is lost: its change comes again.
    """

    def __init__(self, compression: str) -> None:
        self._cast = _CASTS.get(compression)
        try:
            self._compressor = None if compression in _CASTS else Compressor(compression)
        except ValueError as error:
            raise ValueError(f"compression: fp16, or as of an all-reduce: {error}") from error
        self._before = b""
        self._weight = 1.0  # of the sum that left the residual

    def check(self, group: Any) -> None:
        """Raises ValueError for a compression that the group cannot do."""
        if self._compressor is not None and not isinstance(group, ProcessGroup):
            raise ValueError(
                f"compression: {self._compressor.compression} needs a group of the backend square; "
                "others can do none, fp16 and bf16"
            )

    def begin(self, values: Any, group: Any, weight: float) -> "Sum":
        """Adds float32 values in place, which were multiplied by `weight`. They are not to be touched before
        the sum's wait()."""
        if self._compressor is not None:
            self._before = self.residual(values)
            # Who counts for nothing keeps it for later.
            sent_now = _scaled(self._before, weight) if weight and self._before else b""
            self._compressor.set_residual(values, sent_now)
            self._weight = weight
            return Sum(values, values, group.compressed_allreduce(values, self._compressor))
        sent = values if self._cast is None else values.to(self._cast)
        return Sum(values, sent, dist.all_reduce(sent, group=group, async_op=True))

    def take_back(self, values: Any) -> None:
        """The last sum is lost."""
        self.set_residual(values, self._before)

    def residual(self, values: Any) -> bytes:
        """What was not sent of them so far, for a weight of 1, as float32 elements; empty if nothing is."""
        if self._compressor is None or not self._compressor.compression.error_feedback:
            return b""
        if self._weight == 0:
            return self._before
        kept = self._compressor.residual(values).tobytes()
        return _scaled(kept, 1 / self._weight) if kept else kept

    def set_residual(self, values: Any, kept: bytes) -> None:
        if self._compressor is not None:
            self._compressor.set_residual(values, kept)
            self._weight = 1.0


def _scaled(kept: bytes, factor: float) -> bytes:
    values: bytes = torch.frombuffer(bytearray(kept), dtype=torch.float32).mul(factor).numpy().tobytes()
    return values


class Sum:
    """One that is under way."""

    def __init__(self, values: Any, sent: Any, work: Any) -> None:
        self._values, self._sent, self._work = values, sent, work

    def wait(self) -> None:
        """Blocks for the group's timeout at most. Raises RuntimeError of a group that failed."""
        self._work.wait()
        if self._sent is not self._values:
            self._values.copy_(self._sent)
