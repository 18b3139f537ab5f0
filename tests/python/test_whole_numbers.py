"""Whole numbers that do not fit are refused by their name and range, not by the signature of the function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import square
from square._core import Generation
from square.errors import InvalidArgumentError

TOO_LARGE = 2**70


@pytest.fixture(scope="module")
def group() -> Any:
    with square.Node("a", None) as node:
        yield square.Communicator(node, "g", "t", ["a"], 0, timeout=10)


@pytest.mark.parametrize("number", [-1, 2**40, TOO_LARGE])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("tag", lambda group, n: group.send(bytearray(8), 0, tag=n)),
        ("tag", lambda group, n: group.receive(bytearray(8), 0, tag=n)),
        ("tag", lambda group, n: group.send_async(bytearray(8), 0, tag=n)),
        ("to", lambda group, n: group.send(bytearray(8), n)),
        ("source", lambda group, n: group.receive(bytearray(8), n)),
        ("root", lambda group, n: group.broadcast(bytearray(8), root=n)),
        ("root", lambda group, n: group.reduce(np.zeros(2, np.float32), root=n)),
        ("root", lambda group, n: group.gather(bytearray(8), bytearray(8), root=n)),
        ("root", lambda group, n: group.scatter(bytearray(8), bytearray(8), root=n)),
        ("joiners", lambda group, n: group.grow(n)),
    ],
)
def test_of_a_communicator(group: Any, name: str, call: Callable[[Any, int], Any], number: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=f"^{name} must be a whole number from 0 to 4294967295, not {number}$"
    ):
        call(group, number)


def topology() -> square.Topology:
    return square.Topology.full_mesh(["a", "b"], 1e6)


@pytest.mark.parametrize("number", [-1, TOO_LARGE])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("rank", lambda n: square.Communicator(square.Node("a", None), "g", "t", ["a"], n)),
        (
            "redundancy",
            lambda n: square.Communicator(square.Node("a", None), "g", "t", ["a"], 0, redundancy=n),
        ),
        ("redundancy", lambda n: square.Collective("t", root="a", redundancy=n)),
        ("size_bytes", lambda n: square.Collective("t", root="a", size_bytes=n)),
        ("k", lambda n: topology().k_shortest_paths("a", "b", n)),
        ("seed", lambda n: topology().draw_capacities(1e6, 0.0, n)),
        ("id", lambda n: square.Scenario(topology()).remove_collective(n)),
        ("window_bytes", lambda n: square.Node("a", None, window_bytes=n)),
        ("blocks", lambda n: Generation(n, 8)),
        ("block", lambda n: square.Compression.int8(n)),
    ],
)
def test_of_what_else_there_is(name: str, call: Callable[[int], Any], number: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=f"^{name} must be a whole number from 0 to [0-9]+, not {number}$"
    ):
        call(number)


def test_sizes_and_policies_of_any_length() -> None:
    with square.Node("a", None) as node:
        group = square.Communicator(node, "sizes", "t", ["a"], 0, timeout=10)
        with pytest.raises(InvalidArgumentError, match="a size must be a whole number"):
            group.all_to_all(bytearray(8), bytearray(8), input_bytes=[-8])
        group.all_to_all(bytearray(8), bytearray(8), input_bytes=[np.int64(8)], output_bytes=[8])
    with pytest.raises(InvalidArgumentError, match="shots"):
        square.Policy("square", shots=TOO_LARGE)


def test_other_types_stay_type_errors(group: Any) -> None:
    for wrong in (1.5, "1", None):
        with pytest.raises(TypeError):
            group.send(bytearray(8), 0, tag=wrong)
