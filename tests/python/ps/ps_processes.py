"""A cluster of parameter servers as processes, with what kills, pauses and audits it."""

import contextlib
import json
import math
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import square.ps
from square.errors import SquareError

MARK = 0.25
LR, MOMENTUM, CLIP = 0.5, 0.5, 1.0
GRACE = 0.1
_KEEP = 100_000
UNTOUCHED = 1000  # elements, as training_process.py has


def free_ports() -> int:
    """The first of two that are free, outside of the range that the system gives others: a master that is
    started again takes both."""
    for first in random.SystemRandom().sample(range(10_000, 30_000, 2), 1000):
        with socket.socket() as one, socket.socket() as two, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", first))
            two.bind(("127.0.0.1", first + 1))
            return first
    raise OSError("no two ports are free")


def _deaf() -> None:
    """A process that just begins must not die of a signal that it will understand."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


class Cluster:
    """Processes by name: "master", "server0", "worker0" and so on. Ends them all at the end."""

    def __init__(self, folder: Path, *, servers: int, chunks: int) -> None:
        self.folder = folder
        self.servers = servers
        self.chunks = chunks
        self.address = f"127.0.0.1:{free_ports()}"
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._lives = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)

    def start(self, name: str) -> None:
        if name in self.processes:
            return
        log = open(self.folder / f"{name}.log", "a", encoding="utf-8")  # noqa: SIM115
        with log:
            self.processes[name] = subprocess.Popen(
                self._command(name), stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=_deaf
            )

    def _command(self, name: str) -> list[str]:
        python = [sys.executable, "-m", "square", "ps"]
        if name == "master":
            options = {
                "bind": self.address,
                "servers": self.servers,
                "grace": GRACE,
                "push": "float32",
                "lr": LR,
                "momentum": MOMENTUM,
                "clip": CLIP,
                "chunks": self.chunks,
                "lease": 3,
            }
            given = [part for key, value in options.items() for part in (f"--{key}", str(value))]
            return [*python, "master", *given, "--no-penalty"]
        if name.startswith("server"):
            folder = str(self.folder / name)
            return [*python, "server", "--master", self.address, "--snapshots", folder, "--name", name,
                    "--keep", str(_KEEP)]  # fmt: skip
        self._lives += 1
        script = str(Path(__file__).with_name("training_process.py"))
        return [sys.executable, script, self.address, f"{name}-{self._lives}", str(self.chunks)]

    def kill(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.kill()
        with contextlib.suppress(ValueError):
            process.communicate()

    def signal(self, name: str, number: signal.Signals) -> None:
        if name in self.processes:
            self.processes[name].send_signal(number)

    def status(self) -> square.ps.Status | None:
        try:
            return square.ps.ask(self.address, timeout=1)
        except SquareError:
            return None

    def wait_until_training(self, seconds: float) -> None:
        """Until the first chunks are done."""
        self._wait_for(lambda status: status.chunks_done > 0, seconds)

    def wait_until_done(self, seconds: float) -> None:
        self._wait_for(lambda status: status.chunks_done == self.chunks, seconds)

    def _wait_for(self, is_so: Callable[[square.ps.Status], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        status = None
        while time.monotonic() < end:
            status = self.status()
            if status is not None and is_so(status):
                return
            time.sleep(0.1)
        logs = "\n".join(f"{file.name}: {file.read_text()[-2000:]}" for file in self.folder.glob("*.log"))
        raise AssertionError(f"not done after {seconds} s: {status}\n{logs}")

    def reports(self, seconds: float = 20.0) -> dict[str, Any]:
        """What the workers that came to the end say."""
        said = {}
        for name in [name for name in self.processes if name.startswith("worker")]:
            out, _ = self.processes[name].communicate(timeout=seconds)
            code = self.processes.pop(name).returncode
            assert code == 0, f"{name} ended with {code}: {(self.folder / f'{name}.log').read_text()}"
            said[name] = json.loads(out.splitlines()[-1])
        return said

    def versions(self) -> list[list[square.ps.Snapshot]]:
        """All that are on the disks, the oldest first: one snapshot for each server.

        An attempt that not all servers have never counted: a server that stands by may keep its part of one.
        """
        attempts: dict[tuple[int, str], list[square.ps.Snapshot]] = {}
        for file in self.folder.glob("server*/*.snapshot"):
            snapshot = square.ps.read_snapshot(file)
            attempts.setdefault((snapshot.version, file.stem.split("-")[2]), []).append(snapshot)
        elements = self.chunks + UNTOUCHED
        complete = [
            shards
            for _, shards in sorted(attempts.items())
            if sum(len(shard.parameters) for shard in shards) == elements
        ]
        return complete


def audit(versions: list[list[square.ps.Snapshot]], chunks: int) -> None:
    """No version is lost or mixed, each chunk counts once, and the model is a replay of the rounds."""
    assert [shards[0].version for shards in versions] == list(range(1, len(versions) + 1))
    counted = np.zeros(chunks, int)
    parameters = np.concatenate([np.zeros(chunks), np.ones(UNTOUCHED)])
    momentum = np.zeros_like(parameters)
    for shards in versions:
        assert len({repr(shard.pushes) for shard in shards}) == 1  # a NaN differs from itself
        average = np.zeros_like(parameters)
        taken = [push for push in shards[0].pushes if push.decision == "taken"]
        for push in shards[0].pushes:
            counted[list(push.chunks)] += 1
        for push in taken:
            # What it pushed is the marks of its chunks: nothing of others, and nothing twice.
            average[list(push.chunks)] += MARK * push.tokens / sum(one.tokens for one in taken)
        if taken:
            gradient = average * min(1.0, CLIP / max(float(np.linalg.norm(average)), 1e-30))
            momentum = MOMENTUM * momentum + gradient
            parameters = parameters - LR * (gradient + MOMENTUM * momentum)
        model = np.concatenate(
            [np.asarray(shard.parameters) for shard in sorted(shards, key=lambda one: one.first_element)]
        )
        assert np.abs(model - parameters).max() < 1e-4, f"version {shards[0].version} is no replay of the log"
    assert (counted == 1).all(), f"chunks counted otherwise: {np.flatnonzero(counted != 1)}"
    assert math.isfinite(float(parameters.sum()))
