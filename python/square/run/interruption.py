"""Signals that end a run, as events and as an error."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818 - not a failure of ours
    """A signal ended what was running."""

    def __init__(self, signal_number: int, what: str) -> None:
        self.signal_number = signal_number
        super().__init__(f"{what} ended by {signal.Signals(signal_number).name}")


@contextmanager
def signals_to(notify: Callable[[int], None]) -> Iterator[None]:
    """Calls ``notify`` with the number of a SIGINT or SIGTERM instead of ending the process.

    Only in the main thread; ``notify`` must be safe in a signal handler. After one of them the
    process is about to end because of it, and others that come until then are ignored.
    """
    came = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal came
        came = True
        notify(number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if came else handler)
