"""What a master says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from square import _core
from square.identity import IdentitySource
from square.ps.snapshot import RoundPush


@dataclass(frozen=True)
class WorkerStatus:
    """A worker; times of its last push and pull in seconds.

    ``wait_seconds`` went from its last push until it trained on with what came of it, of the
    ``interval_seconds`` that usually are between two pushes. ``norm`` and ``score``: of its last push in a
    version, as the penalty saw it.
    """

    name: str
    is_connected: bool
    base_version: int
    pushes: int
    excluded: int
    skipped: int
    staleness: int
    push_seconds: float
    pull_seconds: float
    wait_seconds: float
    interval_seconds: float
    norm: float
    score: float

    @property
    def idle_share(self) -> float:
        """Of its time: what it waits rather than trains. 0 where that is not known yet."""
        return min(1.0, self.wait_seconds / self.interval_seconds) if self.interval_seconds > 0 else 0.0


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
class PartStatus:
    """A server's part of a version; the hash is that of its snapshot."""

    server: str
    first_element: int
    elements: int
    hash: int


@dataclass(frozen=True)
class RoundStatus:
    """A version that was made: of which pushes (without their chunks; none: parts of the model moved).

    ``norm`` is that of the average, before it was multiplied with ``factor``.
    """

    version: int
    norm: float
    factor: float
    seconds: float
    pushes: tuple[RoundPush, ...]
    parts: tuple[PartStatus, ...]


@dataclass(frozen=True)
class Status:
    """A master: the newest version that counts (0: none yet), what is in it, and who takes part.

    ``waits_for`` says in words what keeps it from training; empty where nothing does. ``rounds_skipped``
    counts since this master began. ``moves_shards``: parts of the model are on their way to servers that
    came later. ``rounds``: the newest that this master made, 64 at most, the oldest first.
    """

    version: int
    tokens: int
    chunks: int
    chunks_done: int
    chunks_held: int
    rounds_skipped: int
    waits_for: str
    moves_shards: bool
    workers: tuple[WorkerStatus, ...]
    servers: tuple[ServerStatus, ...]
    rounds: tuple[RoundStatus, ...]

    @staticmethod
    def read(said: Mapping[str, Any]) -> "Status":
        rest = {key: value for key, value in said.items() if key not in ("members", "rounds")}
        workers = []
        servers = []
        for member in said["members"]:
            fields = {key: value for key, value in member.items() if key != "role"}
            if member["role"] == "worker":
                workers.append(WorkerStatus(**fields))
            else:
                servers.append(ServerStatus(**fields))
        rounds = tuple(_read_round(one) for one in said["rounds"])
        return Status(**rest, workers=tuple(workers), servers=tuple(servers), rounds=rounds)


def _read_round(said: Mapping[str, Any]) -> RoundStatus:
    pushes = tuple(RoundPush.read(one) for one in said["pushes"])
    parts = tuple(PartStatus(*one) for one in said["parts"])
    return RoundStatus(**{**said, "pushes": pushes, "parts": parts})


def ask(master: str, *, identity: IdentitySource = None, timeout: float = 5.0) -> Status:
    """The status of the master at that address. Raises UnavailableError where none answers in time."""
    return Status.read(_core.ask_parameter_master(master, identity, timeout))
