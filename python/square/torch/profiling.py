"""Operations as ranges of ``torch.profiler``, from the call to the end: ``square:all_reduce``."""

import threading
from collections.abc import Callable, Sequence

import torch
from torch.autograd.profiler import record_function

import square

Begin = Callable[[], Sequence[square.Work]]


def traced(operation: str, begin: Begin) -> Sequence[square.Work]:
    """What `begin` returns; while a profiler runs, a range lasts until all of that is over."""
    if not torch.autograd._profiler_enabled():
        return begin()
    span = record_function(f"square:{operation}")
    span.__enter__()
    # It ends when the future does, on whichever thread: as operations of RPC do.
    end: torch.futures.Future[None] = torch.futures.Future()
    span._call_end_callbacks_on_future(end)
    try:
        parts = begin()
    except BaseException:
        end.set_result(None)
        raise
    if not parts:
        end.set_result(None)
    left = len(parts)
    lock = threading.Lock()

    def over() -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            end.set_result(None)

    try:
        for part in parts:
            part.add_done_callback(over)
    except square.SquareError:  # callbacks are too deep here: the range ends, the operation goes on
        end.set_result(None)
    return parts
