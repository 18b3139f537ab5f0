"""An overlay of processes: members, relays and controller are stopped, killed and started again."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from commands import COMMAND, wait_until

PROGRAM = Path(__file__).with_name("member_process.py")
START_SECONDS = 30.0
KEPT_LINES = 20_000


class Running:
    """One process that prints lines. What it complains of stands in `log` as well, with the time."""

    def __init__(self, command: list[str], log: Path, release: str = "") -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "SQUARE_TEST_RELEASE": release},
        )
        self.lines: list[str] = []
        self.complaints: list[str] = []
        threading.Thread(target=self._keep, args=(self.process.stdout, self.lines), daemon=True).start()
        threading.Thread(target=self._keep_complaints, args=(log,), daemon=True).start()

    @staticmethod
    def _keep(stream: Any, kept: list[str]) -> None:
        for line in stream:
            kept.append(line)
            del kept[:-KEPT_LINES]

    def _keep_complaints(self, log: Path) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic():.3f} process {self.process.pid} begins\n")

            def stamped() -> Iterator[str]:
                for line in self.process.stderr or ():
                    file.write(f"{time.monotonic():.3f} {line}")
                    file.flush()
                    yield line

            self._keep(stamped(), self.complaints)

    def say(self, what: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self) -> None:
        """In order: of a member that has no group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(START_SECONDS)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(START_SECONDS)

    def wait_for_line(self) -> str:
        assert wait_until(lambda: bool(self.lines) or self.process.poll() is not None, START_SECONDS)
        assert self.lines, "".join(self.complaints)
        return self.lines[0].strip()

    def use(self) -> dict[str, float]:
        """Of memory in MiB, and descriptors."""
        folder = Path(f"/proc/{self.process.pid}")
        pages = int((folder / "statm").read_text().split()[1])
        return {
            "mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            "descriptors": len(list((folder / "fd").iterdir())),
        }

    def thread_names(self) -> Counter[str]:
        names: Counter[str] = Counter()
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
                names[(task / "comm").read_text().strip()] += 1
        return names


class Overlay:
    """Members and relays by name, and their controller, whose address stays."""

    def __init__(self, topology: Path, members: list[str], relays: list[str], store: Path | None) -> None:
        self.members, self.relays = members, relays
        self._folder = topology.parent
        self._controller_command = [*COMMAND, "controller", "--verbose", "--topology", str(topology)]
        if store is not None:
            self._controller_command += ["--store", str(store)]
        self.processes: dict[str, Running] = {}
        self.address = "127.0.0.1:0"
        # Of the processes that are started from now on: see src/base/protocol_versions.h.
        self.release = ""

    def start_controller(self) -> None:
        command = [*self._controller_command, "--bind", self.address]
        started = self.processes["controller"] = self._run("controller", command)
        self.address = started.wait_for_line().split()[-1]

    def start(self, name: str) -> Running:
        if name in self.relays:
            command = [*COMMAND, "node", "--verbose", "--name", name, "--controller", self.address]
        else:
            command = [sys.executable, "-P", str(PROGRAM), name, self.address]
        self.processes[name] = self._run(name, command)
        return self.processes[name]

    def _run(self, name: str, command: list[str]) -> Running:
        return Running(command, self._folder / f"{name}.log", self.release)

    def start_all(self) -> None:
        self.start_controller()
        for name in [*self.members, *self.relays]:
            self.start(name)
        for name in [*self.members, *self.relays]:
            self.processes[name].wait_for_line()

    def begin(self, group: str, members: list[str], data_bytes: int) -> None:
        for name in members:
            self.processes[name].say({"group": group, "members": members, "bytes": data_bytes})

    def said(self, name: str, group: str) -> list[dict[str, Any]]:
        """What the member's process said of the group."""
        lines = list(self.processes[name].lines)
        return [json.loads(line) for line in lines if f'{{"group": "{group}"' in line]

    def operations(self, group: str) -> list[dict[str, Any]]:
        return [line for name in self.members for line in self.said(name, group) if "op" in line]

    def end_of(self, name: str, group: str) -> dict[str, Any] | None:
        return next((line for line in self.said(name, group) if "over" in line or "error" in line), None)

    def finish(self, group: str, members: list[str], seconds: float) -> list[dict[str, Any] | None]:
        """Tells rank 0 to end the group, and waits for all of its members."""
        self.processes[members[0]].say({"over": group})
        wait_until(lambda: all(self.end_of(name, group) for name in members), seconds)
        return [self.end_of(name, group) for name in members]


@contextmanager
def overlay(
    folder: Path,
    mbps: dict[tuple[str, str], float],
    members: list[str],
    relays: list[str],
    *,
    is_stored: bool,
    release: str = "",
) -> Iterator[Overlay]:
    """Runs it over links of these capacities."""
    file = folder / "overlay.csv"
    rows = [f"{source},{target},{capacity}" for (source, target), capacity in mbps.items()]
    file.write_text("\n".join(["from,to,capacity_mbps", *rows, ""]), encoding="utf-8")
    made = Overlay(file, members, relays, folder / "store" if is_stored else None)
    made.release = release
    try:
        made.start_all()
        yield made
    finally:
        for running in made.processes.values():
            running.kill()


def wait_for_operations(overlay: Overlay, group: str, count: int, seconds: float = 60) -> None:
    begun = time.monotonic()
    assert wait_until(lambda: len(overlay.operations(group)) >= count, seconds), {
        "after": time.monotonic() - begun,
        "said": {name: overlay.said(name, group)[-3:] for name in overlay.members},
        "complaints": {name: running.complaints[-5:] for name, running in overlay.processes.items()},
    }
