"""Children of this process, and the certainty that none of them is left behind."""

import ctypes
import os
import selectors
import signal
import site
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from square.errors import ResourceExhaustedError
from square.run.protocol import MAX_LINE_BYTES, Command, Event, Failed, decode_event, encode

# Each step of an end: asked by a closed pipe, told by SIGTERM, forced by SIGKILL.
ASKED_SECONDS = 2.0
TOLD_SECONDS = 0.5
FORCED_SECONDS = 1.0

# What a worker runs, with the process id of its parent, or 0 where that is on another machine.
MODULE = "square.run.worker"

_READ_BYTES = 1 << 16
_KEPT_COMPLAINTS = 20
_REAP_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Said:
    """A worker reported something."""

    node: str
    event: Event


@dataclass(frozen=True)
class Gone:
    """A worker's process has ended."""

    node: str
    process_id: int
    return_code: int
    complaints: str  # the last it wrote to standard error

    def __str__(self) -> str:
        if self.return_code < 0:
            name = signal.Signals(-self.return_code).name
            how = f"was killed by signal {-self.return_code} ({name})"
        else:
            how = f"ended with exit code {self.return_code}"
        return f"the process of node {self.node} (process id {self.process_id}) {how}"


@dataclass
class _Child:
    node: str
    process: subprocess.Popen[bytes]
    pending: bytearray = field(default_factory=bytearray)
    complaints: deque[bytes] = field(default_factory=lambda: deque(maxlen=_KEPT_COMPLAINTS))
    open_pipes: int = 2


def local_command(*arguments: str) -> list[str]:
    """A worker on this machine, with these arguments."""
    return [sys.executable, "-P", "-m", MODULE, str(os.getpid()), *arguments]


class Workers:
    """Runs `square.run.worker` processes. What they say goes to ``notify``, from one thread.

    Start them from the main thread only: the kernel ends them when the thread that started
    them ends.
    """

    def __init__(self, notify: Callable[[Said | Gone], None]) -> None:
        self._notify = notify
        self._children: dict[str, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._reader = threading.Thread(target=self._read, name="square-workers", daemon=True)
        self._lock = threading.Lock()
        self._reader.start()

    def start(self, node: str, command: Sequence[str]) -> None:
        # Its own process group: a terminal's Ctrl-C is ours to handle.
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
                env=child_environment(),
            )
        except OSError as error:
            raise ResourceExhaustedError(f"node {node}: no process could be started: {error}") from error
        child = _Child(node, process)
        self._children[node] = child
        assert process.stdout is not None
        assert process.stderr is not None
        with self._lock:
            for pipe in (process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, child)
        os.write(self._wake_write, b"w")

    def process_ids(self) -> dict[str, int]:
        """By node."""
        return {node: child.process.pid for node, child in self._children.items()}

    def send(self, node: str, command: Command) -> None:
        """Gives a command to a worker. One that has died is reported by ``Gone``, not here."""
        pipe = self._children[node].process.stdin
        assert pipe is not None
        rest = memoryview(encode(command))
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[pipe.write(rest) or 0 :]

    def close(self) -> None:
        """Ends all workers; when it returns there are none. Bounded by the steps above."""
        for child in self._children.values():
            with suppress(OSError):
                assert child.process.stdin is not None
                child.process.stdin.close()
        self._wait(ASKED_SECONDS)
        self._signal(signal.SIGTERM)
        self._wait(TOLD_SECONDS)
        self._signal(signal.SIGKILL)
        self._wait(FORCED_SECONDS)
        os.write(self._wake_write, b"q")
        self._reader.join()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for child in self._children.values():
            for pipe in (child.process.stdout, child.process.stderr):
                assert pipe is not None
                pipe.close()

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for child in self._children.values():
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children.values():
            if child.process.poll() is None:
                child.process.send_signal(number)

    def _read(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    if b"q" in os.read(self._wake_read, _READ_BYTES):
                        return
                    continue
                self._take(key)

    def _take(self, key: selectors.SelectorKey) -> None:
        child: _Child = key.data
        try:
            part = os.read(key.fd, _READ_BYTES)
        except BlockingIOError:
            return
        if key.fileobj is child.process.stderr:
            child.complaints.extend(part.splitlines())
        else:
            self._take_events(child, part)
        if part:
            return
        with self._lock:
            self._selector.unregister(key.fileobj)
        child.open_pipes -= 1
        if child.open_pipes == 0:
            self._report_end(child)

    def _take_events(self, child: _Child, part: bytes) -> None:
        child.pending += part
        *lines, rest = bytes(child.pending).split(b"\n")
        child.pending = bytearray(rest[:MAX_LINE_BYTES])
        for line in lines:
            try:
                event = decode_event(line)
            except (ValueError, KeyError, TypeError) as error:
                event = Failed("INTERNAL", f"the worker said {line[:80]!r}: {error}")
            self._notify(Said(child.node, event))

    def _report_end(self, child: _Child) -> None:
        try:
            code = child.process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            child.process.kill()
            code = child.process.wait()
        complaints = b"\n".join(child.complaints).decode(errors="replace")
        self._notify(Gone(child.node, child.process.pid, code, complaints))


def die_with(parent: int) -> None:
    """In a child: makes the kernel end this process when the thread that started it ends.

    That survives an exec, but not a fork.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def child_environment() -> dict[str, str]:
    """Ours, and this package where a fresh interpreter would not find it."""
    root = str(Path(__file__).absolute().parents[2])
    environment = dict(os.environ)
    if root not in site.getsitepackages():
        known = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([*known, root])
    return environment
