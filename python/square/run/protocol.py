"""The lines between `square run` and its workers: one JSON object each.

Commands go down a worker's standard input, events come up its standard output. Times are
of the worker's machine's monotonic clock, which processes of one machine share.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, get_args

from square.run import operations

# A line that is longer is a bug, or not ours.
MAX_LINE_BYTES = 16 << 20
# A worker's argument, after its parent's process id, that asks for a network of its own.
ISOLATED = "isolated"


@dataclass(frozen=True)
class Seat:
    """A member of a collective that lives on the worker's node."""

    collective: int
    tenant: str
    members: tuple[str, ...]
    rank: int
    root_rank: int | None  # None where the operation has no root
    size_bytes: int
    weight: float
    op: str = "broadcast"
    is_ring: bool = False

    @property
    def gives(self) -> bool:
        return operations.gives(self.op, self.rank, self.root_rank)

    @property
    def gets(self) -> bool:
        return operations.gets(self.op, self.rank, self.root_rank)


@dataclass(frozen=True)
class Wire:
    """Only to a worker in a network of its own, and first: bring the interfaces up."""

    ip: tuple[str, ...]  # lines for `ip -batch`
    tc: tuple[str, ...]  # and then for `tc -batch`
    neighbours: dict[str, str]  # by interface


@dataclass(frozen=True)
class Join:
    """Become this node."""

    node: str
    controller: str
    bind_address: str = "127.0.0.1:0"
    pem: str = ""  # of the run's own identity; empty: none
    paced: bool = True
    advertised_address: str = ""


@dataclass(frozen=True)
class Clock:
    """Say what time it is."""

    number: int


@dataclass(frozen=True)
class Seats:
    """Create the communicators and the buffers of these members."""

    seats: tuple[Seat, ...]
    input: str | None  # the roots' payload; None: generate it
    seed: int
    timeout_seconds: float


@dataclass(frozen=True)
class Prepare:
    """Overwrite the destinations' buffers, and have the links of this plan up, or of a later one."""

    run: int
    epoch: int


@dataclass(frozen=True)
class Begin:
    """Start all members' operations at this time."""

    run: int
    at: float
    timeout_seconds: float


@dataclass(frozen=True)
class Verify:
    """Say what the buffers of broadcasts and of results hold."""

    run: int


@dataclass(frozen=True)
class Isolated:
    """This worker is in a network of its own, which is empty."""


@dataclass(frozen=True)
class Wired:
    pass


@dataclass(frozen=True)
class Joined:
    address: str
    version: str  # of the package there


@dataclass(frozen=True)
class Clocked:
    number: int
    at: float


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
    """One member's operation is done."""

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
class LinkCounters:
    """What the kernel's shaper of one link let through and dropped."""

    to: str
    bytes: int
    packets: int
    dropped: int


@dataclass(frozen=True)
class Counted:
    """Of a wired worker, before its digests: since ``Prepare``."""

    run: int
    links: tuple[LinkCounters, ...]
    retransmitted_segments: int


@dataclass(frozen=True)
class Failed:
    code: str
    message: str


Command = Wire | Join | Clock | Seats | Prepare | Begin | Verify
Event = (
    Isolated | Wired | Joined | Clocked | Ready | Prepared | Progress | Finished | Counted | Digest | Failed
)

_COMMANDS: dict[str, type[Command]] = {kind.__name__: kind for kind in get_args(Command)}
_EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def encode(message: Command | Event) -> bytes:
    return json.dumps({"type": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode_command(line: bytes) -> Command:
    kind, fields = _fields(line)
    if kind == Seats.__name__:
        seats = (Seat(**{**seat, "members": tuple(seat["members"])}) for seat in fields["seats"])
        fields["seats"] = tuple(seats)
    if kind == Wire.__name__:
        fields.update(ip=tuple(fields["ip"]), tc=tuple(fields["tc"]))
    return _COMMANDS[kind](**fields)


def decode_event(line: bytes) -> Event:
    kind, fields = _fields(line)
    if kind == Counted.__name__:
        fields["links"] = tuple(LinkCounters(**link) for link in fields["links"])
    return _EVENTS[kind](**fields)


def _fields(line: bytes) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = json.loads(line)
    return fields.pop("type"), fields
