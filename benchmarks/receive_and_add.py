"""A tensor added into the receiver's tensor over one link, against plain TCP sockets and NumPy.

Two processes, unpaced, float32; malloc keeps what is freed. Square runs a reduce. Exit code 1 if its
rate is under 0.85 of TCP's with the same addition.

    python benchmarks/receive_and_add.py [--congestion cubic] [--mib 64] [--json]
"""

import argparse
import socket
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import square
from loopback import (
    CALL_SECONDS,
    CHUNK_BYTES,
    MIB,
    START_SECONDS,
    Mailbox,
    Member,
    TcpPeer,
    add_common_options,
    contest,
    enter_namespace,
    heading,
    show,
)

LEAST_OF_TCP = 0.85
NAMES = ["sender", "receiver"]
RECEIVER = 1


class TcpAdder(TcpPeer):
    """Receives 1 MiB at a time and adds it while it is in the cache."""

    _scratch = np.empty(CHUNK_BYTES // 4, np.float32)

    def _receive(self, buffer: bytearray) -> None:
        numbers = np.frombuffer(buffer, np.float32)
        for begin in range(0, len(numbers), len(self._scratch)):
            part = numbers[begin : begin + len(self._scratch)]
            chunk = self._scratch[: len(part)]
            view = memoryview(chunk).cast("B")
            if self._socket.recv_into(view, len(view), socket.MSG_WAITALL) != len(view):
                raise ConnectionError("the sender went away")
            np.add(part, chunk, out=part)


class SquareAdder:
    """Communicator.reduce over an unpaced link."""

    def __init__(self, rank: int, controller: str, size_bytes: int) -> None:
        self.node = square.Node(NAMES[rank], controller, paced=False)
        self._communicator = square.Communicator(
            self.node,
            "benchmark",
            "benchmark",
            NAMES,
            rank,
            collectives=[("reduce", RECEIVER, size_bytes, 1.0)],
            timeout=START_SECONDS,
        )

    def post(self, buffer: bytearray) -> Callable[[], object]:
        numbers = memoryview(buffer).cast("f")
        return self._communicator.reduce_async(numbers, root=RECEIVER, timeout=CALL_SECONDS).wait


class Adder(Member):
    """The sender has ones, so the receiver counts the rounds."""

    def __init__(self, rank: int, *arguments: Any) -> None:
        super().__init__(rank, *arguments)
        np.frombuffer(self.buffer, np.float32)[:] = 1.0 if rank == 0 else 0.0
        self._rounds = 0

    def prepare(self, peer: str, *arguments: Any) -> None:
        if peer == "tcp":
            self.peers[peer] = TcpAdder(self.rank, Mailbox(self.others))
        else:
            self.peers[peer] = SquareAdder(self.rank, *arguments)

    def clear(self) -> None:
        pass

    def rounds(self, peer: str, count: int) -> tuple[list[float], float]:
        self._rounds += count
        return super().rounds(peer, count)

    def checksum(self) -> int:
        """0 if every number is what it should be."""
        expected = 1.0 if self.rank == 0 else float(self._rounds)
        return 0 if np.all(np.frombuffer(self.buffer, np.float32) == expected) else 1 + self.rank


def controller(size_bytes: int) -> square.Controller:
    topology = square.Topology()
    for name in NAMES:
        topology.add_node(name)
    topology.add_link("sender", "receiver")
    tensor = square.Collective(
        "benchmark", op="reduce", root="receiver", members=NAMES, size_bytes=size_bytes
    )
    return square.Controller(square.Scenario(topology, collectives=[tensor], policy=square.Policy("exact")))


def main() -> int:
    parser = argparse.ArgumentParser(description="One tensor added over one link, against TCP.")
    add_common_options(parser)
    options = parser.parse_args()
    if (code := enter_namespace(options)) is not None:
        return code
    size_bytes = options.mib * MIB
    figures = heading("receive and add")
    with controller(size_bytes) as control, contest(2, size_bytes, tuned=True, member=Adder) as pair:
        pair.add("tcp")
        pair.add("square", control.address, size_bytes)
        pair.run(options.warm_up, options.turns, options.rounds)
        tcp, ours = pair.results["tcp"], pair.results["square"]
    ratio = ours.rate() / tcp.rate()
    cpu = (ours.cpu_per_gb(), tcp.cpu_per_gb())
    figures |= {"tcp_gb_per_second": tcp.rate(), "square_gb_per_second": ours.rate(), "rate_ratio": ratio}
    figures |= ours.cost(hops=1).figures()
    figures |= {"square_cpu_seconds_per_gb": cpu[0], "tcp_cpu_seconds_per_gb": cpu[1]}
    line = (
        f"Square {ours.rate():.2f} GB/s, TCP {tcp.rate():.2f}: {ratio:.2f} (at least {LEAST_OF_TCP:.2f}); "
        f"CPU s/GB Square {cpu[0]:.2f}, TCP {cpu[1]:.2f}; {ours.cost(hops=1).line()}"
    )
    show(figures, [line], as_json=options.json)
    return 0 if ratio >= LEAST_OF_TCP else 1


if __name__ == "__main__":
    sys.exit(main())
