"""What the tests of `square doctor` plant: programs in a node's place, and nodes as processes with faults."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import square
from commands import COMMAND
from square.doctor import Examination, Finding

# Nodes that answer do so within a second; one that does not makes the examination last so long.
PATIENCE_SECONDS = 20.0
SHORT_SECONDS = 4.0
CROWDED = "processor.crowded"


def findings_of(examination: Examination) -> list[Finding]:
    """What was planted: that other work crowds the machine may be so, and is a warning."""
    return [finding for finding in examination.findings if finding.rule != CROWDED]


def only(examination: Examination) -> Finding:
    findings = findings_of(examination)
    assert len(findings) == 1, findings
    return findings[0]


def closed_port() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


class Program:
    """Listens, and serves each connection on a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._guard, args=(connection,), daemon=True).start()

    def _guard(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._serve(connection)
            except OSError:
                return  # the other end is gone


def speak_ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    connection.recv(4096)


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


class NewVersion(Program):
    """Stands before a node and has who calls speak protocol 99, as in a node of a later release."""

    NAME = b"square-version\x02"

    def __init__(self) -> None:
        super().__init__(self._relay)
        self.node = ""

    def _relay(self, connection: socket.socket) -> None:
        host, _, port = self.node.rpartition(":")
        with socket.create_connection((host, int(port))) as node:
            threading.Thread(target=pump, args=(node, connection, bytes), daemon=True).start()
            pump(connection, node, self._age())

    def _age(self) -> Callable[[bytes], bytes]:
        """The name may come in two pieces: what may be its beginning is held back."""
        held = b""

        def change(data: bytes) -> bytes:
            nonlocal held
            before, name, after = (held + data).partition(self.NAME)
            if name and len(after) > 1:
                held = b""
                return before + name + b"99" + after[2:]
            all_of_it = held + data
            sizes = range(min(len(self.NAME), len(all_of_it)), 0, -1)
            size = next((size for size in sizes if all_of_it.endswith(self.NAME[:size])), 0)
            held = all_of_it[len(all_of_it) - size :]
            return all_of_it[: len(all_of_it) - size]

        return change


def pump(source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes]) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(change(data))
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # either end is gone


@contextmanager
def joined(names: list[str], controller: str, **options: str) -> Iterator[dict[str, square.Node]]:
    """Healthy nodes of this process."""
    nodes = {name: square.Node(name, controller, **options) for name in names}
    try:
        yield nodes
    finally:
        for node in nodes.values():
            node.stop()


@contextmanager
def process_node(
    name: str,
    controller: str,
    *arguments: str | Path,
    before: Callable[[], None] | None = None,
    **environment: str,
) -> Iterator[subprocess.Popen[str]]:
    """`square node`, which has joined. ``before`` runs in the process before it begins."""
    command = [*COMMAND, "node", "--name", name, "--controller", controller, *map(str, arguments)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=before,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith(name)
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def busy_loops(each: int = 1) -> Iterator[None]:
    """So many on each processor."""
    loops = []
    for processor in each * list(os.sched_getaffinity(0)):
        loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        os.sched_setaffinity(loop.pid, {processor})
        loops.append(loop)
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
