"""Ring all-reduce from Python over real nodes on loopback, and through a gateway."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import square
from groups import TIMEOUT_SECONDS, on_all, outcomes_of, three_nodes
from square.errors import CancelledError, DeadlineExceededError, InvalidArgumentError

PLACES = [["a", "b", "c"], ["b", "a", "b", "c"], ["c", "c"], ["a"]]


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, square.Node]]:
    yield from three_nodes()


@pytest.mark.parametrize("ranks", PLACES, ids="-".join)
def test_a_ring_adds_in_the_order_of_ranks(nodes: dict[str, square.Node], ranks: list[str]) -> None:
    """Sums that round, so that another order shows."""
    count = 12 * 100_000
    parts = [np.random.default_rng(rank).normal(size=count).astype("float32") for rank in range(len(ranks))]
    wanted = np.empty(count, "float32")
    for first, chunk in enumerate(np.split(np.arange(count), len(ranks))):
        total = parts[first][chunk]
        for step in range(1, len(ranks)):
            total = total + parts[(first + step) % len(ranks)][chunk]
        wanted[chunk] = total

    def add(group: square.Communicator, rank: int) -> list[bytes]:
        output = np.empty_like(wanted)
        in_place = parts[rank].copy()
        work = group.all_reduce_async(parts[rank], output, algorithm="ring", timeout=TIMEOUT_SECONDS)
        group.all_reduce(in_place, algorithm="ring", timeout=TIMEOUT_SECONDS)
        work.wait()
        return [output.tobytes(), in_place.tobytes()]

    for results in outcomes_of(nodes, ranks, add):
        assert results == [wanted.tobytes()] * 2


def test_another_algorithm_is_refused(nodes: dict[str, square.Node]) -> None:
    def add(group: square.Communicator, rank: int) -> None:
        group.all_reduce(np.ones(3, "float32"), algorithm="tree")

    (error,) = on_all(nodes, ["a"], add)
    assert isinstance(error, InvalidArgumentError)
    assert str(error) == 'algorithm must be "planned" or "ring", not "tree"'


def test_members_that_choose_differently_are_told(nodes: dict[str, square.Node]) -> None:
    def add(group: square.Communicator, rank: int) -> None:
        algorithm = "ring" if rank == 1 else "planned"
        group.all_reduce(np.ones(300_000, "float32"), algorithm=algorithm, timeout=TIMEOUT_SECONDS)

    for error in on_all(nodes, ["a", "b", "c"], add):
        assert isinstance(error, InvalidArgumentError)
        assert "called ring all_reduce (call 1 of the group)" in str(error)
        assert "called all_reduce (call 1 of the group)" in str(error)


def test_cancelling_a_ring_ends_it_on_every_member(nodes: dict[str, square.Node]) -> None:
    silent = []  # it calls nothing, and does not close the group either

    def begin(group: square.Communicator, rank: int) -> None:
        if rank == 2:
            silent.append(group)
            return
        work = group.all_reduce_async(np.ones(300_000), algorithm="ring", timeout=TIMEOUT_SECONDS)
        if rank == 1:
            assert not work.wait_for(0.2)
            work.cancel()
        work.wait()

    first, second, third = on_all(nodes, ["a", "b", "c"], begin)
    assert isinstance(first, CancelledError)
    assert isinstance(second, CancelledError)
    assert third is None


def test_a_ring_ends_with_its_communicator(nodes: dict[str, square.Node]) -> None:
    silent = []

    def begin(group: square.Communicator, rank: int) -> None:
        if rank == 1:
            silent.append(group)
            return
        work = group.all_reduce_async(np.ones(300_000), algorithm="ring", timeout=TIMEOUT_SECONDS)
        with pytest.raises(DeadlineExceededError, match="1 operations"):
            group.close(timeout=0.2)
        work.wait()

    first, _ = on_all(nodes, ["a", "b"], begin)
    assert isinstance(first, CancelledError)


def test_a_ring_through_gateways(nodes: dict[str, square.Node]) -> None:
    """Members attached to a node, and one on it."""
    gateways = [nodes[name].serve_gateway() for name in ("a", "b")]
    places = [*(square.attach(gateways[rank % 2]) for rank in range(3)), nodes["b"]]
    names = ["a", "b", "a", "b"]

    def member(rank: int) -> None:
        group = square.Communicator(places[rank], "attached", "alice", names, rank)
        data = np.full(1_000_003, rank + 1, "int64")
        group.all_reduce(data, op="product", algorithm="ring", timeout=TIMEOUT_SECONDS)
        assert (data == 24).all()

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(member, range(len(names))))
