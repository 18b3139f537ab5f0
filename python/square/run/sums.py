"""What members add, and what the sum must be.

Whole numbers as float32, so small that they add exactly in any order: the sum has one right
answer, bit by bit. Every megabyte is the rank's own base, turned by another distance, which is the
same for all ranks: so the sum is the sum of the bases, turned likewise, and costs little.
"""

import hashlib
import random
from array import array
from collections.abc import Iterator
from functools import lru_cache

ELEMENT_BYTES = 4
# Of a base. Sums of 4096 ranks stay far below the 2^24 that float32 counts to.
_BASE_ELEMENTS = 1 << 18
_MIDDLE = 128


def generate(seed: int, collective: int, rank: int, buffer: bytearray) -> None:
    """Fills a member's input, the same for the same seed, collective and rank."""
    base = _base(seed, collective, rank, len(buffer) // ELEMENT_BYTES)
    filled = 0
    with memoryview(buffer) as view:
        for part in _turned(seed, collective, base, len(buffer)):
            view[filled : filled + len(part)] = part
            filled += len(part)


@lru_cache(maxsize=256)
def digest_of_sum(seed: int, collective: int, ranks: int, size_bytes: int) -> str:
    """The SHA-256 of what all ranks' inputs add up to."""
    elements = size_bytes // ELEMENT_BYTES
    total = _base(seed, collective, 0, elements)
    for rank in range(1, ranks):
        base = _base(seed, collective, rank, elements)
        total = array("f", [left + right for left, right in zip(total, base, strict=True)])
    found = hashlib.sha256()
    for part in _turned(seed, collective, total, size_bytes):
        found.update(part)
    return found.hexdigest()


def _base(seed: int, collective: int, rank: int, elements: int) -> "array[float]":
    source = random.Random(f"square sum {seed} {collective} {rank}")
    return array("f", [byte - _MIDDLE for byte in source.randbytes(min(elements, _BASE_ELEMENTS))])


def _turned(seed: int, collective: int, base: "array[float]", size_bytes: int) -> Iterator[bytes]:
    source = random.Random(f"square turn {seed} {collective}")
    left = size_bytes // ELEMENT_BYTES
    while left > 0:
        middle = source.randrange(len(base))
        part = (base[middle:] + base[:middle])[:left]
        yield part.tobytes()
        left -= len(part)
