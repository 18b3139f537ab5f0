"""A server's round: push, update, snapshot and pull of a large shard, and how far they overlap.

One master, one server in a process of its own, and one worker that pushes deltas of all elements. The time
of a round should approach push + max(update, pull, snapshot); the update is beside a copy of as much memory.

    python benchmarks/ps_round.py [--elements 250000000] [--rounds 5] [--snapshots FOLDER] [--push bf16]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import square.ps

# What one step of Nesterov reads and writes for an element: three arrays and two, of float32.
BYTES_OF_UPDATE = 20
TENSORS = 25


def copy_bytes_per_second() -> float:
    """Of memory that is read and written by one thread, the best of three."""
    source = np.ones(64 << 20, np.float32)
    target = np.empty_like(source)
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        np.copyto(target, source)
        best = max(best, 2 * source.nbytes / (time.perf_counter() - begun))
    return best


def peak_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    step = square.ps.Nesterov(0.7, 0.8)
    with square.ps.Master(outer=step, penalty=None, push=options.push, grace=0.0, lease=30) as master:
        server = subprocess.Popen(
            [sys.executable, "-m", "square", "ps", "server", "--master", master.address,
             "--snapshots", folder,
             "--keep", "2", "--threads", str(options.threads)],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            return _rounds(options, master, server.pid)
        finally:
            server.terminate()
            server.communicate()


def _rounds(options: argparse.Namespace, master: square.ps.Master, server: int) -> dict[str, Any]:
    size = options.elements // TENSORS
    model = {f"layer {number}": np.zeros(size, np.float32) for number in range(TENSORS)}
    rounds = []
    with square.ps.Worker(model, master=master.address, timeout=600) as worker:
        for number in range(options.rounds):
            for tensor in model.values():
                tensor -= np.float32(1e-3)
            worker.consumed(1)
            begun = time.perf_counter()
            came = worker.sync()
            while came.outcome == "goes on":  # where the disk is slow a trainer would train meanwhile
                came = worker.pull(timeout=0.05)
            spent = time.perf_counter() - begun
            if came.outcome != "adopted":
                raise SystemExit(f"round {number}: {came}")
            status = master.status()
            of_worker, of_server = status.workers[0], status.servers[0]
            rest = max(of_server.update_seconds, of_worker.pull_seconds, of_server.snapshot_seconds)
            rounds.append(
                {
                    "round": spent,
                    "push": of_worker.push_seconds,
                    "update": of_server.update_seconds,
                    "snapshot": of_server.snapshot_seconds,
                    "pull": of_worker.pull_seconds,
                    "over_bound": spent / (of_worker.push_seconds + rest),
                }
            )
            print(rounds[-1], file=sys.stderr, flush=True)
        peak = peak_bytes(server)
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    update = size * TENSORS * BYTES_OF_UPDATE / median["update"]
    copy = copy_bytes_per_second()
    return {
        "elements": size * TENSORS,
        "median_seconds": median,
        "update_bytes_per_second": update,
        "copy_bytes_per_second": copy,
        "update_over_copy": update / copy,
        "server_peak_bytes": peak,
        "server_peak_over_shard": peak / (4 * size * TENSORS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", type=int, default=250_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--snapshots", type=Path, help="a folder on the disk to measure; else a temporary one"
    )
    parser.add_argument("--push", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.snapshots) as folder:
        result = measure(options, folder)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result["median_seconds"].items():
        print(f"{name:<12} {value:8.3f}")
    copy = result["copy_bytes_per_second"] / 1e9
    print(f"update at {result['update_over_copy']:.2f} of a copy's {copy:.1f} GB/s")
    print(f"the server took {result['server_peak_over_shard']:.2f} times the shard's bytes")


if __name__ == "__main__":
    main()
