"""A member in a process of its own: `python member_process.py NODE CONTROLLER`.

Reads one line of JSON for each group that it is to join: {"group", "members", "bytes"}, where members are
nodes in the order of ranks. Calls collectives there until rank 0 reads {"over": group}, or one fails.
Writes a line of JSON for each operation and for the end: {"group", "op", "begun", "seconds"}, {"group",
"over"} or {"group", "error", "at"}; times are of the machine's clock, which all processes share.
"""

import functools
import json
import logging
import queue
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import square

TIMEOUT_SECONDS = 60.0


class Member:
    def __init__(self, node: square.Node, name: str) -> None:
        self._node, self._name = node, name
        self._groups: queue.Queue[dict[str, Any]] = queue.Queue()
        self._over: set[str] = set()

    def read(self) -> None:
        for line in sys.stdin:
            said = json.loads(line)
            if "over" in said:
                self._over.add(said["over"])
            else:
                self._groups.put(said)
        self._groups.put({})

    def run(self) -> None:
        while said := self._groups.get():
            try:
                self._run_group(said)
                tell({"group": said["group"], "over": True})
            except square.errors.SquareError as error:
                words = f"{type(error).__name__}: {error}"
                tell({"group": said["group"], "error": words, "at": time.monotonic()})

    def _run_group(self, said: dict[str, Any]) -> None:
        group, members = said["group"], said["members"]
        rank, size = members.index(self._name), len(members)
        data, is_over = np.zeros(said["bytes"] // 4, "float32"), np.zeros(1, "float32")
        with square.Communicator(
            self._node, group, "alice", members, rank, timeout=TIMEOUT_SECONDS
        ) as joined:
            add = functools.partial(joined.all_reduce, data, timeout=TIMEOUT_SECONDS)
            step = 0
            while not is_over[0]:
                is_over[0] = rank == 0 and group in self._over
                joined.all_reduce(is_over, timeout=TIMEOUT_SECONDS)
                data[:] = rank + step
                self._time(group, "all_reduce", add)
                check(data, size * (size - 1) // 2 + size * step)
                root = step % size
                data[:] = step if rank == root else -1
                cast = functools.partial(joined.broadcast, data, root, timeout=TIMEOUT_SECONDS)
                self._time(group, "broadcast", cast)
                check(data, step)
                step += 1

    @staticmethod
    def _time(group: str, op: str, call: Any) -> None:
        begun = time.monotonic()
        call()
        tell({"group": group, "op": op, "begun": begun, "seconds": time.monotonic() - begun})


def check(data: np.ndarray, expected: float) -> None:
    if not (data == expected).all():
        raise SystemExit(f"wrong data: {data[data != expected][:5]} instead of {expected}")


def tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    name, controller = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.DEBUG)
    square.log.connect(logging.DEBUG)
    with square.Node(name, controller) as node:
        member = Member(node, name)
        threading.Thread(target=member.read, daemon=True).start()
        tell({"joined": name})
        member.run()


if __name__ == "__main__":
    main()
