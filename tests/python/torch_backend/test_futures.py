"""Callbacks of futures start other operations, wait for them, and hear of failures."""

import threading
import time
from typing import Any

import ranks
import torch
from torch import distributed as dist

SIZE = 2
WAIT_SECONDS = 30.0
LEVELS = 64
# Longer than callbacks may be deep.
CHAIN = 200


def summed(size: int) -> float:
    return float(sum(range(size)))


def future_of_sum(rank: int) -> Any:
    return dist.all_reduce(torch.full((8,), float(rank)), async_op=True).get_future()


def wait_for(future: Any, last: Any, found: list[Any]) -> None:
    """On a thread: a callback of a future that is over already runs at once, on the thread that adds it."""
    found.append(future.then(lambda _: last.wait()).wait())


def wait_in_callbacks(rank: int, size: int) -> None:
    # For one that the callback starts.
    nested = future_of_sum(rank).then(lambda _: future_of_sum(rank).wait()[0])
    assert nested.wait()[0].item() == summed(size)
    # Many at once, more than there are threads; in a group of their own, as nobody knows their order.
    other = dist.new_group()
    many = [future_of_sum(rank).then(lambda _: dist.barrier(other, True).wait()) for _ in range(100)]
    assert all(torch.futures.wait_all(many))
    # Some for one that was started elsewhere, whose callbacks are behind theirs.
    last = torch.futures.Future()  # type: ignore[var-annotated]
    found: list[Any] = []
    waiting = [threading.Thread(target=wait_for, args=(future_of_sum(rank), last, found)) for _ in range(5)]
    for thread in waiting:
        thread.start()
    future_of_sum(rank).add_done_callback(lambda future: last.set_result(future.value()[0][0].item()))
    for thread in waiting:
        thread.join()
    assert found == [summed(size)] * 5
    dist.barrier()


def test_a_callback_waits_for_another_operation() -> None:
    ranks.run(wait_in_callbacks, SIZE)


def wait_too_deep(rank: int, size: int) -> list[Any]:
    reached: list[int] = []

    def descend(level: int) -> Any:
        def callback(_: Any) -> Any:
            reached.append(level)
            return descend(level + 1).wait()

        return future_of_sum(rank).then(callback)

    try:
        descend(1).wait()
    except RuntimeError as error:
        return [max(reached), str(error)]
    return []


def test_callbacks_that_wait_too_deep_are_told() -> None:
    """A callback that finds its future over runs at once and is not counted: a rank may come deeper."""
    results = ranks.run(wait_too_deep, SIZE)
    assert all(deepest >= LEVELS for deepest, _ in results), results
    told = f"callbacks of operations wait for one another {LEVELS} levels deep"
    assert any(told in text for _, text in results), results


def chain(rank: int, size: int) -> None:
    """Each callback starts the next operation and returns: nothing is deep."""
    over = threading.Event()
    failures: list[BaseException] = []

    def follow(left: int) -> None:
        def callback(future: Any) -> None:
            try:
                assert future.value()[0][0].item() == summed(size)
                follow(left - 1) if left else over.set()
                time.sleep(0.0005)  # the next one may be over before this one returns
            except BaseException as error:
                failures.append(error)
                over.set()

        future_of_sum(rank).add_done_callback(callback)

    follow(CHAIN)
    assert over.wait(WAIT_SECONDS)
    assert not failures, failures
    dist.barrier()


def test_a_chain_of_callbacks_has_no_depth() -> None:
    ranks.run(chain, SIZE)


def tell_of_failure(rank: int, size: int) -> list[str]:
    """C++ sees an error, rather than an exception as a value: so does every further future."""
    future = dist.all_reduce(torch.ones(8 + rank), async_op=True).get_future()
    texts = []
    for one in (future, future.then(lambda future: future.value()), torch.futures.collect_all([future])):
        try:
            one.wait()
            [inner.wait() for inner in one.value()]
        except RuntimeError as error:
            texts.append(str(error))
    return texts


def test_a_failure_is_an_error_of_the_future() -> None:
    for texts in ranks.run(tell_of_failure, SIZE):
        assert len(texts) == 3
        assert all("DistBackendError: square: all_reduce of group" in text for text in texts), texts
