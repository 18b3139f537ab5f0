"""Everything that a run can hear of, in one queue: workers, signals, and calls that return."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from square.errors import BY_CODE, DeadlineExceededError, SquareError, UnavailableError, UnknownError
from square.run.interruption import Interrupted
from square.run.processes import Gone, Said
from square.run.protocol import Failed

# A member's failure is often a neighbour's death; this long to hear of it.
DEATH_NOTICE_SECONDS = 0.5
# Threads of this name may be inside libsquare when a run is given up.
CALL_THREAD_NAME = "square-call"
# What a queue can wait for at once.
_FOREVER_SECONDS = 86_400.0

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Signal:
    number: int


@dataclass(frozen=True)
class _Returned:
    call: object
    value: object
    error: BaseException | None


class Mailbox:
    """Waits for one thing and hears of all others, so that no wait outlives a death or a signal.

    ``doing`` says in messages what the run was at, ``has_workers`` that a failure may have a
    death behind it.
    """

    def __init__(self) -> None:
        self.doing = "starting"
        self.has_workers = False
        self._events: queue.SimpleQueue[_Signal | _Returned | Said | Gone] = queue.SimpleQueue()
        self._began = time.monotonic()
        self._limit_seconds = float("inf")

    def notify(self, event: Said | Gone) -> None:
        self._events.put(event)

    def notify_signal(self, number: int) -> None:
        """Safe in a signal handler."""
        self._events.put(_Signal(number))

    def limit(self, seconds: float) -> None:
        """From when the mailbox was made."""
        self._limit_seconds = seconds

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def left_seconds(self) -> float:
        return max(0.0, min(self._limit_seconds - self.elapsed_seconds, _FOREVER_SECONDS))

    def next(self, missing: Callable[[], str]) -> Said:
        """What a worker says next. ``missing`` says what is waited for, past the time limit."""
        while True:
            event = self._next_event(missing)
            if isinstance(event, Said):
                return event

    def call(self, function: Callable[[], Answer]) -> Answer:
        """What ``function`` returns, which may block in libsquare. What workers say meanwhile is dropped."""
        call = object()

        def work() -> None:
            try:
                self._events.put(_Returned(call, function(), None))
            except BaseException as error:
                self._events.put(_Returned(call, None, error))

        threading.Thread(target=work, name=CALL_THREAD_NAME, daemon=True).start()
        while True:
            event = self._next_event(lambda: "the controller has not answered")
            if not isinstance(event, _Returned) or event.call is not call:
                continue
            if isinstance(event.error, SquareError):
                self._fail(event.error)
            if event.error is not None:
                raise event.error
            return event.value  # type: ignore[return-value]

    def _next_event(self, missing: Callable[[], str]) -> Said | _Returned:
        try:
            event = self._events.get(timeout=self.left_seconds)
        except queue.Empty:
            raise DeadlineExceededError(
                f"{self.doing}: over the time limit of {self._limit_seconds:.0f} s; {missing()}; "
                "--timeout sets another limit"
            ) from None
        if isinstance(event, Said) and isinstance(event.event, Failed):
            kinds = {kind.code: kind for kind in BY_CODE.values()}
            self._fail(kinds.get(event.event.code, UnknownError)(f"node {event.node}: {event.event.message}"))
        return self._if_alive(event)

    def _fail(self, error: SquareError) -> NoReturn:
        """Raises the death that explains the error, if one is heard of soon, else the error."""
        if not self.has_workers:
            raise error
        deadline = time.monotonic() + DEATH_NOTICE_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._if_alive(self._events.get(timeout=left))
            except queue.Empty:
                break
        raise type(error)(f"{self.doing}: {error}")

    def _if_alive(self, event: _Signal | _Returned | Said | Gone) -> Said | _Returned:
        if isinstance(event, _Signal):
            raise Interrupted(event.number, f"the run was in {self.doing} and was")
        if isinstance(event, Gone):
            text = f"{self.doing}: {event}; the run was ended"
            raise UnavailableError(f"{text}\n{event.complaints}" if event.complaints else text)
        return event
