"""One node of `square run`: a process that does what its standard input says.

It ends when its input does, so nothing is left behind when the parent is gone, however
the parent went.
"""

import ctypes
import os
import queue
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import BinaryIO

from square._core import Communicator, Node
from square.errors import SquareError
from square.run import payload
from square.run.protocol import (
    Begin,
    Command,
    Digest,
    Event,
    Failed,
    Finished,
    Join,
    Joined,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Seat,
    Seats,
    Verify,
    decode_command,
    encode,
)

PROGRESS_SECONDS = 0.5
# How long an orderly end may take before the process ends anyway.
STOP_SECONDS = 1.8
_PR_SET_PDEATHSIG = 1


class Member:
    """One member of a collective: its communicator and its buffer."""

    def __init__(self, node: Node, seat: Seat, timeout_seconds: float) -> None:
        self.seat = seat
        self.buffer = bytearray(seat.size_bytes)
        self.communicator = Communicator(
            node,
            f"collective/{seat.collective}",
            seat.tenant,
            list(seat.members),
            seat.rank,
            collectives=[("broadcast", seat.root_rank, seat.size_bytes, seat.weight)],
            timeout=timeout_seconds,
        )


class Worker:
    """Carries out commands, one at a time, and reports events."""

    def __init__(self, output: BinaryIO) -> None:
        self.node: Node | None = None
        self._output = output
        self._members: list[Member] = []
        self._lock = threading.Lock()

    def report(self, event: Event) -> None:
        with self._lock:
            self._output.write(encode(event))
            self._output.flush()

    def execute(self, command: Command) -> None:
        match command:
            case Join():
                self.node = Node(command.node, command.controller)
                self.report(Joined(self.node.address))
            case Seats():
                self._take(command)
                self.report(Ready())
            case Prepare():
                for member in self._members:
                    if not member.seat.is_root:
                        payload.overwrite(command.run, member.buffer)
                self.report(Prepared(command.run))
            case Begin():
                self._begin(command)
            case Verify():
                for member in self._members:
                    sha256 = payload.digest(member.buffer)
                    self.report(Digest(command.run, member.seat.collective, member.seat.rank, sha256))

    def _take(self, command: Seats) -> None:
        assert self.node is not None
        for seat in command.seats:
            member = Member(self.node, seat, command.timeout_seconds)
            self._members.append(member)
            if not seat.is_root:
                continue
            if command.input is not None:
                payload.read_file(Path(command.input), member.buffer)
            else:
                payload.generate(command.seed, seat.collective, member.buffer)

    def _begin(self, command: Begin) -> None:
        """Returns when all members' threads have ended."""
        assert self.node is not None
        delivered_before = self.node.statistics()["bytes_delivered"]
        threads = [
            threading.Thread(target=self._broadcast, args=(command, member), daemon=True)
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

    def _broadcast(self, command: Begin, member: Member) -> None:
        seat = member.seat
        time.sleep(max(0.0, command.at - time.monotonic()))
        try:
            member.communicator.broadcast(member.buffer, root=seat.root_rank, timeout=command.timeout_seconds)
            self.report(Finished(command.run, seat.collective, seat.rank, time.monotonic()))
        except SquareError as error:
            self.report(Failed(error.code, f"collective {seat.collective}: {error}"))


def _die_with(parent: int) -> None:
    """Makes the kernel end this process when the parent's main thread ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


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
    _die_with(int(sys.argv[1]))
    # Whatever else writes to standard output must not mix with the events.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker(output)
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
