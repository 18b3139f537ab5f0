"""A mark that a process is there, for the others of its host: the kernel takes it away with the process.

A socket with a name in the network namespace, which nobody reads or writes: whether the name can be
connected to says it all. Nothing of it is in the file system, and it needs no thread.
"""

import contextlib
import errno
import secrets
import socket
import threading

from square.torch import fork

_lock = threading.Lock()
_mark: socket.socket | None = None
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


def _drop() -> None:
    """In a forked child: the mark is the parent's."""
    global _lock, _mark, _name
    _lock = threading.Lock()
    if _mark is not None:
        with contextlib.suppress(OSError):
            _mark.close()
    _mark, _name = None, ""


fork.on_fork(_drop)
