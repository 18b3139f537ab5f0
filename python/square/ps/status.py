"""What a master says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from square import _core


@dataclass(frozen=True)
class WorkerStatus:
    """A worker; times of its last push and pull in seconds."""

    name: str
    is_connected: bool
    base_version: int
    pushes: int
    excluded: int
    skipped: int
    staleness: int
    push_seconds: float
    pull_seconds: float


@dataclass(frozen=True)
class ServerStatus:
    """A server and its shard; times of its last round in seconds."""

    name: str
    is_connected: bool
    first_element: int
    elements: int
    update_seconds: float
    snapshot_seconds: float


@dataclass(frozen=True)
class Status:
    """A master: the newest version that counts (0: none yet), what is in it, and who takes part.

    ``waits_for`` says in words what keeps it from training; empty where nothing does. ``rounds_skipped``
    counts since this master began.
    """

    version: int
    tokens: int
    chunks: int
    chunks_done: int
    chunks_held: int
    rounds_skipped: int
    waits_for: str
    workers: tuple[WorkerStatus, ...]
    servers: tuple[ServerStatus, ...]

    @staticmethod
    def read(said: Mapping[str, Any]) -> "Status":
        rest = {key: value for key, value in said.items() if key != "members"}
        workers = []
        servers = []
        for member in said["members"]:
            fields = {key: value for key, value in member.items() if key != "role"}
            if member["role"] == "worker":
                workers.append(WorkerStatus(**fields))
            else:
                servers.append(ServerStatus(**fields))
        return Status(**rest, workers=tuple(workers), servers=tuple(servers))


def ask(master: str, *, token: str = "", timeout: float = 5.0) -> Status:
    """The status of the master at that address. Raises UnavailableError where none answers in time."""
    return Status.read(_core.ask_parameter_master(master, token, timeout))
