"""What making a torch group of processes of one host takes: square against gloo, in turn.

A round forks a process for every rank from one that has imported torch and nothing else, as a launcher
does. All begin at the same moment, and a part is over when it is over in every one of them:

    import  what init_process_group imports: square and its libraries, nothing more for gloo
    first   init_process_group and a barrier, in a process that has made no group before
    more    new_group and a barrier in it, with the groups of before still there
    leave   destroy_process_group
    again   init_process_group and a barrier, after that, in the same processes

Asked: `first`, `more` and `again` at most 1.2 times Gloo's in the middle of all rounds, else exit code 1.
CPU seconds are those of all ranks together. Run it where torch is installed (pip install "square[torch]").

    python benchmarks/torch_group.py [--processes 4] [--rounds 20] [--store file] [--json]
"""

import argparse
import gc
import importlib.util
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

MOST_OF_GLOO = 1.2
PEERS = ("gloo", "square")
PARTS = ("import", "first", "more", "leave", "again")
ASKED = ("first", "more", "again")
ROUND_SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """One rank of one round."""

    rank: int
    size: int
    peer: str
    # A file's name, or the port of a TCPStore.
    store: str | int
    prefix: str


@dataclass(frozen=True)
class Took:
    """One part of one rank; begin and end by the machine's clock."""

    begin: float
    end: float
    cpu_seconds: float


def open_store(place: Place) -> Any:
    from torch import distributed

    if isinstance(place.store, str):
        return distributed.FileStore(f"{place.store}/{place.prefix}", place.size)
    return distributed.PrefixStore(place.prefix, distributed.TCPStore("127.0.0.1", place.store))


def run_rank(place: Place, line: Barrier, results: Connection) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = open_store(place)

    def load() -> None:
        if place.peer == "square":
            import square.torch  # noqa: F401

    def make(prefix: str) -> None:
        distributed.init_process_group(
            place.peer,
            store=distributed.PrefixStore(prefix, store),
            rank=place.rank,
            world_size=place.size,
        )
        distributed.barrier()

    def make_more() -> None:
        distributed.barrier(group=distributed.new_group())

    def timed(part: Callable[[], object]) -> Took:
        line.wait(ROUND_SECONDS)
        begin, cpu = time.monotonic(), time.process_time()
        part()
        return Took(begin, time.monotonic(), time.process_time() - cpu)

    took = [
        timed(load),
        timed(lambda: make("first")),
        timed(make_more),
        timed(distributed.destroy_process_group),
        timed(lambda: make("again")),
    ]
    results.send(took)
    distributed.destroy_process_group()


def serve_store(port: Connection) -> None:
    from torch import distributed

    server = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port.send(server.port)
    port.poll(None)  # until the contest is over


class Contest:
    """Rounds of each peer, from one process that has imported torch and has no threads."""

    def __init__(self, processes: int, store: str, folder: str) -> None:
        import torch.distributed  # noqa: F401

        # Or else the first collection in a child copies every page of torch's objects, whoever is measured.
        gc.freeze()
        self._processes = processes
        self._rounds = 0
        self._context = multiprocessing.get_context("fork")
        self._store: str | int = folder
        if store == "tcp":
            self._line, theirs = self._context.Pipe()
            self._context.Process(target=serve_store, args=(theirs,), daemon=True).start()
            self._store = self._line.recv()

    def play(self, peer: str) -> dict[str, tuple[float, float]]:
        """Seconds and CPU seconds of every part of one round."""
        self._rounds += 1
        line = self._context.Barrier(self._processes)
        members = []
        for rank in range(self._processes):
            place = Place(rank, self._processes, peer, self._store, f"round-{self._rounds}")
            ours, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(target=run_rank, args=(place, line, theirs), daemon=True)
            process.start()
            theirs.close()
            members.append((process, ours))
        ranks = [self._result(ours) for _, ours in members]
        for process, _ in members:
            process.join(ROUND_SECONDS)
        return {
            part: (
                max(rank[place].end for rank in ranks) - min(rank[place].begin for rank in ranks),
                sum(rank[place].cpu_seconds for rank in ranks),
            )
            for place, part in enumerate(PARTS)
        }

    @staticmethod
    def _result(connection: Connection) -> list[Took]:
        if not connection.poll(ROUND_SECONDS):
            raise RuntimeError(f"a rank has said nothing for {ROUND_SECONDS:g} s")
        took: list[Took] = connection.recv()
        return took


def measure(processes: int, rounds: int, store: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    found: dict[str, dict[str, list[tuple[float, float]]]] = {
        peer: {part: [] for part in PARTS} for peer in PEERS
    }
    with tempfile.TemporaryDirectory() as folder:
        contest = Contest(processes, store, folder)
        for peer in PEERS:
            contest.play(peer)  # files that nobody has read yet
        for _ in range(rounds):
            for peer in PEERS:
                for part, took in contest.play(peer).items():
                    found[peer][part].append(took)
    return found


def report(found: dict[str, dict[str, list[tuple[float, float]]]]) -> tuple[dict[str, Any], list[str], float]:
    figures: dict[str, Any] = {}
    lines = []
    worst = 0.0
    for part in PARTS:
        seconds = {peer: statistics.median(took for took, _ in found[peer][part]) for peer in PEERS}
        cpu = {peer: statistics.median(spent for _, spent in found[peer][part]) for peer in PEERS}
        ratio = seconds["square"] / seconds["gloo"]
        if part in ASKED:
            worst = max(worst, ratio)
        figures[part] = {f"{peer}_seconds": seconds[peer] for peer in PEERS}
        figures[part] |= {f"{peer}_cpu_seconds": cpu[peer] for peer in PEERS} | {"ratio": ratio}
        compared = f": {ratio:.2f} (at most {MOST_OF_GLOO:.2f})" if part in ASKED else ""
        lines.append(
            f"{part:6} square {1e3 * seconds['square']:6.1f} ms, {1e3 * cpu['square']:6.1f} of CPU; "
            f"gloo {1e3 * seconds['gloo']:6.1f} ms, {1e3 * cpu['gloo']:6.1f} of CPU{compared}"
        )
    return figures, lines, worst


def main() -> int:
    parser = argparse.ArgumentParser(description="Making a torch group on one host, square against gloo.")
    parser.add_argument("--processes", type=int, default=4, help="of the group (default 4)")
    parser.add_argument("--rounds", type=int, default=20, help="of each backend (default 20)")
    parser.add_argument("--store", choices=["tcp", "file"], default="tcp", help="of torch (default tcp)")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print(
            f'torch cannot be imported by {sys.executable}: install it there (pip install "square[torch]"), '
            "or run this with a Python that has it",
            file=sys.stderr,
        )
        return 1
    figures, lines, ratio = report(measure(options.processes, options.rounds, options.store))
    # Only now: it imports square, and ranks are forked from processes that have not.
    from loopback import gloo_version, heading, show

    about = heading("making a torch group") | {
        "torch": gloo_version(),
        "processes": options.processes,
        "rounds": options.rounds,
        "store": options.store,
    }
    show(about | figures, lines, as_json=options.json)
    return 0 if ratio <= MOST_OF_GLOO else 1


if __name__ == "__main__":
    sys.exit(main())
