"""What the roots send, and how it is compared."""

import hashlib
import random
from pathlib import Path

from square.errors import DataLossError, InvalidArgumentError, NotFoundError

_CHUNK_BYTES = 1 << 20


def size_of(file: Path) -> int:
    """The size of an input file. Raises if it is not a readable regular file."""
    try:
        with file.open("rb"):
            size = file.stat().st_size
    except FileNotFoundError:
        raise NotFoundError(f"{file}: there is no such file; --input names the bytes to send") from None
    except OSError as error:
        raise InvalidArgumentError(f"{file}: cannot be read: {error.strerror}") from None
    if not file.is_file():
        raise InvalidArgumentError(f"{file}: is not a regular file; --input takes one")
    return size


def read_file(file: Path, buffer: bytearray) -> None:
    """Fills the buffer from a file of exactly its size."""
    with file.open("rb") as source, memoryview(buffer) as view:
        filled = 0
        while filled < len(buffer) and (count := source.readinto(view[filled:])):
            filled += count
        if filled < len(buffer) or source.read(1):
            raise DataLossError(f"{file}: changed its size while it was read")


def generate(seed: int, collective: int, buffer: bytearray) -> None:
    """Fills the buffer with random bytes, the same for the same seed and collective."""
    _fill(random.Random(f"square payload {seed} {collective}"), buffer, once=False)


def overwrite(run: int, buffer: bytearray) -> None:
    """Fills a destination's buffer with bytes that no earlier broadcast could have left."""
    _fill(random.Random(f"square nothing {run}"), buffer, once=True)


def _fill(source: random.Random, buffer: bytearray, *, once: bool) -> None:
    block = source.randbytes(min(_CHUNK_BYTES, len(buffer)))
    with memoryview(buffer) as view:
        for begin in range(0, len(buffer), _CHUNK_BYTES):
            part = view[begin : begin + _CHUNK_BYTES]
            part[:] = block[: len(part)]
            if not once:
                block = source.randbytes(min(_CHUNK_BYTES, len(buffer) - begin))


def digest(buffer: bytearray) -> str:
    return hashlib.sha256(buffer).hexdigest()
