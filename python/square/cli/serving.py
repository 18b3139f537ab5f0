"""Commands that run until a signal ends them."""

import logging
import queue
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

from square import log
from square.run.interruption import signals_to

SIGNAL_CHECK_SECONDS = 0.2


def log_to_stderr(*, verbose: bool) -> None:
    """What the library has to say, with the time, on standard error."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.WARNING
    )
    level = logging.DEBUG if verbose else logging.INFO
    logging.getLogger("square").setLevel(level)
    log.connect(level)


@contextmanager
def mortal() -> Iterator[None]:
    """While there is nothing to clean up, a signal ends the process at once."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Service:
    """Something that runs until SIGINT or SIGTERM. Enter it before anybody can know of it."""

    def __init__(self) -> None:
        # A handler may run while wait() holds an Event's lock; this queue may be put to from inside.
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        _raise_file_limit()
        self._stack.enter_context(signals_to(self._ended.put))
        return self

    def __exit__(self, *_: object) -> None:
        log.disconnect()
        self._stack.close()

    def has_ended(self, seconds: float) -> bool:
        """Whether a signal has come, or does within so many seconds."""
        try:
            self._ended.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    def wait(self) -> None:
        # A signal that comes just before a wait begins does not wake it: look again.
        while not self.has_ended(SIGNAL_CHECK_SECONDS):
            pass


def _raise_file_limit() -> None:
    """As many connections as the system allows: with the usual limit a few peers could keep others out."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
