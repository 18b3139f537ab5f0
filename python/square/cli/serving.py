"""Commands that run until a signal ends them."""

import logging
import sys
import threading
from collections.abc import Callable

from square import log
from square.run.interruption import signals_to

POLL_SECONDS = 0.5


def log_to_stderr(*, verbose: bool) -> None:
    """What the library has to say, with the time, on standard error."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.WARNING
    )
    level = logging.DEBUG if verbose else logging.INFO
    logging.getLogger("square").setLevel(level)
    log.connect(level)


def serve(serve_once: Callable[[], None]) -> None:
    """Calls `serve_once` now and then until SIGINT or SIGTERM comes."""
    ended = threading.Event()
    with signals_to(lambda _: ended.set()):
        while not ended.wait(POLL_SECONDS):
            serve_once()
