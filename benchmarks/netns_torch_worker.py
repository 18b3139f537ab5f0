"""One rank of torch.distributed in a network namespace of its own: see netns_torch.py.

Reads all-reduces to time as JSON, one a line, and answers each with a line of JSON.
"""

import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

TIMEOUT = timedelta(seconds=280)


def all_reduce(command: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each round, from when all are ready, and whether the sums were right."""
    os.environ |= command["environment"]
    rank, size = command["rank"], command["size"]
    dist.init_process_group(command["backend"], rank=rank, world_size=size, timeout=TIMEOUT)
    seconds = []
    right = True
    for number in range(command["rounds"] + 1):
        tensor = torch.arange(command["elements"], dtype=torch.float32) % 1024 + rank
        # Registers its sessions, opens connections.
        small = torch.zeros(1)
        dist.all_reduce(small)
        begun = time.perf_counter()
        dist.all_reduce(tensor)
        if number > 0:
            seconds.append(time.perf_counter() - begun)
        dist.barrier()  # who is through first does not take the processor from the others
        expected = (torch.arange(command["elements"]) % 1024 * size + size * (size - 1) // 2).float()
        right = right and bool(torch.equal(tensor, expected))
    dist.barrier()
    dist.destroy_process_group()
    return {"seconds": seconds, "right": right}


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
    os.dup2(2, 1)  # what libraries print
    for line in sys.stdin:
        print(json.dumps(all_reduce(json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
