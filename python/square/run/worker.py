"""One node of `square run`: a process that does what its standard input says.

It ends when its input does, so nothing is left behind when the parent is gone, however
the parent went.
"""

import os
import queue
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import BinaryIO

from square._core import Communicator, Identity, Node, __version__
from square.errors import SquareError
from square.run import namespaces, operations, payload, sums
from square.run.interfaces import Interfaces
from square.run.processes import die_with
from square.run.protocol import (
    ISOLATED,
    Begin,
    Clock,
    Clocked,
    Command,
    Digest,
    Event,
    Failed,
    Finished,
    Isolated,
    Join,
    Joined,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Seat,
    Seats,
    Verify,
    Wire,
    Wired,
    decode_command,
    encode,
)

PROGRESS_SECONDS = 0.5
# What is measured is an overlay that runs: it begins when its links are up, but waits no longer.
LINKS_SECONDS = 10.0
LINKS_LOOK_SECONDS = 0.02
# How long an orderly end may take before the process ends anyway.
STOP_SECONDS = 1.8


class Member:
    """One member of a collective: its communicator and its buffers.

    In a broadcast there is one buffer; in a sum an input, and an output where the member gets
    the result: the input has to be there for the next policy.
    """

    def __init__(self, node: Node, seat: Seat, timeout_seconds: float) -> None:
        self.seat = seat
        self.is_sum = seat.op in operations.SUMS
        self.buffer = bytearray(seat.size_bytes) if seat.gets or not self.is_sum else None
        self.addends = bytearray(seat.size_bytes) if self.is_sum else None
        planned = (seat.op, seat.root_rank or 0, seat.size_bytes, seat.weight)
        self.communicator = Communicator(
            node,
            f"{'ring' if seat.is_ring else 'collective'}/{seat.collective}",
            seat.tenant,
            list(seat.members),
            seat.rank,
            collectives=[] if seat.is_ring else [planned],
            timeout=timeout_seconds,
        )
        if seat.is_ring:  # its parts are registered with its first call
            first = memoryview(bytearray(len(seat.members) * sums.ELEMENT_BYTES)).cast("f")
            self.communicator.all_reduce(first, first, algorithm="ring", timeout=timeout_seconds)

    def fill(self, command: Seats) -> None:
        """Gives the member what it contributes."""
        if self.addends is not None:
            sums.generate(command.seed, self.seat.collective, self.seat.rank, self.addends)
        elif self.seat.gives and self.buffer is not None:
            if command.input is not None:
                payload.read_file(Path(command.input), self.buffer)
            else:
                payload.generate(command.seed, self.seat.collective, self.buffer)

    def clear(self, run: int) -> None:
        """Overwrites what an earlier operation left."""
        if self.seat.gets and self.buffer is not None:
            payload.overwrite(run, self.buffer)

    def operate(self, timeout_seconds: float) -> None:
        """The operation itself. Blocks."""
        if self.addends is None:
            assert self.buffer is not None
            assert self.seat.root_rank is not None
            self.communicator.broadcast(self.buffer, root=self.seat.root_rank, timeout=timeout_seconds)
            return
        addends = memoryview(self.addends).cast("f")
        total = None if self.buffer is None else memoryview(self.buffer).cast("f")
        if self.seat.op == "reduce":
            assert self.seat.root_rank is not None
            self.communicator.reduce(
                addends, total, op="sum", root=self.seat.root_rank, timeout=timeout_seconds
            )
        else:
            algorithm = "ring" if self.seat.is_ring else "planned"
            self.communicator.all_reduce(
                addends, total, op="sum", algorithm=algorithm, timeout=timeout_seconds
            )


class Worker:
    """Carries out commands, one at a time, and reports events."""

    def __init__(self, output: BinaryIO) -> None:
        self.node: Node | None = None
        self._output = output
        self._interfaces: Interfaces | None = None
        self._members: list[Member] = []
        self._lock = threading.Lock()

    def report(self, event: Event) -> None:
        with self._lock:
            self._output.write(encode(event))
            self._output.flush()

    def execute(self, command: Command) -> None:
        match command:
            case Wire():
                self._interfaces = Interfaces(command)
                self.report(Wired())
            case Join():
                self.node = Node(
                    command.node,
                    command.controller,
                    bind_address=command.bind_address,
                    advertised_address=command.advertised_address,
                    identity=Identity.from_pem(command.pem) if command.pem else None,
                    paced=command.paced,
                )
                self.report(Joined(self.node.address, __version__))
            case Clock():
                self.report(Clocked(command.number, time.monotonic()))
            case Seats():
                self._take(command)
                self.report(Ready())
            case Prepare():
                for member in self._members:
                    member.clear(command.run)
                self._wait_for_links(command.epoch)
                if self._interfaces is not None:
                    self._interfaces.begin()
                self.report(Prepared(command.run))
            case Begin():
                self._begin(command)
            case Verify():
                if self._interfaces is not None:
                    self.report(self._interfaces.counted(command.run))
                for member in self._members:
                    if member.buffer is not None:
                        sha256 = payload.digest(member.buffer)
                        self.report(Digest(command.run, member.seat.collective, member.seat.rank, sha256))

    def _take(self, command: Seats) -> None:
        assert self.node is not None
        for seat in command.seats:
            member = Member(self.node, seat, command.timeout_seconds)
            self._members.append(member)
            member.fill(command)

    def _wait_for_links(self, epoch: int) -> None:
        """Those from this node that the plan of that epoch uses."""
        assert self.node is not None
        deadline = time.monotonic() + LINKS_SECONDS
        while time.monotonic() < deadline:
            metrics = self.node.metrics()
            used = [link for link in metrics["links"] if link["direction"] == "out" and link["planned_bps"]]
            if (metrics["epoch"] or 0) >= epoch and all(link["is_up"] for link in used):
                return
            time.sleep(LINKS_LOOK_SECONDS)

    def _begin(self, command: Begin) -> None:
        """Returns when all members' threads have ended."""
        assert self.node is not None
        delivered_before = self.node.statistics()["bytes_delivered"]
        threads = [
            threading.Thread(target=self._operate, args=(command, member), daemon=True)
            for member in self._members
        ]
        for thread in threads:
            thread.start()
        due = command.at
        for thread in threads:
            while thread.is_alive():
                due += PROGRESS_SECONDS
                thread.join(max(0.0, due - time.monotonic()))
                delivered = self.node.statistics()["bytes_delivered"] - delivered_before
                self.report(Progress(command.run, delivered))

    def _operate(self, command: Begin, member: Member) -> None:
        seat = member.seat
        time.sleep(max(0.0, command.at - time.monotonic()))
        try:
            member.operate(command.timeout_seconds)
            self.report(Finished(command.run, seat.collective, seat.rank, time.monotonic()))
        except SquareError as error:
            self.report(Failed(error.code, f"collective {seat.collective}: {error}"))


def _isolate(worker: Worker) -> None:
    try:
        namespaces.isolate_process()
    except SquareError as error:
        worker.report(Failed(error.code, str(error)))
    else:
        worker.report(Isolated())


def _carry_out(worker: Worker, commands: "queue.SimpleQueue[Command]") -> None:
    while True:
        try:
            worker.execute(commands.get())
        except SquareError as error:
            worker.report(Failed(error.code, str(error)))
        except Exception as error:
            traceback.print_exc()
            worker.report(Failed("INTERNAL", f"{type(error).__name__}: {error}"))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := int(sys.argv[1])) != 0:
        die_with(parent)
    # Whatever else writes to standard output must not mix with the events.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker(output)
    if sys.argv[2:] == [ISOLATED]:
        _isolate(worker)
    commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
    threading.Thread(target=_carry_out, args=(worker, commands), daemon=True).start()
    for line in sys.stdin.buffer:
        commands.put(decode_command(line))
    # Operations may be running on other threads; they are of no use to anybody now.
    threading.Timer(STOP_SECONDS, os._exit, args=(1,)).start()
    if worker.node is not None:
        worker.node.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
