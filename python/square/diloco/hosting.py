"""What some members of the decoupled mode run for all: the master, and the servers that keep the model."""

import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import square
from square import hosts, ps
from square.diloco.outer import Nesterov
from square.errors import SquareError, UnavailableError
from square.files import replacing
from square.ps import Master, Server, Status, ask
from square.temporary import temporary_folder
from square.torch.process_group import ProcessGroup

_log = logging.getLogger("square.diloco")

# What a push's elements are on the wire.
PUSHES: dict[str, Literal["bf16", "float32"]] = {"bf16": "bf16", "none": "float32"}
# Stale pushes bear less momentum than a common round's.
USUAL_OUTER = Nesterov(lr=0.7, momentum=0.8)
# A master that does not answer so often in a row is gone.
MOST_SILENCES = 5
_ASK_SECONDS = 1.0
_LOOK_SECONDS = 0.1
# Beside the servers' folders, on rank 0.
DELAY_FILE = "decoupled.json"
# In which the servers that begin on their snapshots find the version that all of them have.
FIND_SECONDS = 5.0
# Of other modes: what they are here, and why nothing else.
_UNUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "fragments": ((1, "balanced:1"), "the whole model is pushed at once"),
    "links": ((None,), "there are no fragments to plan"),
    "fragment_sync_delay": ((None, 0), "a push is taken over as soon as it is in a version"),
    "fragment_update_alpha": ((0,), "what a member does meanwhile is added to what it takes over"),
    "on_lost_round": (("carry",), "what is in no version is in the next push"),
    "backup_device": (("cpu",), "base and pushes are there"),
}


@dataclass(frozen=True)
class Terms:
    """What holds for all members; checked."""

    outer: Nesterov
    compression: str
    quorum: int
    grace: float | None  # seconds; None: "auto"
    servers: int
    join: str

    def described(self) -> list[list[str]]:
        return [[name, str(value)] for name, value in vars(self).items()]

    def delay(self, size: int) -> int:
        """Of the outer step, of so many members: as many rounds as hold a push of each go as far as one.

        Delayed Nesterov, Liu et al., arXiv:2401.09135, algorithm 3: momentum that changed with every single
        push, which is stale, would diverge.
        """
        return math.ceil(size / self.quorum)

    def check_size(self, size: int) -> None:
        """Raises ValueError for more than the group has."""
        for name, number in (("quorum", self.quorum), ("servers", self.servers)):
            if number > size:
                raise ValueError(f"{name}: 1 to {size} of so many members, not {number}")


def make_terms(
    outer: Any, compression: str | None, quorum: int, grace: Any, servers: int, join: str
) -> Terms:
    """Raises ValueError with the argument that cannot be."""
    if outer is not None and not isinstance(outer, Nesterov):
        raise ValueError(
            'outer: in mode="decoupled" the servers do the step, and theirs is square.diloco.Nesterov'
        )
    kind = "none" if compression is None else compression
    if kind not in PUSHES:
        raise ValueError(f'compression: mode="decoupled" has "bf16" and "none", not "{compression}"')
    for name, number in (("quorum", quorum), ("servers", servers)):
        if not isinstance(number, int) or number < 1:
            raise ValueError(f"{name}: at least 1 member, not {number}")
    seconds = grace.total_seconds() if isinstance(grace, timedelta) else grace
    if isinstance(seconds, str):
        if seconds != "auto":
            raise ValueError(f'grace: seconds, or "auto", not "{seconds}"')
        seconds = None
    elif not seconds >= 0:
        raise ValueError(f"grace: at least 0 seconds, not {seconds}")
    return Terms(outer or USUAL_OUTER, kind, quorum, seconds, servers, join)


def check_unused(others: dict[str, Any], weight: str) -> None:
    """Of arguments that other modes have. Raises ValueError with the first that is none here."""
    if weight != "tokens":
        raise ValueError(f'weight: mode="decoupled" weighs by "tokens", not "{weight}"')
    for name, value in others.items():
        if name not in _UNUSED:
            raise TypeError(f"DiLoCo has no argument {name}")
        usual, reason = _UNUSED[name]
        if (str(value) if name == "backup_device" else value) not in usual:
            raise ValueError(f'{name}: mode="decoupled" takes none: {reason}')


def address_for(group: Any, keys: Sequence[str], join: str) -> str:
    """Where this member is reached by those whose hosts.host_key() these are, and by who joins.

    Raises ValueError where there is only a loopback address.
    """
    node = group.calls.site.address if isinstance(group, ProcessGroup) else ""
    if len(set(keys)) == 1:
        return hosts.LOOPBACK if join == "none" else hosts.reachable_address(node)
    host = hosts.split_address(node)[0]
    if host and not hosts.is_loopback(host):
        return host
    return hosts.public_address(os.environ.get("SQUARE_INTERFACE"), os.environ.get("MASTER_ADDR"))


def identity_of(place: list[str]) -> square.Identity:
    """By which members know a master that Host.lead() has started."""
    return square.Identity.from_pem(place[1])


def _has_snapshots(folder: Path) -> bool:
    return any(folder.glob("*.snapshot"))


class Host:
    """What this member runs: of group rank 0 the master, of the first `servers` a server each."""

    def __init__(self, terms: Terms, rank: int, snapshots: "str | os.PathLike[str] | None") -> None:
        self._terms = terms
        self._rank = rank
        self._snapshots = None if snapshots is None else Path(snapshots)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._master: Master | None = None
        self._server: Server | None = None
        self._place: list[str] = []

    def lead(self, size: int, address: Callable[[], str]) -> list[str] | None:
        """Starts the master of that many members, on rank 0: its address, and the key by which its members
        know one another, which goes through the group. They have one on the loopback, too: otherwise every
        user of the host could join. Raises square's errors."""
        if self._rank != 0:
            return None
        terms = self._terms
        identity = square.Identity.make_own()
        self._master = Master(
            f"{address()}:0",
            identity=identity,
            servers=terms.servers,
            quorum=terms.quorum,
            grace="auto" if terms.grace is None else terms.grace,
            outer=ps.Nesterov(terms.outer.lr, terms.outer.momentum, delay=self._delay(size)),
            push=PUSHES[terms.compression],
            clip=None,
            penalty=None,
        )
        return [self._master.address, identity.pem]

    def serve(self, place: list[str], limit: float) -> bool:
        """Starts a server, where this member is to have one: whether it has snapshots. Blocks for `limit`
        seconds at the most; raises square's errors."""
        self._place = place
        if self._rank >= self._terms.servers:
            return False
        if self._snapshots is None:
            self._temporary = temporary_folder("square-diloco-")
        folder = Path(self._temporary.name) if self._temporary else self._snapshots
        assert folder is not None
        name = f"server{self._rank}"
        has_snapshots = _has_snapshots(folder / name)
        server = Server(place[0], folder / name, name=name, identity=identity_of(place), timeout=limit)
        self._server = server
        return has_snapshots

    def _delay(self, size: int) -> int:
        """With snapshots that of the members that began: they may be of between two moves of the momentum."""
        own = self._terms.delay(size)
        if self._snapshots is None:
            return own
        file = self._snapshots / DELAY_FILE
        if file.exists() and _has_snapshots(self._snapshots / "server0"):
            return int(json.loads(file.read_text())["delay"])
        self._snapshots.mkdir(parents=True, exist_ok=True)
        with replacing(file) as path:
            path.write_text(json.dumps({"delay": own}))
        return own

    def check_found(self, limit: float) -> None:
        """On rank 0, where some servers have snapshots: that all have one version. Raises ValueError, and
        what this member's server has failed with. Blocks for `limit` seconds at the most."""
        assert self._server is not None
        end = time.monotonic() + limit
        are_there = False
        status = self.status()
        while status.version == 0 and time.monotonic() < end:
            if not are_there and len(status.servers) == self._terms.servers:
                are_there, end = True, min(end, time.monotonic() + FIND_SECONDS)
            self._server.wait(_LOOK_SECONDS)
            status = self.status()
        if status.version == 0:
            raise ValueError(
                f"snapshots: training cannot go on from {self._snapshots}: the master waits for "
                f"{status.waits_for}; pass the same servers= and folders as before, or empty folders"
            )

    def status(self) -> Status:
        """On rank 0."""
        assert self._master is not None
        return self._master.status()

    def version(self) -> int:
        """The newest, on rank 0; elsewhere 0."""
        return self.status().version if self._master is not None else 0

    def wait_for_others(self, limit: float | None) -> None:
        """Until nobody needs what is here: on rank 0 all others have left, or are gone; on others that serve
        it is rank 0 that has left. At most `limit` seconds. Ctrl-C is heard."""
        end = None if limit is None else time.monotonic() + limit
        silences = 0
        while end is None or time.monotonic() < end:
            if self._master is not None:
                status = self.status()
                if status.version and not status.workers:  # a busy one says nothing at all
                    return
            elif self._server is None or silences == MOST_SILENCES:
                return
            else:
                silences = 0 if self._answers() else silences + 1
            time.sleep(_LOOK_SECONDS)
        _log.warning("others are still training without the model that was here: %g s are over", limit)

    def _answers(self) -> bool:
        try:
            ask(self._place[0], identity=identity_of(self._place), timeout=_ASK_SECONDS)
        except UnavailableError:
            return False
        except SquareError as error:
            _log.warning("the master refuses to answer: %s", error)
            return False
        return True

    def stop(self) -> None:
        """The others go on by themselves from now on. Idempotent."""
        if self._server is not None:
            self._server.stop()
        if self._master is not None:
            self._master.stop()
        if self._temporary is not None:
            self._temporary.cleanup()
        self._server = self._master = self._temporary = None
