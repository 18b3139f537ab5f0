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

import square
from square.errors import SquareError

BITS = 8
PAGE_BYTES = 4096
SAMPLE_SECONDS = 0.0005
WATCHED_AT_FULL_SPEED = 25  # of more sessions samples are taken less often: they cost CPU time
ENROLLED_AT_ONCE = 32
ANSWER_SECONDS = 120.0
CALL_SECONDS = 600.0
_PR_SET_PDEATHSIG = 1

# As in src/node/installed_plan.h and src/node/sender.cc.
MIN_BLOCK_BYTES = 8 << 10
MAX_BLOCK_BYTES = 1 << 20
BLOCK_SECONDS = 0.010
BLOCKS_PER_STREAM = 8


def wire_bits(payload_bytes: int) -> int:
    """Bits of one block on the wire, as in src/transport/pacing/wire_cost.cc."""
    message = 5 + 96 + payload_bytes
    stream = message + 9 * -(-message // (16 << 10))
    return BITS * (stream + 66 * -(-stream // (9000 - 52)))


def block_bytes(rate_bps: float, size_bytes: int) -> int:
    """Of a session with one stream."""
    planned = min(max(int(rate_bps * BLOCK_SECONDS / BITS), MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
    return min(max(min(planned, size_bytes // BLOCKS_PER_STREAM), MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)


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
    times: Sequence[float]

    def rate_bps(self, begin: float, end: float) -> float:
        """From the first block in that time to the last."""
        first, last = bisect_left(self.times, begin), bisect_right(self.times, end) - 1
        if last <= first:
            return 0.0
        bits = (last - first) * wire_bits(self.block_bytes)
        return bits / (self.times[last] - self.times[first])

    def most_bits(self, begin: float, end: float, seconds: float = 1.0) -> int:
        """In any window of so many seconds within that time."""
        most = 0
        first = bisect_left(self.times, begin)
        for last in range(first, bisect_right(self.times, end)):
            while self.times[last] - self.times[first] >= seconds:
                first += 1
            most = max(most, last - first + 1)
        return most * wire_bits(self.block_bytes)


class Host:
    """A node in a process of its own, which ends with this one. Start it in the network it shall be in."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, os.getpid()), name=name, daemon=True)
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
        """See _Server for what can be called."""
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


class _Server:
    """What a Host does in its process."""

    def __init__(self) -> None:
        self._nodes: dict[str, square.Node] = {}
        self._communicators: dict[tuple[int, int], square.Communicator] = {}
        self._sessions: dict[int, Session] = {}
        self._buffers: dict[int, bytearray] = {}
        self._works: dict[tuple[int, int], Any] = {}

    def join(self, name: str, controller: str, options: dict[str, Any]) -> None:
        self._nodes[name] = square.Node(name, controller, **options)

    def enrol(self, sessions: Sequence[Session]) -> None:
        """Takes part in these with the members that live here, in many at once: each waits for answers."""
        members = [
            (session, rank, node)
            for session in sessions
            for rank, node in enumerate((session.source, session.sink))
            if node in self._nodes
        ]
        for session in sessions:
            self._sessions[session.number] = session
        with ThreadPoolExecutor(ENROLLED_AT_ONCE) as pool:
            for (session, rank, _), made in zip(members, pool.map(self._join_group, members), strict=True):
                self._communicators[session.number, rank] = made

    def _join_group(self, member: tuple[Session, int, str]) -> square.Communicator:
        session, rank, node = member
        return square.Communicator(
            self._nodes[node],
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
            buffer = bytearray(self._sessions[number].size_bytes)
            for at in range(0, min(len(buffer), expected_bytes or len(buffer)), PAGE_BYTES):
                buffer[at] = 0  # the page is there before the data
            self._buffers[number] = buffer
            self._works[number, 1] = self._communicators[number, 1].broadcast_async(buffer, 0, CALL_SECONDS)

    def send(self, numbers: Sequence[int]) -> float:
        payloads = {size: b"\xff" * size for size in {self._sessions[n].size_bytes for n in numbers}}
        for number in numbers:  # nothing else in this loop: who starts early is ahead of the others
            payload = payloads[self._sessions[number].size_bytes]
            self._works[number, 0] = self._communicators[number, 0].broadcast_async(payload, 0, CALL_SECONDS)
        return time.monotonic()

    def cancel(self, numbers: Sequence[int]) -> float:
        for number in numbers:
            for rank in (0, 1):
                if (number, rank) in self._works:
                    self._works[number, rank].cancel()
        return time.monotonic()

    def is_done(self, number: int, rank: int) -> bool:
        return self._works[number, rank].is_done

    def watch(self, blocks: dict[int, int], end: float) -> dict[int, list[float]]:
        """When each block of these sessions came, until then."""
        times: dict[int, list[float]] = {number: [] for number in blocks}
        marks = {}
        for number, block in blocks.items():
            size = self._sessions[number].size_bytes
            marks[number] = [min(at + block, size) - 1 for at in range(0, size, block)]
        pause = SAMPLE_SECONDS * max(1.0, len(blocks) / WATCHED_AT_FULL_SPEED)
        while (now := time.monotonic()) < end:
            for number, seen in times.items():
                buffer, last = self._buffers[number], marks[number]
                while len(seen) < len(last) and buffer[last[len(seen)]]:
                    seen.append(now)
            time.sleep(pause)
        return times

    def statistics(self, node: str) -> dict[str, int]:
        return self._nodes[node].statistics()

    def stop(self) -> None:
        for work in self._works.values():
            work.cancel()
        self._works.clear()
        self._communicators.clear()
        for node in self._nodes.values():
            node.stop()


def _serve(pipe: Connection, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    server = _Server()
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


def watch(sink: Host, sessions: Sequence[Session], rates_bps: dict[int, float], end: float) -> None:
    """Has the sink note arrivals until then; ask for them with arrivals()."""
    blocks = {s.number: block_bytes(rates_bps[s.number], s.size_bytes) for s in sessions}
    sink.begin("watch", blocks, end)


def arrivals(sink: Host, sessions: Sequence[Session], rates_bps: dict[int, float]) -> dict[int, Arrivals]:
    times = sink.answer()
    return {
        s.number: Arrivals(block_bytes(rates_bps[s.number], s.size_bytes), times[s.number]) for s in sessions
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
