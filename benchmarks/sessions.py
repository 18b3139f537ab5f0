"""Nodes in processes of their own that send and receive many broadcasts, and say when bytes came.

A receiver's buffer is zero and a source's bytes are not, so the moment when the last byte of a
block appears is the moment when the block was received. Rates count bits as the kernel's shaper
does: frame header, gRPC, HTTP/2, TCP/IP and Ethernet at MTU 9000, as docs/data-plane.md says.
"""

import ctypes
import multiprocessing
import os
import signal
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import machine
import square
from square.errors import SquareError

BITS = 8
GB = 1e9
PAGE_BYTES = 4096
SAMPLE_SECONDS = 0.0005
WATCHED_AT_FULL_SPEED = 25  # of more sessions samples are taken less often: they cost CPU time
ENROLLED_AT_ONCE = 32
ANSWER_SECONDS = 120.0
FIRST_BLOCK_SECONDS = 10.0
CALL_SECONDS = 600.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Session:
    """A broadcast of collective ``number`` of the scenario from one node to another."""

    number: int
    tenant: str
    source: str
    sink: str
    size_bytes: int
    weight: float = 1.0


@dataclass(frozen=True)
class Arrivals:
    """When the blocks of one session came, by this machine's monotonic clock."""

    block_bytes: int
    block_bits: float  # with headers, as the node that sent them counts
    times: Sequence[float]

    def rate_bps(self, begin: float, end: float) -> float:
        """From the first block in that time to the last."""
        first, last = bisect_left(self.times, begin), bisect_right(self.times, end) - 1
        if last <= first:
            return 0.0
        bits = (last - first) * self.block_bits
        return bits / (self.times[last] - self.times[first])

    def most_bits(self, begin: float, end: float, seconds: float = 1.0) -> float:
        """In any window of so many seconds within that time."""
        most = 0
        first = bisect_left(self.times, begin)
        for last in range(first, bisect_right(self.times, end)):
            while self.times[last] - self.times[first] >= seconds:
                first += 1
            most = max(most, last - first + 1)
        return most * self.block_bits


class Host:
    """A node in a process of its own, which ends with this one. Start it in the network it shall be in."""

    def __init__(self, name: str, server: "type[Server] | None" = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(far, os.getpid(), server or Server), name=name, daemon=True
        )
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def begin(self, call: str, *arguments: Any) -> None:
        self._pipe.send((call, arguments))

    def answer(self) -> Any:
        if not self._pipe.poll(ANSWER_SECONDS):
            raise TimeoutError(f"node {self._process.name} did not answer for {ANSWER_SECONDS:.0f} s")
        answer, error = self._pipe.recv()
        if error is not None:
            raise RuntimeError(f"node {self._process.name}: {error}")
        return answer

    def call(self, call: str, *arguments: Any) -> Any:
        """See Server for what can be called."""
        self.begin(call, *arguments)
        return self.answer()

    def memory_bytes(self, which: str = "VmRSS") -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{which}:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"no {which} of process {self.pid}")

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class Server:
    """What a Host does in its process."""

    def __init__(self) -> None:
        self.nodes: dict[str, square.Node] = {}
        self.communicators: dict[tuple[int, int], square.Communicator] = {}
        self.sessions: dict[int, Session] = {}
        self._buffers: dict[int, bytearray] = {}
        self._works: dict[tuple[int, int], Any] = {}

    def join(self, name: str, controller: str, options: dict[str, Any]) -> None:
        self.nodes[name] = square.Node(name, controller, **options)

    def enrol(self, sessions: Sequence[Session]) -> None:
        """Takes part in these with the members that live here, in many at once: each waits for answers."""
        members = [
            (session, rank, node)
            for session in sessions
            for rank, node in enumerate((session.source, session.sink))
            if node in self.nodes
        ]
        for session in sessions:
            self.sessions[session.number] = session
        with ThreadPoolExecutor(ENROLLED_AT_ONCE) as pool:
            for (session, rank, _), made in zip(members, pool.map(self._join_group, members), strict=True):
                self.communicators[session.number, rank] = made

    def _join_group(self, member: tuple[Session, int, str]) -> square.Communicator:
        session, rank, node = member
        return square.Communicator(
            self.nodes[node],
            f"collective/{session.number}",
            session.tenant,
            [session.source, session.sink],
            rank,
            collectives=[("broadcast", 0, session.size_bytes, session.weight)],
            timeout=ANSWER_SECONDS,
        )

    def receive(self, numbers: Sequence[int], expected_bytes: int | None = None) -> None:
        """Has buffers ready for them, and the pages for so many bytes of each."""
        for number in numbers:
            buffer = bytearray(self.sessions[number].size_bytes)
            for at in range(0, min(len(buffer), expected_bytes or len(buffer)), PAGE_BYTES):
                buffer[at] = 0  # the page is there before the data
            self._buffers[number] = buffer
            self._works[number, 1] = self.communicators[number, 1].broadcast_async(buffer, 0, CALL_SECONDS)

    def send(self, numbers: Sequence[int]) -> float:
        payloads = {size: b"\xff" * size for size in {self.sessions[n].size_bytes for n in numbers}}
        for number in numbers:  # nothing else in this loop: who starts early is ahead of the others
            payload = payloads[self.sessions[number].size_bytes]
            self._works[number, 0] = self.communicators[number, 0].broadcast_async(payload, 0, CALL_SECONDS)
        return time.monotonic()

    def cancel(self, numbers: Sequence[int]) -> float:
        for number in numbers:
            for rank in (0, 1):
                if (number, rank) in self._works:
                    self._works[number, rank].cancel()
        return time.monotonic()

    def is_done(self, number: int, rank: int) -> bool:
        return self._works[number, rank].is_done

    def block_bytes(self, numbers: Sequence[int]) -> dict[int, int]:
        """Of what these sessions receive here: as the node counts, once each has a block."""
        end = time.monotonic() + FIRST_BLOCK_SECONDS
        while time.monotonic() < end:
            found = {
                session["collective"]: session["bytes_received"] // session["blocks_received"]
                for node in self.nodes.values()
                for session in node.metrics()["sessions"]
                if session["blocks_received"] > 0
            }
            if all(number in found for number in numbers):
                return {number: found[number] for number in numbers}
            time.sleep(SAMPLE_SECONDS)
        raise TimeoutError(f"no block of some session came within {FIRST_BLOCK_SECONDS:.0f} s")

    def traffic(self) -> tuple[int, int, int]:
        """Of all nodes here: bytes received, bytes sent, and the latter with headers and answers."""
        links = [link for node in self.nodes.values() for link in node.metrics()["links"]]
        sent = [link for link in links if link["direction"] == "out"]
        received = sum(link["bytes"] for link in links if link["direction"] == "in")
        return received, sum(link["bytes"] for link in sent), sum(link["wire_bytes"] for link in sent)

    def watch(self, numbers: Sequence[int], end: float) -> dict[int, tuple[int, list[float]]]:
        """How large the blocks of these sessions are, and when each came, until then."""
        blocks = self.block_bytes(numbers)
        times: dict[int, list[float]] = {number: [] for number in numbers}
        marks = {}
        for number, block in blocks.items():
            size = self.sessions[number].size_bytes
            marks[number] = [min(at + block, size) - 1 for at in range(0, size, block)]
        pause = SAMPLE_SECONDS * max(1.0, len(blocks) / WATCHED_AT_FULL_SPEED)
        while (now := time.monotonic()) < end:
            for number, seen in times.items():
                buffer, last = self._buffers[number], marks[number]
                while len(seen) < len(last) and buffer[last[len(seen)]]:
                    seen.append(now)
            time.sleep(pause)
        return {number: (blocks[number], seen) for number, seen in times.items()}

    def statistics(self, node: str) -> dict[str, int]:
        return self.nodes[node].statistics()

    def stop(self) -> None:
        for work in self._works.values():
            work.cancel()
        self._works.clear()
        self.communicators.clear()
        for node in self.nodes.values():
            node.stop()


def _serve(pipe: Connection, parent: int, kind: type[Server]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    server = kind()
    while True:
        try:
            call, arguments = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            pipe.send((getattr(server, call)(*arguments), None))
        except (SquareError, KeyError, ValueError) as error:
            pipe.send((None, f"{call}: {error}"))
    server.stop()
    os._exit(0)


class Watch:
    """Has a sink note the arrivals of sessions from one source until ``end``, and counts what it costs."""

    def __init__(self, hosts: dict[str, Host], source: str, sink: str, numbers: Sequence[int]) -> None:
        self._hosts = hosts
        self._source, self._sink = hosts[source], hosts[sink]
        self._numbers = numbers
        self.cost = machine.Cost()

    def begin(self, end: float) -> None:
        self._usage = machine.Usage()
        self._usage.begin()
        self._before = {name: host.call("traffic") for name, host in self._hosts.items()}
        self._sink.begin("watch", self._numbers, end)

    def arrivals(self) -> dict[int, Arrivals]:
        """Waits for the end."""
        seen = self._sink.answer()
        traffic = {name: host.call("traffic") for name, host in self._hosts.items()}
        self._usage.end()
        received = sum(traffic[name][0] - self._before[name][0] for name in traffic)
        self.cost.add_usage(self._usage, received / GB)  # what is received has made a hop
        of_source = next(name for name, host in self._hosts.items() if host is self._source)
        sent, wire = (traffic[of_source][i] - self._before[of_source][i] for i in (1, 2))
        return {
            number: Arrivals(block, BITS * block * wire / sent, times)
            for number, (block, times) in seen.items()
        }


def scenario_of(topology: square.Topology, sessions: Sequence[Session], policy: str) -> square.Scenario:
    collectives = [
        square.Collective(
            s.tenant, root=s.source, members=[s.source, s.sink], size_bytes=s.size_bytes, weight=s.weight
        )
        for s in sessions
    ]
    return square.Scenario(topology, square.Policy(policy), collectives=collectives)


def planned_rates(plan: square.Plan, sessions: Sequence[Session]) -> dict[int, float]:
    """By the session's number, which is the number of its collective."""
    rates = {collective.id: collective.rate_bps for collective in plan.collectives}
    return {s.number: rates[s.number] for s in sessions}


def congestion_control() -> str:
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
