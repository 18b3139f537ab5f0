"""Many tensors in one call."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from square.torch import cuda
from square.torch.calls import Calls
from square.torch.tensors import Staging
from square.torch.work import Work

if TYPE_CHECKING:
    from square.torch.process_group import ProcessGroup

Coalesced = list[Work]


class JoinedWork(Work):
    """Over when all of these are, with the first failure. Each is completed as soon as it is over."""

    def __init__(
        self,
        operation: str,
        calls: Calls,
        works: Sequence[Work],
        result: Any,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        parts = [part for work in works for part in work.parts]
        super().__init__(operation, calls.who, parts, result, self._finish_all)
        self._works = works
        self._finish_whole = finish

    def _wait_for_parts(self, seconds: float) -> None:
        if seconds > 0:
            super()._wait_for_parts(seconds)
        with contextlib.suppress(RuntimeError):  # _complete() reads it again
            self._complete_all()

    def _complete_all(self) -> None:
        for work in self._works:
            work.wait()

    def _finish_all(self) -> None:
        self._complete_all()
        self._finish_whole()


def joined(operation: str, calls: Calls, works: Sequence[Work], result: Any) -> Work:
    """One work for all of these."""
    return JoinedWork(operation, calls, works, result)


def in_chunks(
    group: "ProcessGroup",
    operation: str,
    tensors: Sequence[Any],
    start: Callable[[list[Any]], Work],
    result: Any,
    written: int = 1,
) -> Work:
    """Runs the operation on chunk after chunk of these equally large tensors, the first ones `written`."""
    chunks = cuda.cut(tensors)
    works = [start(chunk) for chunk in chunks]

    def finish() -> None:
        for place, tensor in enumerate(tensors[:written]):
            cuda.uncut(tensor, [chunk[place] for chunk in chunks])

    return JoinedWork(operation, group._calls, works, result, finish)


def by_type(tensors: Sequence[Any]) -> list[list[int]]:
    """The places of the tensors, those of one element type together, in an order all ranks share."""
    places: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        places.setdefault(tensor.dtype, []).append(place)
    return list(places.values())


def all_reduce(group: "ProcessGroup", tensors: Sequence[Any], operation: Any, timeout: Any) -> Work:
    """Packs the tensors of one type together: one operation for each type."""
    works = []
    for places in by_type(tensors):
        staging = Staging()
        flat = staging.packed([tensors[place] for place in places], reads=True, writes=True)
        works.append(group._all_reduce(flat, operation, timeout, list(tensors), staging))
    return joined("all_reduce", group._calls, works, list(tensors))


def all_gather(
    group: "ProcessGroup", outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], timeout: Any
) -> Work:
    """`outputs` has for every rank tensors like all the inputs."""
    works = []
    for places in by_type(inputs):
        staging = Staging()
        source = staging.packed([inputs[place] for place in places], reads=True, writes=False)
        targets = [
            staging.packed([of_rank[place] for place in places], reads=False, writes=True)
            for of_rank in outputs
        ]
        works.append(group._all_gather(targets, source, timeout, staging))
    return joined("all_gather", group._calls, works, [list(of_rank) for of_rank in outputs])
