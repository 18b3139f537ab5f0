"""The files of flight records: reads them, and has processes of this host write new ones."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from square import flight_record
from square.doctor.facts import _get as get
from square.errors import InvalidArgumentError, NotFoundError

FORMAT = "square.flight_record/1"
MAX_FILE_BYTES = 16 << 20
# A process that runs writes its records this soon after the signal.
ANSWER_SECONDS = 3.0
ANSWER_PAUSE_SECONDS = 0.02
NANOSECONDS = 1e9


class Life(StrEnum):
    """Of the process that wrote a record."""

    RUNNING = "running"
    STOPPED = "stopped"
    GONE = "gone"
    ELSEWHERE = "elsewhere"  # on another host, or in another container


@dataclass(frozen=True)
class Operation:
    """One operation as one rank saw it; times in seconds since 1970."""

    name: str
    state: str
    size_bytes: int
    called: float
    call: int | None = None  # its number among the group's collectives
    message: int | None = None  # its number among the messages with this peer and tag
    peer: int | None = None
    tag: int = 0
    first_byte: float | None = None
    last_byte: float | None = None
    completed: float | None = None
    waits_for: str = ""
    outcome: str = ""

    @property
    def is_message(self) -> bool:
        return self.name in ("send", "receive")

    @property
    def is_over(self) -> bool:
        return self.completed is not None

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Operation":
        def seconds(key: str) -> float | None:
            value = get(document, key, int)
            return None if value is None else value / NANOSECONDS

        return Operation(
            name=get(document, "operation", str) or "",
            state=get(document, "state", str) or "",
            size_bytes=get(document, "size_bytes", int) or 0,
            called=seconds("time_created_ns") or 0.0,
            call=get(document, "collective_seq_id", int),
            message=get(document, "p2p_seq_id", int),
            peer=get(document, "peer", int),
            tag=get(document, "tag", int) or 0,
            first_byte=seconds("time_first_byte_ns"),
            last_byte=seconds("time_last_byte_ns"),
            completed=seconds("time_completed_ns"),
            waits_for=get(document, "waits_for", str) or "",
            outcome=get(document, "outcome", str) or "",
        )


@dataclass(frozen=True)
class Process:
    """Which process it is, on which host, and the signal upon which it writes its records."""

    pid: int = 0
    started_ticks: int = 0
    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    signal: int | None = None

    @staticmethod
    def read(document: Any) -> "Process":
        known = document if isinstance(document, dict) else {}
        return Process(
            pid=get(known, "pid", int) or 0,
            started_ticks=get(known, "started_ticks", int) or 0,
            host=get(known, "host", str) or "",
            boot_id=get(known, "boot_id", str) or "",
            pid_namespace=get(known, "pid_namespace", str) or "",
            signal=get(known, "signal", int),
        )

    def life(self) -> Life:
        try:
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            if (self.boot_id, self.pid_namespace) != (boot_id, os.readlink("/proc/self/ns/pid")):
                return Life.ELSEWHERE
        except OSError:
            return Life.ELSEWHERE
        try:
            # The name, in parentheses, may hold anything.
            fields = Path(f"/proc/{self.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return Life.GONE
        if int(fields[19]) != self.started_ticks or fields[0] in "ZX":
            return Life.GONE
        return Life.STOPPED if fields[0] in "Tt" else Life.RUNNING

    def takes_signal(self) -> bool:
        """Whether it has a handler: without one the signal would end it."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(errors="replace").splitlines()
        except OSError:
            return False
        caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
        return self.signal is not None and bool(int(caught, 16) >> (self.signal - 1) & 1)


@dataclass(frozen=True)
class Record:
    """What one rank of a group has called."""

    group: str
    number: int
    rank: int
    nodes: tuple[str, ...]
    written: float = 0.0
    reason: str = ""
    last_called: int = 0  # the highest number of a call
    last_completed: int = 0
    operations: tuple[Operation, ...] = ()
    process: Process = field(default_factory=Process)
    life: Life = Life.ELSEWHERE

    @property
    def is_blank(self) -> bool:
        """Written when the group was made, and never since: it does not say what was called."""
        return self.reason == "created"

    @staticmethod
    def read(path: Path) -> "Record":
        """Raises InvalidArgumentError and NotFoundError."""
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise InvalidArgumentError(f"{path}: more than {MAX_FILE_BYTES} bytes, so no flight record")
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise NotFoundError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise InvalidArgumentError(f"{path}: not JSON: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InvalidArgumentError(f'{path}: not of the format "{FORMAT}"')
        nodes, operations = document.get("nodes"), document.get("operations")
        rank = get(document, "rank", int)
        if not isinstance(nodes, list) or rank is None or not 0 <= rank < len(nodes):
            raise InvalidArgumentError(f"{path}: no rank of its group")
        process = Process.read(document.get("process"))
        return Record(
            group=get(document, "group", str) or "",
            number=get(document, "number", int) or 0,
            rank=rank,
            nodes=tuple(map(str, nodes)),
            written=(get(document, "written_ns", int) or 0) / NANOSECONDS,
            reason=get(document, "reason", str) or "",
            last_called=get(document, "last_enqueued_collective", int) or 0,
            last_completed=get(document, "last_completed_collective", int) or 0,
            operations=tuple(Operation.read(one) for one in operations or () if isinstance(one, dict)),
            process=process,
            life=process.life(),
        )


def collect(paths: Iterable[Path] = (), *, ask: bool = True) -> list[Record]:
    """The records in these files and folders; without any, in those that this process would write to.

    With `ask`, processes of this host that take the signal write their records anew first: blocks for
    ANSWER_SECONDS at the most. Raises NotFoundError where there are none, and InvalidArgumentError for a file
    that was named and is none.
    """
    places = list(paths) or _own_folders()
    files: list[Path] = []
    for place in places:
        files += sorted(place.glob(flight_record.PATTERN)) if place.is_dir() else [place]
    if not files:
        raise NotFoundError(
            f"no flight records in {', '.join(map(str, places))}: set {flight_record.VARIABLE} to a folder "
            "in the environment of all ranks, and name it here"
        )
    if ask:
        _ask(files)
    return [Record.read(path) for path in files]


def _own_folders() -> list[Path]:
    named = os.environ.get(flight_record.VARIABLE, "")
    return [Path(named) if named and named != flight_record.OFF else flight_record.default_folder()]


def _ask(files: list[Path]) -> None:
    waited: dict[Path, int] = {}
    asked: set[int] = set()
    for path in files:
        process = Record.read(path).process
        if process.signal is None or process.life() is not Life.RUNNING or not process.takes_signal():
            continue
        before = path.stat().st_mtime_ns
        try:
            if process.pid not in asked:
                os.kill(process.pid, process.signal)
        except OSError:
            continue
        asked.add(process.pid)
        waited[path] = before
    deadline = time.monotonic() + ANSWER_SECONDS
    while waited and time.monotonic() < deadline:
        time.sleep(ANSWER_PAUSE_SECONDS)
        waited = {path: before for path, before in waited.items() if _written(path) == before}


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # its group has ended
