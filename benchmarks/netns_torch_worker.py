"""One rank of torch.distributed in a network namespace of its own: see netns_torch.py.

Reads operations to time as JSON, one a line, and answers each with a line of JSON.
"""

import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import machine
import square
import torch
import torch.distributed as dist

TIMEOUT = timedelta(seconds=280)
SECURE_NODE = square.Node


class InsecureNode(SECURE_NODE):
    """torch's backend has no word for it, and needs none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options, insecure=True)


def run(command: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each round, from when all are ready, whether the results were right, CPU seconds."""
    os.environ |= command["environment"]
    rank, size, elements = command["rank"], command["size"], command["elements"]
    operation = {"all_reduce": dist.all_reduce, "broadcast": lambda tensor: dist.broadcast(tensor, 0)}[
        command["operation"]
    ]
    square.Node = InsecureNode if command["insecure"] else SECURE_NODE  # type: ignore[misc]
    if command["insecure"]:
        os.environ.pop("SQUARE_IDENTITY", None)
    dist.init_process_group(command["backend"], rank=rank, world_size=size, timeout=TIMEOUT)
    seconds = []
    right = True
    spent = busy = whole = 0.0
    for number in range(command["rounds"] + 1):
        tensor = (torch.arange(elements) % 1024 + rank).float()
        # Registers its sessions, opens connections.
        operation(torch.zeros(1))
        dist.barrier()
        processors, cpu = machine.processors(), time.process_time()
        begun = time.perf_counter()
        operation(tensor)
        if number > 0:
            seconds.append(time.perf_counter() - begun)
        dist.barrier()  # who is through first does not take the processor from the others
        if number > 0:
            spent += time.process_time() - cpu
            after = machine.processors()
            busy += after[0] - processors[0]
            whole += after[1] - processors[1]
        expected = torch.arange(elements) % 1024
        if command["operation"] == "all_reduce":
            expected = expected * size + size * (size - 1) // 2
        right = right and bool(torch.equal(tensor, expected.float()))
    dist.destroy_process_group()
    return {"seconds": seconds, "right": right, "cpu_seconds": spent, "busy": busy / max(whole, 1e-9)}


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
    os.dup2(2, 1)  # what libraries print
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
