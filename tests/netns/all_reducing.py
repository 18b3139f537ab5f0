"""A member of a group that all-reduces without a pause, until the first one reads a line.

Arguments: its rank, and the nodes of all members. Prints when each operation began and how long it took, then
"over"; it leaves when its standard input ends.
"""

import os
import sys
import threading
import time

import numpy as np
import square

SIZE = 250_000  # elements of float32
TIMEOUT_SECONDS = 60.0


def main() -> None:
    rank, names = int(sys.argv[1]), sys.argv[2:]
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
            token=os.environ["SQUARE_TOKEN"],
        ) as node,
        square.Communicator(node, "job", "alice", names, rank) as group,
    ):
        data, last = np.empty(SIZE, "float32"), np.zeros(1, "float32")
        step = 0
        while not last[0]:
            step += 1
            data[:] = step + rank
            last[0] = rank == 0 and is_over.is_set()
            begun = time.monotonic()
            group.all_reduce(data, timeout=TIMEOUT_SECONDS)
            group.all_reduce(last, timeout=TIMEOUT_SECONDS)
            print(begun, time.monotonic() - begun, flush=True)
            count = len(names)
            assert (data == step * count + count * (count - 1) / 2).all(), f"operation {step} is wrong"
        print("over", flush=True)
        sys.stdin.read()


main()
