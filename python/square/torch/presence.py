"""A mark that a process is there, for the others of its host: the kernel takes it away with the process.

A socket with a name in the network namespace: whether the name can be connected to says it all. Nothing of it
is in the file system, and it needs no thread. It is read only where processes have nothing else to meet at
(refounding.py).
"""

import contextlib
import errno
import json
import secrets
import socket
import threading
from typing import Any

from square.torch import fork

_lock = threading.Lock()
_mark: socket.socket | None = None
_heard: dict[str, list[dict[str, Any]]] = {}
_LONGEST_MESSAGE = 65_536
_MOST_SUBJECTS = 1_024
_name = ""


def own_mark() -> str:
    """The name of this process's mark, made at the first call and kept until the process ends.

    Empty where the system has no such names.
    """
    global _mark, _name
    with _lock:
        if _mark is None:
            # Close-on-exec, so other programs do not inherit it; forked children drop it below.
            mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            name = f"square-{secrets.token_hex(16)}"
            try:
                mark.bind(f"\0{name}")
            except OSError:
                name = ""
            _mark, _name = mark, name
        return _name


def is_there(mark: str) -> bool:
    """Whether the process of this host with that mark lives; true if that cannot be known."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(f"\0{mark}")
        except OSError as error:
            return error.errno != errno.ECONNREFUSED
    return True


def say(mark: str, subject: str, message: dict[str, Any]) -> None:
    """Writes to the process of this host with that mark; lost where that is gone or does not read."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, contextlib.suppress(OSError):
        line.setblocking(False)
        line.sendto(json.dumps([subject, message]).encode(), f"\0{mark}")


def heard(subject: str) -> list[dict[str, Any]]:
    """What others have written to this process on the subject since the last call."""
    with _lock:
        while _mark is not None:
            try:
                text = _mark.recv(_LONGEST_MESSAGE, socket.MSG_DONTWAIT)
                about, message = json.loads(text)
            except OSError:
                break
            except ValueError:  # not ours
                continue
            if len(_heard) < _MOST_SUBJECTS or about in _heard:
                _heard.setdefault(about, []).append(message)
        return _heard.pop(subject, [])


def _drop() -> None:
    """In a forked child: the mark is the parent's."""
    global _lock, _mark, _name
    _lock = threading.Lock()
    if _mark is not None:
        with contextlib.suppress(OSError):
            _mark.close()
    _mark, _name = None, ""


fork.on_fork(_drop)
