"""torch.distributed.all_reduce among processes of this host: square against gloo, in turn.

Two and four processes, unpaced, float32. In each of them both backends have a group of all ranks and
take turns; a turn is a number of calls one after another. Asked: at least 1.0 of Gloo's rate with
64 MiB, at most 2.0 times its latency with 4 KiB, else exit code 1. Run it where torch is installed
(pip install "square[torch]").

    python benchmarks/torch_all_reduce.py [--processes 2] [--mib 64] [--congestion cubic] [--json]
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
from loopback import GB, MIB, Member, contest, enter_namespace, gloo_version, heading, show

LEAST_RATE_OF_GLOO = 1.0
MOST_LATENCY_OF_GLOO = 2.0
SMALL_BYTES = 4096
PEERS = ("gloo", "square")


class Rank(Member):
    """A member of one group of each backend."""

    def __init__(self, rank: int, *arguments: Any) -> None:
        super().__init__(rank, *arguments)
        # Only this benchmark's processes need torch.
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        self._torch = torch
        self._tensor = torch.zeros(self.size_bytes // 4)
        self._calls = 1
        self._wrong = 0
        self._groups: dict[str, Any] = {}

    def prepare(self, peer: str, *arguments: Any) -> None:
        distributed = self._torch.distributed
        if peer == "gloo":
            store_path, self._calls = arguments
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            store = distributed.FileStore(store_path, self.size)
            distributed.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size)
            self._groups[peer] = distributed.group.WORLD
        else:
            self._groups[peer] = distributed.new_group(backend="square")

    def clear(self) -> None:
        pass

    def checksum(self) -> int:
        """0 if every sum was right."""
        return self._wrong

    def rounds(self, peer: str, count: int) -> tuple[list[float], float]:
        """Seconds of one call by round."""
        all_reduce: Callable[..., object] = self._torch.distributed.all_reduce
        group = self._groups[peer]
        self._check(all_reduce, group)
        began = time.process_time()
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            for _ in range(self._calls):
                all_reduce(self._tensor, group=group)
            seconds.append((time.perf_counter() - start) / self._calls)
        return seconds, (time.process_time() - began) / self._calls

    def _check(self, all_reduce: Callable[..., object], group: Any) -> None:
        # Whole numbers: every order of additions gives the same bits. Zeros stay zeros afterwards.
        numbers = self._torch.arange(len(self._tensor), dtype=self._tensor.dtype) % 1021
        self._tensor.copy_(numbers).add_(self.rank)
        all_reduce(self._tensor, group=group)
        right = numbers * self.size + sum(range(self.size))
        if not self._torch.equal(self._tensor, right):
            self._wrong = 1 + self.rank
        self._tensor.zero_()


def measure(
    processes: int, size_bytes: int, calls: int, options: argparse.Namespace
) -> tuple[dict[str, float], machine.Cost]:
    """Microseconds of one call by peer, in the middle of all rounds; what those of square cost."""
    with (
        tempfile.TemporaryDirectory() as directory,
        contest(processes, size_bytes, tuned=False, member=Rank) as ranks,
    ):
        ranks.add("gloo", str(Path(directory) / "store"), calls)
        ranks.add("square")
        ranks.run(1, options.turns, options.rounds)
        # Each rank sends and receives what a ring does, or as much in trees.
        cost = ranks.results["square"].cost(hops=2 * (processes - 1))
        return {peer: 1e6 * statistics.median(ranks.results[peer].seconds) for peer in PEERS}, cost


def compare(processes: int, options: argparse.Namespace) -> tuple[dict[str, float | bool], list[str], bool]:
    large_bytes = options.mib * MIB
    large, cost = measure(processes, large_bytes, options.large_calls, options)
    small, _ = measure(processes, SMALL_BYTES, options.small_calls, options)
    rates = {peer: large_bytes / GB / (large[peer] / 1e6) for peer in PEERS}
    rate_ratio = rates["square"] / rates["gloo"]
    latency_ratio = small["square"] / small["gloo"]
    figures: dict[str, float | bool] = {f"{peer}_gb_per_second": rates[peer] for peer in PEERS}
    figures |= {f"{peer}_small_microseconds": small[peer] for peer in PEERS}
    figures |= cost.figures() | {"rate_ratio": rate_ratio, "latency_ratio": latency_ratio}
    lines = [
        f"{processes} processes, {options.mib} MiB: square {rates['square']:.2f} GB/s, gloo "
        f"{rates['gloo']:.2f}: {rate_ratio:.2f} (at least {LEAST_RATE_OF_GLOO:.2f}); {cost.line()}",
        f"{processes} processes, {SMALL_BYTES} bytes: square {small['square']:.0f} us, gloo "
        f"{small['gloo']:.0f}: {latency_ratio:.2f} (at most {MOST_LATENCY_OF_GLOO:.2f})",
    ]
    return figures, lines, rate_ratio >= LEAST_RATE_OF_GLOO and latency_ratio <= MOST_LATENCY_OF_GLOO


def main() -> int:
    parser = argparse.ArgumentParser(description="All-reduce of torch on one host, square against gloo.")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4], help="(default 2 4)")
    parser.add_argument("--mib", type=int, default=64, help="size of the large tensor (default 64)")
    parser.add_argument("--turns", type=int, default=5, help="of every peer (default 5)")
    parser.add_argument("--rounds", type=int, default=2, help="in each turn (default 2)")
    parser.add_argument("--large-calls", type=int, default=4, help="in a round (default 4)")
    parser.add_argument("--small-calls", type=int, default=100, help="in a round (default 100)")
    parser.add_argument(
        "--congestion",
        metavar="NAME",
        help="in a network namespace of its own whose loopback uses this one (root only)",
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    if (code := enter_namespace(options)) is not None:
        return code
    version = gloo_version()
    if version is None:
        print(
            f'torch cannot be imported by {sys.executable}: install it there (pip install "square[torch]"), '
            "or run this with a Python that has it",
            file=sys.stderr,
        )
        return 1
    figures = heading("all-reduce of torch") | {"torch": version}
    lines = []
    kept = True
    for processes in options.processes:
        found, said, is_good = compare(processes, options)
        figures[f"{processes}_processes"] = found
        lines += said
        kept = kept and is_good
    show(figures, lines, as_json=options.json)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
