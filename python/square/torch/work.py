"""Operations under way, as torch.distributed hands them out."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from torch import distributed

import square
from square.torch import fork
from square.torch.errors import backend_error
from square.torch.futures import Answer, at_end_of_backward, note_started
from square.torch.roll_call import LOSSES, RollCall

# One rank may wait for these before another one calls them: no backward pass waits that need not.
_MESSAGES = ("send", "receive")


class Work(distributed.Work):
    """One call on a group: parts that the communicator runs, and what is to do when all are over.

    The first to see that all parts are over completes the work: a waiter, the group's next call, or, where
    there is a future, square's thread for callbacks, which alone runs those. Thread-safe.
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
        self._answer: Answer | None = None
        self._is_followed = note_started(self)

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
        if self._answer is not None:
            self._answer.wait()
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
        """A future of the result; its callbacks run on square's thread for them, and may wait.

        What reads it after a failure gets a RuntimeError with the text of the DistBackendError. A backward
        pass that asked for it, as DDP's does, raises the DistBackendError itself. Raises DistBackendError in
        a callback that is too deep, see square.Work.add_done_callback().
        """
        self.is_completed()
        with self._lock:
            if self._answer is not None:
                return self._answer.future
            answer = self._answer = Answer(self._read)
            is_over = self._is_over
        if self._is_followed or (self.operation not in _MESSAGES and at_end_of_backward(self._end_backward)):
            answer.follow()
        if is_over:
            answer.give()
        else:
            self._watch()
        return answer.future

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

    def _watch(self) -> None:
        try:
            for part in self.parts:
                part.add_done_callback(self._look)
        except square.SquareError as error:
            with self._lock:
                self._answer = None
            raise self._group.error(self.operation, error) from error

    def _look(self) -> None:
        """After each part, on square's thread for callbacks: no other thread may run what can wait."""
        answer = self._answer
        if self.is_completed() and answer is not None:
            answer.give()

    def _read(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def _end_backward(self) -> None:
        """DDP waits there, too, but in C++, where exceptions lose their type."""
        self.wait()
        if self._answer is not None:
            self._answer.wait_for_callbacks(Work._end_backward)

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
            except BaseException:  # Ctrl-C: what was begun on the result must not be done twice
                self._group.has_failed = True
                self._error = self._group.error(self.operation, RuntimeError("it was interrupted"))
                raise
            finally:
                self._is_over = True
                # Buffers are free from here on.
                self._finish, self._keep, self._of = _nothing, (), ()


class Member:
    """What errors call a group and this member, and whether it has met with any."""

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.has_failed = False
        self.roll_call: RollCall | None = None

    def error(self, operation: str, cause: Exception, *, is_absence: bool = False) -> Exception:
        """What to raise. Blocks for about two seconds at the most, to learn which ranks are gone.

        `is_absence`: ranks have not come where nothing breaks for it; the error names those that are gone.
        """
        self.has_failed = self.has_failed or is_absence or isinstance(cause, LOSSES)
        more = self.roll_call.explain(cause, is_absence=is_absence) if self.roll_call is not None else ""
        error = backend_error(operation, self.name, self.rank, cause, more)
        note_started(error)
        return error


def _nothing() -> None:
    pass
