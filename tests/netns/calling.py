"""A member of a group that calls one collective again and again, until the first one reads a line.

Arguments: its rank, the operation (`all_reduce`, or `broadcast` from rank 0), how many float32, and the
nodes of all members. Prints when each operation began and how long it took, then "over"; it leaves when its
standard input ends.
"""

import os
import sys
import threading
import time

import numpy as np
import square

TIMEOUT_SECONDS = 120.0


def main() -> None:
    rank, op, size, names = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    is_over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.readline()
        is_over.set()

    if rank == 0:
        threading.Thread(target=wait_for_the_end, daemon=True).start()
    host = os.environ["SQUARE_INTERFACE"]
    with (
        square.Node(
            names[rank],
            os.environ["SQUARE_CONTROLLER"],
            bind_address=f"{host}:0",
            identity=os.environ["SQUARE_IDENTITY"],
        ) as node,
        square.Communicator(node, "job", "alice", names, rank, timeout=TIMEOUT_SECONDS) as group,
    ):
        data, last = np.empty(size, "float32"), np.zeros(1, "float32")
        count, step = len(names), 0
        while not last[0]:
            step += 1
            data[:] = step + rank
            begun = time.monotonic()
            if op == "broadcast":
                group.broadcast(data, 0, timeout=TIMEOUT_SECONDS)
                expected = float(step)
            else:
                group.all_reduce(data, timeout=TIMEOUT_SECONDS)
                expected = step * count + count * (count - 1) / 2
            took = time.monotonic() - begun
            last[0] = rank == 0 and is_over.is_set()
            group.all_reduce(last, timeout=TIMEOUT_SECONDS)
            print(begun, took, flush=True)
            assert (data == expected).all(), f"operation {step} is wrong"
        print("over", flush=True)
        sys.stdin.read()


main()
