"""Where processes ask a member to be taken in, and wait until all members have agreed on that.

There is no thread: connections wait in the kernel until the member looks, which it does in every round.
What is said can be read on the way, so it holds no secret: who asks proves that it has the invitation's, to
this member and this once, and so does who answers.
"""

import hashlib
import hmac
import json
import logging
import secrets
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from square.diloco.agreement import difference

_log = logging.getLogger("square.diloco")

# Processes that have shown the secret.
MOST_WAITING = 64
# Connections over which no secret came yet. One more takes the place of the oldest.
MOST_STRANGERS = 64
# From when a member accepts a connection until the secret came: some round trips of a slow link.
STRANGER_SECONDS = 3.0
# Connections that wait in the kernel until the member looks. The system may allow fewer (somaxconn).
BACKLOG = 1024
# What a process says of its model.
MOST_HELLO_BYTES = 16 << 20
# From when a member accepts a connection until all of that came.
HELLO_SECONDS = 10.0
# How long a look waits for the rest of what a process says that has shown the secret.
LOOK_SECONDS = 0.5
SECRET_BYTES = 16
# A process that asks a member which does not answer asks the next one.
CONNECT_SECONDS = 3.0
# In hexadecimal digits: a number drawn for each time that somebody asks, and the proof behind it.
_NUMBER_DIGITS = 32
_PROOF_DIGITS = 2 * hashlib.sha256().digest_size
_GREETING_DIGITS = _NUMBER_DIGITS + _PROOF_DIGITS
# Of the newest askers, who are not heard again.
_MOST_NUMBERS = 1 << 16
_PAUSE_SECONDS = 0.2
_CHUNK = 1 << 16


@dataclass
class _Guest:
    """A process that is saying what it is."""

    since: float
    said: bytearray = field(default_factory=bytearray)
    is_known: bool = False

    @property
    def number(self) -> bytes:
        return bytes(self.said[:_NUMBER_DIGITS])

    def is_late(self, now: float) -> bool:
        return now - self.since > (HELLO_SECONDS if self.is_known else STRANGER_SECONDS)


class Lobby:
    """One member's. `description` is what newcomers must have in common with it: see agreement.describe()."""

    def __init__(self, address: str, secret: str, description: Sequence[Sequence[str]]) -> None:
        self._description = [list(pair) for pair in description]
        self._secret = secret
        self._server = socket.create_server((address, 0), backlog=BACKLOG)
        self._server.setblocking(False)
        self.place: list[Any] = [address, self._server.getsockname()[1]]
        self._guests: dict[socket.socket, _Guest] = {}
        self._ready: dict[socket.socket, bytes] = {}  # with their numbers
        self._numbers: dict[bytes, None] = {}  # that were shown, the oldest first

    def waiting(self) -> int:
        """How many are here that may join. Those with another model are told so. Blocks for LOOK_SECONDS at
        the most, and only for processes that have shown the secret."""
        end = time.monotonic() + LOOK_SECONDS
        self._ready = {one: number for one, number in self._ready.items() if _is_open(one)}
        self._read_all(list(self._guests), 0.0)
        self._dismiss_late()
        self._receive(end)
        while known := self._known():
            left = end - time.monotonic()
            if left <= 0 or not self._read_all(known, left):
                break
        return len(self._ready)

    def welcome(self, invitation: str) -> int:
        """Tells all that are here to join; how many."""
        told = 0
        for connection, number in self._ready.items():
            told += self._answer(connection, number, {"join": invitation})
        self._ready = {}
        return told

    def close(self) -> None:
        for connection in (*self._guests, *self._ready, self._server):
            connection.close()
        self._guests, self._ready = {}, {}

    def _known(self) -> list[socket.socket]:
        return [connection for connection, guest in self._guests.items() if guest.is_known]

    def _receive(self, end: float) -> None:
        """Accepts what waits in the kernel. Each is read at once, so that no stranger takes the place of a
        process whose secret is there."""
        with suppress(OSError):  # nothing waits, or this process has no descriptor left
            for _ in range(BACKLOG):
                if time.monotonic() >= end:
                    break
                connection, _ = self._server.accept()
                connection.setblocking(False)
                self._guests[connection] = _Guest(time.monotonic())
                self._read(connection)
                self._make_room()

    def _make_room(self) -> None:
        strangers = [connection for connection, guest in self._guests.items() if not guest.is_known]
        if len(strangers) > MOST_STRANGERS:
            self._dismiss(strangers[0])

    def _dismiss_late(self) -> None:
        now = time.monotonic()
        for connection in [one for one, guest in self._guests.items() if guest.is_late(now)]:
            self._dismiss(connection)

    def _dismiss(self, connection: socket.socket) -> None:
        del self._guests[connection]
        connection.close()

    def _read_all(self, guests: list[socket.socket], seconds: float) -> bool:
        """Whether any of them said something, or ended, in that time."""
        found = select.select(guests, [], [], seconds)[0]
        for connection in found:
            self._read(connection)
        return bool(found)

    def _read(self, connection: socket.socket) -> None:
        guest = self._guests[connection]
        try:
            piece = connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        guest.said += piece
        if not guest.is_known and len(guest.said) >= _GREETING_DIGITS:
            guest.is_known = self._has_room() and self._knows(guest)
        is_stranger = not guest.is_known and len(guest.said) >= _GREETING_DIGITS
        if not piece or is_stranger or len(guest.said) > MOST_HELLO_BYTES:
            self._dismiss(connection)
        elif guest.is_known and guest.said.endswith(b"\n"):
            del self._guests[connection]
            self._hear(connection, guest)

    def _has_room(self) -> bool:
        return len(self._ready) + len(self._known()) < MOST_WAITING

    def _knows(self, guest: _Guest) -> bool:
        """Its proof is one of the secret, for this lobby, and was not shown before."""
        shown = bytes(guest.said[_NUMBER_DIGITS:_GREETING_DIGITS])
        if guest.number in self._numbers or not hmac.compare_digest(
            shown, _proof(self._secret, guest.number, _name_of(*self.place))
        ):
            return False
        self._numbers[guest.number] = None
        if len(self._numbers) > _MOST_NUMBERS:
            del self._numbers[next(iter(self._numbers))]
        return True

    def _hear(self, connection: socket.socket, guest: _Guest) -> None:
        try:
            other = json.loads(guest.said[_GREETING_DIGITS:])
            found = difference(self._description, other, "the group", "this process")
        except (ValueError, TypeError):
            found = "what this process said of its model cannot be read: another version of square?"
        if not found:
            self._ready[connection] = guest.number
            return
        _log.warning("somebody who asked to join is refused: %s", found)
        self._answer(connection, guest.number, {"error": found})

    def _answer(self, connection: socket.socket, number: bytes, answer: dict[str, str]) -> bool:
        """Whether it could be told."""
        line = json.dumps(answer).encode("ascii") + b"\n"
        with connection, suppress(OSError):
            connection.setblocking(True)
            connection.settimeout(LOOK_SECONDS)
            connection.sendall(_proof(self._secret, number, line) + line)
            return True
        return False


def ask(places: Sequence[Sequence[Any]], secret: str, description: Sequence[Any], end: float) -> str:
    """Asks any of the members, and waits until they have agreed: the invitation to their group as it is then.

    Raises ValueError for a model that is not theirs, with the difference, and TimeoutError. Blocks until
    `end` (time.monotonic()).
    """
    hello = json.dumps(description).encode("ascii") + b"\n"
    while time.monotonic() < end:
        for host, port in places:
            with suppress(OSError):
                answer = _ask((host, port), secret, hello, end)
                if "error" in answer:
                    raise ValueError(f"diloco: {answer['error']}")
                if "join" in answer:
                    return str(answer["join"])
        time.sleep(_PAUSE_SECONDS)
    raise TimeoutError(f"diloco: no member has taken this process in; asked were {places}")


def _ask(place: tuple[str, int], secret: str, hello: bytes, end: float) -> dict[str, Any]:
    left = max(0.001, end - time.monotonic())
    number = secrets.token_hex(_NUMBER_DIGITS // 2).encode("ascii")
    with socket.create_connection(place, min(CONNECT_SECONDS, left)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.settimeout(left)
        connection.sendall(number + _proof(secret, number, _name_of(*place)) + hello)
        with connection.makefile("rb") as answers:
            line = answers.readline(MOST_HELLO_BYTES)
    said = line[_PROOF_DIGITS:]
    if not line.endswith(b"\n") or not hmac.compare_digest(
        line[:_PROOF_DIGITS], _proof(secret, number, said)
    ):
        return {}
    answer: dict[str, Any] = json.loads(said)
    return answer


def _proof(secret: str, number: bytes, said: bytes) -> bytes:
    return hmac.new(secret.encode("ascii"), number + said, hashlib.sha256).hexdigest().encode("ascii")


def _name_of(host: str, port: int) -> bytes:
    return f"{host} {port}".encode()


def _is_open(connection: socket.socket) -> bool:
    """It says nothing more: what can be read is its end."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def new_secret() -> str:
    return secrets.token_hex(SECRET_BYTES)
