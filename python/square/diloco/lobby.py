"""Where processes ask a member to be taken in, and wait until all members have agreed on that.

There is no thread: connections wait in the kernel until the member looks, which it does in every round.
"""

import hmac
import json
import logging
import secrets
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from square.diloco.agreement import difference

_log = logging.getLogger("square.diloco")

# More wait in the kernel, or are refused there.
MOST_WAITING = 64
# What a process says of its model.
MOST_HELLO_BYTES = 16 << 20
# A look waits so long for what is on its way, of those that have shown the secret.
LOOK_SECONDS = 0.5
SECRET_BYTES = 16
# A process that asks a member which does not answer asks the next one.
CONNECT_SECONDS = 3.0
_PAUSE_SECONDS = 0.2
_CHUNK = 1 << 16


class Lobby:
    """One member's. `description` is what newcomers must have in common with it: see agreement.describe()."""

    def __init__(self, address: str, secret: str, description: Sequence[Sequence[str]]) -> None:
        self._description = [list(pair) for pair in description]
        self._secret = secret.encode("ascii")
        self._server = socket.create_server((address, 0), backlog=MOST_WAITING)
        self._server.setblocking(False)
        self.place: list[Any] = [address, self._server.getsockname()[1]]
        self._said: dict[socket.socket, bytearray] = {}
        self._ready: list[socket.socket] = []

    def waiting(self) -> int:
        """How many are here that may join. Those with another model are told so. Blocks for LOOK_SECONDS at
        the most."""
        with suppress(BlockingIOError):
            while len(self._said) + len(self._ready) < MOST_WAITING:
                connection, _ = self._server.accept()
                connection.setblocking(False)
                self._said[connection] = bytearray()
        self._ready = [one for one in self._ready if _is_open(one)]
        end = time.monotonic() + LOOK_SECONDS
        patience = 0.0
        while self._said:
            found = select.select(list(self._said), [], [], patience)[0]
            for connection in found:
                self._read(connection)
            patience = min(0.05, max(0.0, end - time.monotonic()))
            has_more = any(len(said) > len(self._secret) for said in self._said.values())
            if not found and (not has_more or patience == 0.0):
                break
        return len(self._ready)

    def welcome(self, invitation: str) -> int:
        """Tells all that are here to join; how many."""
        told = 0
        for connection in self._ready:
            told += _answer(connection, {"join": invitation})
        self._ready = []
        return told

    def close(self) -> None:
        for connection in (*self._said, *self._ready, self._server):
            connection.close()
        self._said, self._ready = {}, []

    def _read(self, connection: socket.socket) -> None:
        said = self._said[connection]
        try:
            piece = connection.recv(_CHUNK)
        except OSError:
            piece = b""
        said += piece
        known = bytes(said[: len(self._secret)])
        is_known = hmac.compare_digest(known, self._secret[: len(known)])
        if not piece or not is_known or len(said) > MOST_HELLO_BYTES:
            del self._said[connection]
            connection.close()
        elif said.endswith(b"\n"):
            del self._said[connection]
            self._hear(connection, bytes(said[len(self._secret) :]))

    def _hear(self, connection: socket.socket, hello: bytes) -> None:
        try:
            other = json.loads(hello)
            found = difference(self._description, other, "the group", "this process")
        except (ValueError, TypeError):
            found = "what this process said of its model cannot be read: another version of square?"
        if not found:
            self._ready.append(connection)
            return
        _log.warning("somebody who asked to join is refused: %s", found)
        _answer(connection, {"error": found})


def ask(places: Sequence[Sequence[Any]], secret: str, description: Sequence[Any], end: float) -> str:
    """Asks any of the members, and waits until they have agreed: the invitation to their group as it is then.

    Raises ValueError for a model that is not theirs, with the difference, and TimeoutError. Blocks until
    `end` (time.monotonic()).
    """
    hello = secret.encode("ascii") + json.dumps(description).encode("ascii") + b"\n"
    while time.monotonic() < end:
        for host, port in places:
            with suppress(OSError):
                answer = _ask(host, port, hello, end)
                if "error" in answer:
                    raise ValueError(f"diloco: {answer['error']}")
                if "join" in answer:
                    return str(answer["join"])
        time.sleep(_PAUSE_SECONDS)
    raise TimeoutError(f"diloco: no member has taken this process in; asked were {places}")


def _ask(host: str, port: int, hello: bytes, end: float) -> dict[str, Any]:
    left = max(0.001, end - time.monotonic())
    with socket.create_connection((host, port), min(CONNECT_SECONDS, left)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.settimeout(left)
        connection.sendall(hello)
        with connection.makefile("rb") as answers:
            line = answers.readline(MOST_HELLO_BYTES)
    answer: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
    return answer


def _answer(connection: socket.socket, answer: dict[str, str]) -> bool:
    """Whether it could be told."""
    with connection, suppress(OSError):
        connection.setblocking(True)
        connection.settimeout(LOOK_SECONDS)
        connection.sendall(json.dumps(answer).encode("ascii") + b"\n")
        return True
    return False


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
