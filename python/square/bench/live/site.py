"""One site of a live overlay: a node, and the members of groups that live there.

    python -m square.bench.live.site

Commands are lines of JSON on standard input, what it says lines of JSON on standard output. It ends with its
input.
"""

import json
import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from square._core import Communicator, Node, Work
from square.errors import SquareError

SAMPLE_SECONDS = 0.1
# Of broadcasts of one group under way: with two there is no pause between one and the next.
DEPTH = 2
# One more than DEPTH: what an operation leaves in a buffer is not what the next one there has to bring.
PATTERNS = DEPTH + 1
CALL_SECONDS = 120.0


def pattern(number: int, size_bytes: int) -> bytes:
    """What broadcast ``number`` carries: no two that could be taken for one another are alike."""
    word = f"{number % PATTERNS}:square:".encode()
    return (word * (size_bytes // len(word) + 1))[:size_bytes]


class Member:
    """Broadcasts from rank 0 without a pause, on a thread of its own, until it is told to end."""

    def __init__(self, site: "Site", command: dict[str, Any]) -> None:
        self._site = site
        self._group = command["group"]
        self._command = command
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        try:
            self._broadcast()
        except SquareError as error:
            # The others may have heard of the end a moment before.
            self._site.say(failed=str(error), group=self._group)

    def _broadcast(self) -> None:
        assert self._site.node is not None
        rank, members, size = self._command["rank"], self._command["members"], self._command["chunk_bytes"]
        patterns = [pattern(number, size) for number in range(PATTERNS)]
        buffers = [bytearray(size) for _ in range(DEPTH)]
        works: deque[Work] = deque()
        planned = [("broadcast", 0, size, 1.0)]
        with Communicator(
            self._site.node, self._group, self._command["tenant"], members, rank, planned, CALL_SECONDS
        ) as group:
            self._site.say(begun=self._group)
            done = 0
            while not self._ended.is_set():
                while len(works) < DEPTH:
                    number = done + len(works)
                    data = patterns[number % PATTERNS] if rank == 0 else buffers[number % DEPTH]
                    works.append(group.broadcast_async(data, 0, timeout=CALL_SECONDS))
                if not works[0].wait_for(SAMPLE_SECONDS):
                    continue
                works.popleft().wait()
                if rank != 0 and buffers[done % DEPTH] != patterns[done % PATTERNS]:
                    self._site.say(failed=f"broadcast {done} brought other bytes", group=self._group)
                    return
                done += 1
            for work in works:
                work.cancel()
            for work in works:
                with suppress(SquareError):
                    work.wait()
        self._site.say(ended=self._group, verified_bytes=0 if rank == 0 else done * size)


class Site:
    def __init__(self) -> None:
        self.node: Node | None = None
        self._members: dict[str, Member] = {}
        self._lock = threading.Lock()
        # What libraries print must not mix with it.
        self._output = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)

    def say(self, **fields: Any) -> None:
        with self._lock:
            print(json.dumps(fields), file=self._output)

    def execute(self, command: dict[str, Any]) -> None:
        match command.pop("do"):
            case "join":
                self.node = Node(**command)
                self.say(joined=self.node.address)
                threading.Thread(target=self._sample, daemon=True).start()
            case "begin":
                self._members[command["group"]] = Member(self, command)
            case "end":
                self._members.pop(command["group"]).end()

    def _sample(self) -> None:
        assert self.node is not None
        while True:
            tenants = self.node.metrics()["tenants"]
            delivered = {row["tenant"]: row["bytes_delivered"] for row in tenants}
            self.say(at=time.monotonic(), delivered=delivered)
            time.sleep(SAMPLE_SECONDS)


def main() -> None:
    site = Site()
    for line in sys.stdin:
        try:
            site.execute(json.loads(line))
        except SquareError as error:
            site.say(failed=str(error), group=None)
    os._exit(0)  # members may be in a call


if __name__ == "__main__":
    main()
