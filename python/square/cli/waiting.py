"""A line that says how long something takes, for people who watch a terminal."""

import sys
import threading
import time
from types import TracebackType

# Before that nobody wonders.
PATIENCE_SECONDS = 1.0
REFRESH_SECONDS = 0.25
# Back to the start of the line, and clear it.
CLEAR = "\r\x1b[K"


class Waiting:
    """While the block runs: "planning, 12 s" on standard error if that is a terminal.

    No cursor is hidden and no thread is left, so a signal may end the program at any time.
    """

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        start = time.monotonic()
        if self._done.wait(PATIENCE_SECONDS):
            return
        while True:
            print(
                f"{CLEAR}{self._doing}, {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True
            )
            if self._done.wait(REFRESH_SECONDS):
                break
        print(CLEAR, end="", file=sys.stderr, flush=True)
