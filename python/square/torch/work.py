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

# torch._C._current_graph_task_id() outside of backward passes.
_NO_BACKWARD = -1
# One rank may wait for these before another one calls them: no backward pass waits that need not.
_MESSAGES = ("send", "receive")
# The work whose callbacks this thread runs.
_CALLBACKS = threading.local()


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
        self._done: Any = None
        self._future: Any = None
        self._answered = threading.Event()
        # If a backward pass asked for the future: works that its callbacks start, and what those calls raise.
        self._following: list[Work | Exception] | None = None
        if (outer := _callbacks_of()) is not None and outer._following is not None:
            outer._following.append(self)
            self._following = []

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
        """A future of the result; callbacks run on the thread that completes the work, and may wait.

        C++ sees a failure, too: torch's set_exception() tells Python alone, and DDP would take the exception
        for tensors. What reads the future gets a RuntimeError with the text of the DistBackendError. A
        backward pass that asked for the future raises the DistBackendError itself. Raises DistBackendError in
        a callback that is too deep, see square.Work.add_done_callback().
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._done = torch.futures.Future()
            future = self._future = self._done.then(self._answer)
            is_over = self._is_over
        self._raise_in_backward()
        if is_over:
            self._resolve()
        else:
            self._watch()
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

    def _watch(self) -> None:
        try:
            for part in self.parts:
                part.add_done_callback(self._look)
        except square.SquareError as error:
            with self._lock:
                self._future = None
            raise self._group.error(self.operation, error) from error

    def _look(self) -> None:
        self.is_completed()

    def _raise_in_backward(self) -> None:
        """Lets the backward pass that this thread is in, if any, raise a failure at its end.

        DDP waits there as well, in C++, where exceptions lose their type.
        """
        if torch._C._current_graph_task_id() == _NO_BACKWARD or self.operation in _MESSAGES:
            return
        self._following = []
        torch.autograd.Variable._execution_engine.queue_callback(self._wait_with_following)

    def _wait_with_following(self) -> None:
        self.wait()
        if self._future is None:
            return
        # The callbacks have begun what they begin.
        self._answered.wait()
        for next_one in self._following or ():
            if isinstance(next_one, Exception):
                raise next_one
            next_one._wait_with_following()

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
            has_future = self._future is not None
        if has_future:
            self._resolve()

    def _resolve(self) -> None:
        outer = _callbacks_of()
        _CALLBACKS.work = self
        try:
            self._done.set_result(None)
        finally:
            _CALLBACKS.work = outer
            self._answered.set()

    def _answer(self, _: Any) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


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
        more = ""
        is_loss = isinstance(cause, LOSSES)
        self.has_failed = self.has_failed or is_loss
        if (is_loss or is_absence) and self.roll_call is not None:
            more = self.roll_call.explain(cause)
        error = backend_error(operation, self.name, self.rank, cause, more)
        if (outer := _callbacks_of()) is not None and outer._following is not None:
            outer._following.append(error)
        return error


def _callbacks_of() -> Work | None:
    return getattr(_CALLBACKS, "work", None)


def _nothing() -> None:
    pass
