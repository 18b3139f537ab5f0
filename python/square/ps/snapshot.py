"""Snapshots of servers: to evaluate a version, to audit its round, to play a training again."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from square import _core
from square.errors import InvalidArgumentError


@dataclass(frozen=True)
class RoundPush:
    """A push of a round, as it was judged: "taken", "outlier" or "non-finite"."""

    worker: str
    base_version: int
    tokens: int
    chunks: tuple[int, ...]
    decision: str
    norm: float
    score: float
    weight: float

    @staticmethod
    def read(said: Mapping[str, Any]) -> "RoundPush":
        return RoundPush(**{**said, "chunks": tuple(said["chunks"])})


@dataclass(frozen=True)
class Snapshot:
    """A version of one server's shard, and the round that made it.

    ``parameters``: float32, from ``first_element`` of the model on, whose tensors ``model`` names as (name,
    dtype, shape) in the order of their elements. ``norm``: of the round's average before it was clipped by
    ``factor``. ``hash``: of parameters and momentum.
    """

    version: int
    tokens: int
    server: str
    first_element: int
    norm: float
    factor: float
    hash: int
    model: tuple[tuple[str, str, tuple[int, ...]], ...]
    pushes: tuple[RoundPush, ...]
    parameters: "memoryview[float]"


def read_snapshot(path: "str | os.PathLike[str]") -> Snapshot:
    """Reads and checks one file of a server's folder. Raises NotFoundError, DataLossError."""
    said = dict(_core.load_parameter_snapshot(os.fspath(path)))
    pushes: Any = said.pop("pushes")
    model: Any = said.pop("model")
    parameters: Any = said.pop("parameters")
    return Snapshot(
        **said,
        model=tuple((name, dtype, tuple(shape)) for name, dtype, shape in model),
        pushes=tuple(RoundPush.read(push) for push in pushes),
        parameters=memoryview(parameters).cast("f"),
    )


def read_model(paths: "Iterable[str | os.PathLike[str]]") -> dict[str, Any]:
    """The model that the snapshots of all servers make together: NumPy arrays of float32, by name.

    Raises InvalidArgumentError for snapshots of several versions, and where a shard is missing.
    """
    import numpy as np

    shards = sorted((read_snapshot(path) for path in paths), key=lambda shard: shard.first_element)
    if not shards:
        raise InvalidArgumentError("a model is made of the snapshots of all its servers: there are none")
    if len({shard.version for shard in shards}) > 1:
        versions = ", ".join(f"{shard.server} has {shard.version}" for shard in shards)
        raise InvalidArgumentError(f"snapshots of several versions: {versions}")
    elements = np.concatenate([np.asarray(shard.parameters, np.float32) for shard in shards])
    expected = sum(math.prod(shape) for _, _, shape in shards[0].model)
    if len(elements) != expected:
        raise InvalidArgumentError(f"{len(elements)} of {expected} elements: a server's snapshot is missing")
    model = {}
    first = 0
    for name, _, shape in shards[0].model:
        size = math.prod(shape)
        model[name] = elements[first : first + size].reshape(shape)
        first += size
    return model
