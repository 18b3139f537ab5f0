"""Many tensors in one call: those of one type are packed together, one operation for each type."""

from collections.abc import Sequence
from typing import Any

from square.torch import arguments
from square.torch.operations import Operations, Timeout
from square.torch.tensors import Staging
from square.torch.work import Work


def by_type(tensors: Sequence[Any]) -> list[list[int]]:
    """The places of the tensors, those of one element type together, in an order all ranks share."""
    places: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        places.setdefault(tensor.dtype, []).append(place)
    return list(places.values())


def all_reduce(group: Operations, tensors: Sequence[Any], operation: Any, timeout: Timeout) -> Work:
    works = []
    for places in by_type(tensors):
        staging = Staging()
        flat = staging.packed([tensors[place] for place in places], reads=True, writes=True)
        works.append(group.all_reduce(flat, operation, timeout, list(tensors), staging))
    return group.joined("all_reduce", works, list(tensors))


def all_gather(
    group: Operations, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], timeout: Timeout
) -> Work:
    """`outputs` has for every rank tensors like all the inputs."""
    arguments.check_count(outputs, group.size, "lists of output tensors")
    works = []
    for places in by_type(inputs):
        staging = Staging()
        source = staging.packed([inputs[place] for place in places], reads=True, writes=False)
        targets = [
            staging.packed([of_rank[place] for place in places], reads=False, writes=True)
            for of_rank in outputs
        ]
        works.append(group.all_gather(targets, source, timeout, staging))
    return group.joined("all_gather", works, [list(of_rank) for of_rank in outputs])
