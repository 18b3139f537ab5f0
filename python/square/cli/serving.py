"""Commands that run until a signal ends them."""

import logging
import sys
import threading
from contextlib import ExitStack
from typing import Self

from square import log
from square.run.interruption import signals_to


def log_to_stderr(*, verbose: bool) -> None:
    """What the library has to say, with the time, on standard error."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.WARNING
    )
    level = logging.DEBUG if verbose else logging.INFO
    logging.getLogger("square").setLevel(level)
    log.connect(level)


class Service:
    """Something that runs until SIGINT or SIGTERM. Enter it before anybody can know of it."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(signals_to(lambda _: self._ended.set()))
        return self

    def __exit__(self, *_: object) -> None:
        log.disconnect()
        self._stack.close()

    def wait(self) -> None:
        self._ended.wait()
