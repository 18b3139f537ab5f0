"""What all members share, from several of them at once: in parts, each with a checksum.

All members have the same bits, so every part may come from any. Who joins asks each for parts as large as it
delivers in about PART_SECONDS, the next one before the last has come; so all ways are busy until the end,
whatever their rates. Parts are messages of the group, planned like all others.
"""

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from square.errors import DataLossError

_log = logging.getLogger("square.diloco")

# Of messages between members; a program's own have smaller ones.
TAG = 0x5D11
# Parts that one member has been asked for at a time.
DEPTH = 3
PART_SECONDS = 0.3
LEAST_PART, FIRST_PART, MOST_PART = 32 << 10, 256 << 10, 16 << 20
# After so many wrong checksums a member is asked for nothing more.
MOST_WRONG = 3
_CHECKSUM_BYTES = 8


class Catalogue:
    """Tensors, one behind the other, as bytes."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._pieces = [one.detach().reshape(-1).view(torch.uint8) for one in tensors if one.numel()]
        self.size = sum(piece.numel() for piece in self._pieces)

    def read(self, offset: int, into: Any) -> None:
        for piece, place in self._cut(offset, into):
            place.copy_(piece)

    def write(self, offset: int, values: Any) -> None:
        for piece, place in self._cut(offset, values):
            piece.copy_(place)

    def _cut(self, offset: int, values: Any) -> list[tuple[Any, Any]]:
        pairs, done = [], 0
        for piece in self._pieces:
            if offset >= piece.numel():
                offset -= piece.numel()
                continue
            length = min(piece.numel() - offset, values.numel() - done)
            if not length:
                break
            pairs.append((piece[offset : offset + length], values[done : done + length]))
            offset, done = 0, done + length
        return pairs


class Server(threading.Thread):
    """Gives parts to one that joins, beside the training, until that has all or the group has failed."""

    def __init__(self, group: Any, catalogue: Catalogue, rank: int) -> None:
        super().__init__(name=f"square.diloco handover to rank {rank}", daemon=True)
        self._group, self._catalogue, self._rank = group, catalogue, rank
        self.sent_bytes = 0

    def run(self) -> None:
        try:
            self._serve()
        except RuntimeError as error:
            _log.info("the handover to rank %d has ended: %s", self._rank, error)

    def _serve(self) -> None:
        asked = torch.zeros(2, dtype=torch.int64)
        under_way: deque[Any] = deque()
        while True:
            self._group.recv([asked], self._rank, TAG).wait()
            offset, length = asked.tolist()
            if not length:
                break
            self._check(offset, length)
            message = torch.empty(_CHECKSUM_BYTES + length, dtype=torch.uint8)
            self._catalogue.read(offset, message[_CHECKSUM_BYTES:])
            _mark(message)
            under_way.append(self._group.send([message], self._rank, TAG))
            self.sent_bytes += length
            if len(under_way) > DEPTH:
                under_way.popleft().wait()
        for work in under_way:
            work.wait()

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or not 0 < length <= MOST_PART or offset + length > self._catalogue.size:
            raise RuntimeError(
                f"rank {self._rank} asked for {length} bytes from {offset} on; a part has 1 to {MOST_PART} "
                f"bytes of {self._catalogue.size}"
            )


class Intake:
    """What is still missing of a catalogue. It goes on in another group where one fails."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._missing: deque[tuple[int, int]] = deque([(0, catalogue.size)] if catalogue.size else [])
        self._left = catalogue.size
        self._changed = threading.Condition()
        self._rates: dict[int, float] = {}
        self._failure: Exception | None = None
        self.received_bytes: dict[int, int] = {}
        self.wrong: dict[int, int] = {}

    def fetch(self, group: Any, sources: Sequence[int]) -> None:
        """All that is missing. Raises RuntimeError where the group fails, and DataLossError where no member's
        parts are right."""
        self._failure, self._rates = None, dict.fromkeys(sources, 0.0)
        self.received_bytes, self.wrong = dict.fromkeys(sources, 0), dict.fromkeys(sources, 0)
        threads = [threading.Thread(target=self._run, args=(group, one), daemon=True) for one in sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise RuntimeError(f"diloco: the handover has failed: {self._failure}") from self._failure
        if self._left:
            raise DataLossError("diloco: no member's parts have the checksums that they say")

    def _run(self, group: Any, source: int) -> None:
        try:
            self._draw(group, source)
            group.send([torch.zeros(2, dtype=torch.int64)], source, TAG).wait()
        except Exception as error:
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _draw(self, group: Any, source: int) -> None:
        asked: deque[tuple[int, Any, Any]] = deque()
        begun = time.monotonic()
        try:
            while True:
                while len(asked) < DEPTH and (part := self._take(source, waits=not asked)):
                    message = torch.empty(_CHECKSUM_BYTES + part[1], dtype=torch.uint8)
                    asked.append((part[0], message, group.recv([message], source, TAG)))
                    group.send([torch.tensor(part)], source, TAG)
                if not asked:
                    return
                offset, message, work = asked[0]
                work.wait()
                asked.popleft()
                self._put(source, offset, message, time.monotonic() - begun)
        finally:
            with self._changed:
                self._missing.extendleft(
                    (offset, message.numel() - _CHECKSUM_BYTES) for offset, message, _ in asked
                )

    def _take(self, source: int, *, waits: bool) -> tuple[int, int] | None:
        """The next part to ask this one for; None if there is none now, or, where it waits, ever."""
        with self._changed:
            while not self._missing and waits and self._left and self._failure is None:
                self._changed.wait()
            if not self._missing or self._failure is not None or self.wrong[source] >= MOST_WRONG:
                return None
            offset, length = self._missing.popleft()
            size = min(length, self._size(source))
            if size < length:
                self._missing.appendleft((offset + size, length - size))
            return offset, size

    def _size(self, source: int) -> int:
        rate, whole = self._rates[source], sum(self._rates.values())
        if not rate:
            return FIRST_PART
        # Towards the end smaller ones, so that all members are through at about the same time.
        even = self._left * rate / whole / (2 * DEPTH)
        return int(min(max(LEAST_PART, min(rate * PART_SECONDS, even)), MOST_PART))

    def _put(self, source: int, offset: int, message: Any, seconds: float) -> None:
        length = message.numel() - _CHECKSUM_BYTES
        is_right = _is_marked(message)
        if is_right:
            self._catalogue.write(offset, message[_CHECKSUM_BYTES:])
        with self._changed:
            if is_right:
                self._left -= length
                self.received_bytes[source] += length
                self._rates[source] = self.received_bytes[source] / max(seconds, 1e-6)
            else:
                self.wrong[source] += 1
                self._missing.append((offset, length))
                _log.warning(
                    "%d bytes of rank %d have a wrong checksum; they are asked for again", length, source
                )
            self._changed.notify_all()


def checksum(values: Any) -> int:
    return zlib.crc32(memoryview(values.numpy()))


def _mark(message: Any) -> None:
    found = checksum(message[_CHECKSUM_BYTES:])
    message[:_CHECKSUM_BYTES] = torch.tensor([found], dtype=torch.int64).view(torch.uint8)


def _is_marked(message: Any) -> bool:
    said = int(message[:_CHECKSUM_BYTES].clone().view(torch.int64)[0])
    return said == checksum(message[_CHECKSUM_BYTES:])
