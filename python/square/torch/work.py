"""Operations under way, as torch.distributed hands them out."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

import square
from square.torch import fork
from square.torch.errors import backend_error
from square.torch.roll_call import LOSSES, RollCall


class Work(distributed.Work):
    """One call on a group: parts that the communicator runs, and what is to do when all are over.

    Whoever learns first that the parts are over completes the work: a waiter, the group's next call, or,
    where there is a future, square's thread for callbacks.
    Thread-safe.
    """

    def __init__(
        self,
        operation: str,
        group: "Member",
        parts: Sequence[square.Work],
        result: Any,
        finish: Callable[[], None],
        keep: Sequence[Any] = (),
        of: "Sequence[Work]" = (),
    ) -> None:
        super().__init__()
        self.operation = operation
        self._group = group
        self.parts = parts
        self._result = result
        self._finish = finish
        self._keep = keep
        self._of = of
        self._lock = threading.Lock()
        self._is_over = False
        self._error: Exception | None = None
        self._future: Any = None

    @classmethod
    def joined(
        cls,
        operation: str,
        group: "Member",
        works: "Sequence[Work]",
        result: Any,
        finish: Callable[[], None] = lambda: None,
    ) -> "Work":
        """Over when all of these are, with the first failure. Each is completed as soon as it is over."""
        parts = [part for work in works for part in work.parts]
        return cls(operation, group, parts, result, finish, of=works)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Until it is over, or for `timeout` if that is more than 0; the operation then goes on.

        Raises DistBackendError, which names group, rank and cause.
        """
        fork.check()
        if not self._is_over:
            self._wait_for_parts(timeout.total_seconds())
            self._complete()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        if not self._is_over and all(part.is_done for part in self.parts):
            self._complete()
        return self._is_over

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        self.is_completed()
        return self._error

    def get_future(self) -> Any:
        """A future of the result; callbacks run on the thread that completes the work."""
        with self._lock:
            if self._future is not None:
                return self._future
            future = self._future = torch.futures.Future()
            is_over = self._is_over
        if is_over:
            self._resolve(future)
        else:
            for part in self.parts:
                part.add_done_callback(self._look)
        return future

    def result(self) -> Any:
        self.wait()
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        """The rank in the group that a message came from."""
        return int(getattr(self.parts[0], "source")) if self.parts else -1  # noqa: B009

    _source_rank = source_rank

    def cancel(self) -> None:
        """Ends it on every member, unless it is over. Does not block."""
        for part in self.parts:
            part.cancel()

    def make_immortal(self) -> None:
        """In a forked child nobody may wait for the parts, as their destructors would."""
        fork.make_immortal(self)
        for part in self.parts:
            fork.make_immortal(part)

    def _look(self) -> None:
        self.is_completed()

    def _wait_for_parts(self, seconds: float) -> None:
        if seconds <= 0:
            # _complete() reads their failures again.
            if self._of:
                with contextlib.suppress(RuntimeError):
                    self._complete_joined()
                return
            for part in self.parts:
                with contextlib.suppress(square.SquareError):
                    part.wait()
            return
        deadline = time.monotonic() + seconds
        for part in self.parts:
            if not part.wait_for(max(0.0, deadline - time.monotonic())):
                cause = TimeoutError(f"it is not over after {seconds:g} s, and goes on")
                raise self._group.error(self.operation, cause)

    def _complete_joined(self) -> None:
        for work in self._of:
            work.wait()

    def _complete(self) -> None:
        with self._lock:
            if self._is_over:
                return
            try:
                self._complete_joined()
                for part in self.parts:
                    part.wait()
                self._finish()
            except Exception as error:
                self._group.has_failed = True
                self._error = self._group.error(self.operation, error)
            self._is_over = True
            # Buffers are free from here on.
            self._finish, self._keep, self._of = _nothing, (), ()
            future = self._future
        if future is not None:
            self._resolve(future)

    def _resolve(self, future: Any) -> None:
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(self._result)


class Member:
    """What errors call a group and this member, and whether it has met with any."""

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.has_failed = False
        self.roll_call: RollCall | None = None

    def error(self, operation: str, cause: Exception) -> Exception:
        """What to raise. Blocks for about two seconds at the most, to learn who is gone."""
        more = ""
        if isinstance(cause, LOSSES) and self.roll_call is not None:
            self.has_failed = True
            more = self.roll_call.explain(cause)
        return backend_error(operation, self.name, self.rank, cause, more)


def _nothing() -> None:
    pass
