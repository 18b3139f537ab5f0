"""The lines between `square run` and its workers: one JSON object each.

Commands go down a worker's standard input, events come up its standard output. Times are
of the machine's monotonic clock, which all processes share.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

# A line that is longer is a bug, or not ours.
MAX_LINE_BYTES = 16 << 20


@dataclass(frozen=True)
class Seat:
    """A member of a collective that lives on the worker's node."""

    collective: int
    tenant: str
    members: tuple[str, ...]
    rank: int
    root_rank: int
    size_bytes: int
    weight: float

    @property
    def is_root(self) -> bool:
        return self.rank == self.root_rank


@dataclass(frozen=True)
class Join:
    """The first command: become this node."""

    node: str
    controller: str


@dataclass(frozen=True)
class Seats:
    """Create the communicators and the buffers of these members."""

    seats: tuple[Seat, ...]
    input: str | None  # the roots' payload; None: generate it
    seed: int
    timeout_seconds: float


@dataclass(frozen=True)
class Prepare:
    """Overwrite the destinations' buffers."""

    run: int


@dataclass(frozen=True)
class Begin:
    """Start all members' broadcasts at this time."""

    run: int
    at: float
    timeout_seconds: float


@dataclass(frozen=True)
class Verify:
    """Say what the buffers hold."""

    run: int


@dataclass(frozen=True)
class Joined:
    address: str


@dataclass(frozen=True)
class Ready:
    pass


@dataclass(frozen=True)
class Prepared:
    run: int


@dataclass(frozen=True)
class Progress:
    run: int
    delivered_bytes: int


@dataclass(frozen=True)
class Finished:
    """One member's broadcast is done."""

    run: int
    collective: int
    rank: int
    at: float


@dataclass(frozen=True)
class Digest:
    run: int
    collective: int
    rank: int
    sha256: str


@dataclass(frozen=True)
class Failed:
    code: str
    message: str


Command = Join | Seats | Prepare | Begin | Verify
Event = Joined | Ready | Prepared | Progress | Finished | Digest | Failed

_COMMANDS: dict[str, type[Command]] = {kind.__name__: kind for kind in (Join, Seats, Prepare, Begin, Verify)}
_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Joined, Ready, Prepared, Progress, Finished, Digest, Failed)
}


def encode(message: Command | Event) -> bytes:
    return json.dumps({"type": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode_command(line: bytes) -> Command:
    kind, fields = _fields(line)
    if kind == Seats.__name__:
        seats = (Seat(**{**seat, "members": tuple(seat["members"])}) for seat in fields["seats"])
        fields["seats"] = tuple(seats)
    return _COMMANDS[kind](**fields)


def decode_event(line: bytes) -> Event:
    kind, fields = _fields(line)
    return _EVENTS[kind](**fields)


def _fields(line: bytes) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = json.loads(line)
    return fields.pop("type"), fields
