"""Ranks that are killed while they make a group, and come again to the same store.

    python restarted.py SEED ROUNDS PORT

Forks the ranks of every round, which is quick. Exits with 0 where each round ended with a sum of all ranks.
"""

import os
import random
import signal
import sys
import time
from datetime import timedelta

import square.torch  # noqa: F401 - the slow part, before the fork
import torch
from torch import distributed as dist

SIZE = 3
# A group is made in less, on a machine that is not busy.
LATEST_KILL_SECONDS = 0.12
TIMEOUT = timedelta(seconds=10)


def be_rank(rank: int, port: int, delay: float, nodes: list[str]) -> None:
    time.sleep(delay)
    os.environ["SQUARE_NODE"] = nodes[rank]
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("square", store=store, rank=rank, world_size=SIZE, timeout=TIMEOUT)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0].item() == SIZE
    dist.destroy_process_group()


def start(rank: int, port: int, delay: float, nodes: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        be_rank(rank, port, delay, nodes)
        status = 0
    except Exception as error:
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
    os._exit(status)


def end(children: list[int]) -> None:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def play(drawn: random.Random, port: int) -> bool:
    """Whether all ranks met at last."""
    nodes = drawn.choice([["a"] * SIZE, ["a", "b", "c"], ["a", "b", "b"]])

    def come(rank: int) -> int:
        return start(rank, port, drawn.choice([0, 0, drawn.uniform(0, 0.3)]), nodes)

    victim = drawn.randrange(SIZE)
    goes_alone = drawn.random() < 0.5
    # Where the others stay they must not be through before the victim is gone: one of them comes later.
    late = {(victim + 1) % SIZE} if goes_alone else set()
    children = {rank: come(rank) for rank in range(SIZE) if rank not in late}
    time.sleep(drawn.uniform(0, 0.3 + LATEST_KILL_SECONDS))
    gone = {victim} if goes_alone else set(range(SIZE))
    end([children[rank] for rank in sorted(gone)])
    children |= {rank: come(rank) for rank in sorted(gone | late)}
    ends = [os.waitpid(child, 0)[1] for child in children.values()]
    return not any(ends)


def main() -> int:
    drawn = random.Random(int(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        begun = time.monotonic()
        has_met = play(drawn, int(sys.argv[3]))
        print(f"round {number}: {has_met} after {time.monotonic() - begun:.1f} s", flush=True)
        if not has_met:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
