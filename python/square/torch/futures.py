"""Futures of operations, whose failures torch's C++ sees as well as Python does."""

import threading
from collections.abc import Callable
from typing import Any

import torch

# torch._C._current_graph_task_id() outside of backward passes.
_NO_BACKWARD = -1
# How long an operation that is over waits for its future's value, and a backward pass for callbacks that
# neither end nor start an operation. On a busy machine a callback computes for seconds.
ANSWER_SECONDS = 10.0
# `answer`: the one whose callbacks this thread runs.
_CALLBACKS = threading.local()


class Answer:
    """A future and what its callbacks do. Thread-safe.

    torch's set_exception() tells Python alone of a failure, and C++ would take the exception for a result.
    What a then() raises is an error to both; C++ keeps its text, as a RuntimeError.
    """

    def __init__(self, read: Callable[[], Any]) -> None:
        """`read` returns the value, or raises, once give() is called."""
        self._done: Any = torch.futures.Future()
        self.future: Any = self._done.then(lambda _: read())
        self._has_value = threading.Event()
        self._has_told = threading.Event()
        self.future.add_done_callback(lambda _: self._has_value.set())
        self._lock = threading.Lock()
        self._is_given = False
        self._started: list[Any] | None = None

    def give(self) -> None:
        """Completes the future, once, and runs its callbacks here."""
        with self._lock:
            if self._is_given:
                return
            self._is_given = True
        outer = getattr(_CALLBACKS, "answer", None)
        _CALLBACKS.answer = self
        try:
            self._done.set_result(None)
        finally:
            _CALLBACKS.answer = outer
            self._has_told.set()

    def wait(self) -> None:
        """Until the future has its value, where the thread that gives it is at it: ANSWER_SECONDS at most."""
        self._has_value.wait(ANSWER_SECONDS)

    def follow(self) -> None:
        """From now on keeps what callbacks start, for wait_for_callbacks()."""
        self._started = []

    def wait_for_callbacks(self, wait: Callable[[Any], None]) -> None:
        """Until all callbacks have run; calls `wait` with each operation that they start.

        Raises what it raises, and what a callback was told when it started one. Where callbacks are stuck for
        ANSWER_SECONDS in something else it goes on without them.
        """
        seen = 0
        while self._started is not None:
            if seen < len(self._started):
                one = self._started[seen]
                if isinstance(one, Exception):
                    raise one
                wait(one)
                seen += 1
            elif not self._has_told.wait(ANSWER_SECONDS) or seen == len(self._started):
                return


def note_started(one: Any) -> bool:
    """An operation, or the error of one, that this thread starts. Whether a backward pass waits for it."""
    answer = getattr(_CALLBACKS, "answer", None)
    if answer is None or answer._started is None:
        return False
    answer._started.append(one)
    return True


def at_end_of_backward(call: Callable[[], None]) -> bool:
    """Has the backward pass that this thread is in call it before it returns. False where there is none."""
    if torch._C._current_graph_task_id() == _NO_BACKWARD:
        return False
    torch.autograd.Variable._execution_engine.queue_callback(call)
    return True
