"""A job that adds gradients up for ever, two rounds in flight, until it gets a SIGTERM. For torchrun.

    torchrun --nproc-per-node 2 examples/two_tenants/job.py --report rates.jsonl

Reports after every round when it ended (time.monotonic()) and how many bytes were added up until then.
"""

import argparse
import json
import signal
import time
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TextIO

import torch
from torch import distributed

TENSORS = 2  # in a round
FLOAT_BYTES = 4


class Round:
    """Some all-reduces that were begun, and the vote whether the job stops after them."""

    def __init__(self, elements: int, is_asked_to_stop: bool) -> None:
        self.size_bytes = TENSORS * elements * FLOAT_BYTES
        self._vote = torch.tensor([int(is_asked_to_stop)])
        tensors = [torch.ones(elements) for _ in range(TENSORS)]
        self._works = [distributed.all_reduce(tensor, async_op=True) for tensor in tensors]
        self._works.append(distributed.all_reduce(self._vote, async_op=True))

    def wait(self) -> bool:
        """Whether a rank wants to stop: all ranks hear the same."""
        for work in self._works:
            work.wait()
        return bool(self._vote.item())


def add_up(elements: int, stop: Event, report: TextIO | None) -> None:
    total_bytes = 0
    waiting = [Round(elements, stop.is_set())]
    while waiting:
        # The next one is begun before this one ends, so that the link never waits for this program.
        following = Round(elements, stop.is_set())
        is_over = waiting[0].wait()
        total_bytes += waiting[0].size_bytes
        if report is not None:
            print(json.dumps({"at": time.monotonic(), "bytes": total_bytes}), file=report, flush=True)
        waiting = [] if is_over else [following]
    following.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="square")
    parser.add_argument("--elements", type=int, default=250_000, metavar="N", help="of each tensor (float32)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="of the first rank")
    options = parser.parse_args()

    stop = Event()

    def handle(_: int, __: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    distributed.init_process_group(options.backend)
    if distributed.get_rank() == 0 and options.report is not None:
        with options.report.open("w", encoding="ascii") as report:
            add_up(options.elements, stop, report)
    else:
        add_up(options.elements, stop, None)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
