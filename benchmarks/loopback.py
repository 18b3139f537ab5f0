"""Processes on this machine that carry the same bytes by several means, in turn.

Rank 0 is the root. A round is timed at the root: from the moment when every receiver waits in its
call until every receiver has said that it has every byte, so that no peer gains by returning early.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol

import machine
import square

MIB = 1 << 20
GB = 1e9
CHUNK_BYTES = MIB
START_SECONDS = 60.0
CALL_SECONDS = 60.0
# mallopt(3): memory of this size stays with the process. The program's choice, not the library's.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MALLOC_KEEPS_BYTES = 1 << 30
_IN_NAMESPACE = "SQUARE_BENCHMARK_NAMESPACE"


class Peer(Protocol):
    """One means of carrying the root's bytes into everybody's buffer."""

    def post(self, buffer: bytearray) -> Callable[[], object]:
        """Begins a round and returns what waits for its end here."""


class TcpPeer:
    """Plain sockets, 1 MiB at a time, from the root to one receiver."""

    def __init__(self, rank: int, port: "Mailbox") -> None:
        self._rank = rank
        if rank == 0:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                port.tell(listener.getsockname()[1])
                self._socket, _ = listener.accept()
        else:
            self._socket = socket.create_connection(("127.0.0.1", port.ask()))

    def post(self, buffer: bytearray) -> Callable[[], object]:
        return lambda: self._send(buffer) if self._rank == 0 else self._receive(buffer)

    def _send(self, buffer: bytearray) -> None:
        view = memoryview(buffer)
        for begin in range(0, len(view), CHUNK_BYTES):
            self._socket.sendall(view[begin : begin + CHUNK_BYTES])

    def _receive(self, buffer: bytearray) -> None:
        view = memoryview(buffer)
        filled = 0
        while filled < len(view):
            got = self._socket.recv_into(view[filled : filled + CHUNK_BYTES])
            if got == 0:
                raise ConnectionError("the sender went away")
            filled += got


class SquarePeer:
    """Communicator.broadcast over unpaced links."""

    def __init__(self, rank: int, controller: str, members: list[str], size_bytes: int) -> None:
        self.node = square.Node(members[rank], controller, paced=False)
        self._communicator = square.Communicator(
            self.node,
            "benchmark",
            "benchmark",
            members,
            rank,
            collectives=[("broadcast", 0, size_bytes, 1.0)],
            timeout=START_SECONDS,
        )

    def post(self, buffer: bytearray) -> Callable[[], object]:
        return self._communicator.broadcast_async(buffer, 0, CALL_SECONDS).wait


class GlooPeer:
    """torch.distributed.broadcast with the gloo backend."""

    def __init__(self, rank: int, size: int, store_path: str) -> None:
        # Only this peer needs torch, and the project does not depend on it.
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = torch.distributed.FileStore(store_path, size)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)

    def post(self, buffer: bytearray) -> Callable[[], object]:
        import torch

        tensor = torch.frombuffer(buffer, dtype=torch.uint8)
        return torch.distributed.broadcast(tensor, 0, async_op=True).wait


def gloo_version() -> str | None:
    """The version of torch if it can be imported."""
    try:
        import torch
    except ImportError:
        return None
    return str(torch.__version__)


class Mailbox:
    """A number that rank 0 tells the others."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections

    def tell(self, number: int) -> None:
        for connection in self._connections:
            connection.send(number)

    def ask(self) -> int:
        return int(self._connections[0].recv())


@dataclass
class Series:
    """What rounds of one peer took."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)  # by rank, or by rank and relay
    bytes: int = 0
    turn_seconds: float = 0.0
    busy: float = 0.0  # part of the machine's processors

    def add(self, other: "Series") -> None:
        self.seconds += other.seconds
        self.bytes += other.bytes
        total = self.turn_seconds + other.turn_seconds
        self.busy = (self.busy * self.turn_seconds + other.busy * other.turn_seconds) / max(total, 1e-9)
        self.turn_seconds = total
        if not self.cpu_seconds:
            self.cpu_seconds = [0.0] * len(other.cpu_seconds)
        pairs = zip(self.cpu_seconds, other.cpu_seconds, strict=True)
        self.cpu_seconds = [sum(pair) for pair in pairs]

    def rate(self) -> float:
        """GB/s of one round in the middle."""
        return self.bytes / len(self.seconds) / GB / statistics.median(self.seconds)

    def cpu_per_gb(self) -> float:
        return sum(self.cpu_seconds) / (self.bytes / GB)

    def cost(self, hops: float) -> machine.Cost:
        """Of all its rounds, whose bytes each went over so many links."""
        made = machine.Cost()
        made.add(sum(self.cpu_seconds), self.bytes / GB * hops, self.turn_seconds, self.busy)
        return made


class Member:
    """The process of one rank: sets up its peers, then runs rounds as it is told."""

    def __init__(self, rank: int, size: int, size_bytes: int, others: list[Connection]) -> None:
        self.rank = rank
        self.size = size
        self.size_bytes = size_bytes
        self.others = others  # at the root: every receiver; at a receiver: the root
        self.peers: dict[str, Peer] = {}
        self.buffer = bytearray(size_bytes)
        if rank == 0:
            self.buffer[:] = random.Random(7).randbytes(size_bytes)

    def prepare(self, peer: str, *arguments: Any) -> None:
        match peer:
            case "tcp":
                self.peers[peer] = TcpPeer(self.rank, Mailbox(self.others))
            case "square":
                self.peers[peer] = SquarePeer(self.rank, *arguments)
            case "gloo":
                self.peers[peer] = GlooPeer(self.rank, self.size, *arguments)

    def clear(self) -> None:
        if self.rank != 0:
            self.buffer[:] = bytes(self.size_bytes)

    def checksum(self) -> int:
        return zlib.crc32(self.buffer)

    def rounds(self, peer: str, count: int) -> tuple[list[float], float]:
        """Seconds by round (at the root) and the CPU seconds of this process."""
        carrier = self.peers[peer]
        began = time.process_time()
        play = self._send if self.rank == 0 else self._receive
        seconds = [play(carrier) for _ in range(count)]
        return seconds, time.process_time() - began

    def _send(self, carrier: Peer) -> float:
        for other in self.others:
            other.recv_bytes()
        start = time.perf_counter()
        carrier.post(self.buffer)()
        for other in self.others:
            other.recv_bytes()
        return time.perf_counter() - start

    def _receive(self, carrier: Peer) -> float:
        wait = carrier.post(self.buffer)
        self.others[0].send_bytes(b"waiting")
        wait()
        self.others[0].send_bytes(b"complete")
        return 0.0


class Relay:
    """The process of a node that only relays."""

    def __init__(self, name: str, controller: str) -> None:
        self._node = square.Node(name, controller, paced=False)
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.process_time()

    def cpu_seconds(self) -> float:
        return time.process_time() - self._began


def keep_freed_memory() -> None:
    """What a program may do and a library may not: malloc gives no large block back."""
    libc = ctypes.CDLL(None)
    for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
        if libc.mallopt(option, _MALLOC_KEEPS_BYTES) != 1:
            raise OSError(f"mallopt({option}) was refused")


def _serve(
    commands: Connection, tuned: bool, make: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    if tuned:
        keep_freed_memory()
    try:
        served = make(*arguments)
        commands.send(("ok", None))
        while (command := commands.recv()) is not None:
            method, given = command
            commands.send(("ok", getattr(served, method)(*given)))
    except EOFError:
        pass
    except BaseException as error:
        commands.send(("failed", f"{type(error).__name__}: {error}"))
    finally:
        # gloo's threads and a node that has work left must not hold up the end.
        commands.close()
        os._exit(0)


class Process:
    """A process that does what the parent says."""

    def __init__(self, tuned: bool, make: Callable[..., object], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._commands, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, tuned, make, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, method: str, *arguments: object) -> None:
        self._commands.send((method, arguments))

    def end(self) -> Any:
        outcome, value = self._commands.recv()
        if outcome != "ok":
            raise RuntimeError(value)
        return value

    def call(self, method: str, *arguments: object) -> Any:
        self.begin(method, *arguments)
        return self.end()

    def close(self) -> None:
        self._commands.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()


class Contest:
    """The processes of all ranks, and the peers that take turns in them."""

    def __init__(self, size: int, size_bytes: int, tuned: bool, member: type[Member] = Member) -> None:
        self.size_bytes = size_bytes
        self.results: dict[str, Series] = {}
        self.relays: list[Process] = []
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(1, size)]
        ends = [[ours for ours, _ in pipes], *([theirs] for _, theirs in pipes)]
        self.members = [Process(tuned, member, rank, size, size_bytes, ends[rank]) for rank in range(size)]
        for member in self.members:
            member.end()

    def all(self, method: str, *arguments: object) -> list[Any]:
        for member in self.members:
            member.begin(method, *arguments)
        return [member.end() for member in self.members]

    def add(self, peer: str, *arguments: object) -> None:
        self.all("prepare", peer, *arguments)
        self.results[peer] = Series()

    def run(self, warm_up: int, turns: int, rounds: int) -> None:
        for peer in self.results:
            self.all("clear")
            self.all("rounds", peer, warm_up)
            sums = self.all("checksum")
            if any(found != sums[0] for found in sums):
                raise RuntimeError(f"{peer}: a receiver has other bytes than the root")
        for _ in range(turns):
            for peer, total in self.results.items():
                total.add(self._turn(peer, rounds))

    def _turn(self, peer: str, rounds: int) -> Series:
        for relay in self.relays:
            relay.call("begin")
        with machine.Usage() as usage:
            took = self.all("rounds", peer, rounds)
        cpu = [spent for _, spent in took] + [relay.call("cpu_seconds") for relay in self.relays]
        return Series(took[0][0], cpu, rounds * self.size_bytes, usage.seconds, usage.busy)

    def close(self) -> None:
        for process in [*self.members, *self.relays]:
            process.close()


@contextmanager
def contest(size: int, size_bytes: int, *, tuned: bool, member: type[Member] = Member) -> Iterator[Contest]:
    with ExitStack() as stack:
        made = Contest(size, size_bytes, tuned, member)
        stack.callback(made.close)
        yield made


def congestion_control() -> str:
    """What a loopback connection of this network namespace uses."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as connection,
    ):
        name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mib", type=int, default=64, help="size of the tensor (default 64)")
    parser.add_argument("--turns", type=int, default=5, help="of every peer (default 5)")
    parser.add_argument("--rounds", type=int, default=5, help="in each turn (default 5)")
    parser.add_argument("--warm-up", type=int, default=5, help="rounds of every peer before (default 5)")
    parser.add_argument(
        "--congestion",
        metavar="NAME",
        help="in a network namespace of its own whose loopback uses this one (root only)",
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON")


def enter_namespace(options: argparse.Namespace) -> int | None:
    """Runs this program again in a network namespace if --congestion asks for it."""
    name = options.congestion
    if name is None or name == congestion_control():
        return None
    if _IN_NAMESPACE in os.environ:
        raise SystemExit(f"the loopback keeps to {congestion_control()}, not {name}")
    route = "dev lo proto kernel scope host src 127.0.0.1 congctl"
    script = (
        "ip link set lo up && for to in 127.0.0.0/8 127.0.0.1; do "
        f'ip route replace table local local "$to" {route} "$0" || exit; done; exec "$@"'
    )
    command = ["unshare", "--net", "sh", "-c", script, name, sys.executable, *sys.argv]
    return subprocess.run(command, check=False, env={**os.environ, _IN_NAMESPACE: "1"}).returncode


def heading(what: str) -> dict[str, object]:
    return {
        "benchmark": what,
        "command": shlex.join(["python", *sys.argv]),
        "congestion_control": congestion_control(),
        "cpus": os.cpu_count(),
    }


def show(figures: dict[str, object], lines: list[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{figures['command']}\ncongestion control {figures['congestion_control']}, {figures['cpus']} CPUs")
    print("\n".join(lines), flush=True)
