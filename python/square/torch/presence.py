"""A mark that a process is there, for the others of its host: the kernel takes it away with the process.

A socket with a name in the network namespace: whether the name can be connected to says it all. Nothing of it
is in the file system, and it needs no thread. It is read only where processes have nothing else to meet at
(refounding.py). Every user of the host sees the name and can write there, so what comes of another user is
dropped.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
import struct
import threading
from typing import Any

from square.torch import fork

_lock = threading.Lock()
_mark: socket.socket | None = None
_heard: dict[str, list[dict[str, Any]]] = {}
_LONGEST_MESSAGE = 65_536
_MOST_SUBJECTS = 1_024
# On one subject; a process repeats a question that is not answered.
_MOST_MESSAGES = 4_096
# At one call of heard(), however fast others write.
_MOST_READ = 4_096
# struct ucred: process, user, group.
_SENDER = struct.Struct("iII")
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
                mark.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
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
    """What processes of this user have written to this one on the subject since the last call."""
    with _lock:
        read = 0
        while _mark is not None and read < _MOST_READ:
            read += 1
            try:
                text, sender, *_ = _mark.recvmsg(
                    _LONGEST_MESSAGE, socket.CMSG_SPACE(_SENDER.size), socket.MSG_DONTWAIT
                )
            except OSError:
                break
            if _user_of(sender) in (0, os.getuid()):
                _take(text)
        return _heard.pop(subject, [])


def _user_of(sender: list[tuple[int, int, bytes]]) -> int | None:
    """As the kernel says it, and not the sender."""
    for level, kind, said in sender:
        if (level, kind, len(said)) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, _SENDER.size):
            user: int = _SENDER.unpack(said)[1]
            return user
    return None


def _take(text: bytes) -> None:
    try:
        about, message = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return
    if not isinstance(about, str) or not isinstance(message, dict):
        return
    if len(_heard) < _MOST_SUBJECTS or about in _heard:
        messages = _heard.setdefault(about, [])
        messages.append(message)
        del messages[:-_MOST_MESSAGES]


def _drop() -> None:
    """In a forked child: the mark is the parent's."""
    global _lock, _mark, _name
    _lock = threading.Lock()
    if _mark is not None:
        with contextlib.suppress(OSError):
            _mark.close()
    _mark, _name = None, ""


fork.on_fork(_drop)
