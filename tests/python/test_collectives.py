"""Every operation from Python over real nodes on loopback: buffers, lists, sizes, what is refused."""

import gc
import sys
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import square
from groups import TIMEOUT_SECONDS, on_all, outcomes_of, three_nodes
from square.errors import CancelledError, FailedPreconditionError, InvalidArgumentError

Array = npt.NDArray[np.generic]
Nodes = dict[str, square.Node]

# Spread over nodes, two on one node, all on one node.
PLACES = [["a", "b", "c"], ["b", "a", "b", "c"], ["c", "c"]]
place = pytest.mark.parametrize("ranks", PLACES, ids="-".join)
OPERATIONS = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "receive",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    yield from three_nodes()


def values(rank: int, count: int, part: int = 0, dtype: str = "float32") -> Array:
    """Whole numbers, so small that sums are exact."""
    return np.random.default_rng([31, rank, part, count]).integers(-99, 99, count).astype(dtype)


def uneven(rank: int) -> int:
    """A size for every rank; rank 1 has nothing."""
    return [5, 0, 70_001, 1_000][rank]


def test_every_operation_has_a_twin_that_does_not_wait() -> None:
    names = {name for name in dir(square.Communicator) if not name.startswith("_")} - {
        "close",
        "flight_record",
        "grow",
        "join",
        "name",
        "origin",
        "rank",
        "shrink",
        "size",
    }
    assert names == {*OPERATIONS, *(f"{name}_async" for name in OPERATIONS)}


@place
def test_all_gather(nodes: Nodes, ranks: list[str]) -> None:
    size = len(ranks)

    def act(group: square.Communicator, rank: int) -> object:
        whole = np.zeros((size, 1_001), "float32")
        group.all_gather(values(rank, 1_001), whole, timeout=TIMEOUT_SECONDS)
        in_place = np.zeros((size, 1_001), "float32")
        in_place[rank] = values(rank, 1_001)
        group.all_gather(in_place[rank], in_place, timeout=TIMEOUT_SECONDS)
        several = [np.zeros(uneven(r), "float32") for r in range(size)]
        group.all_gather(values(rank, uneven(rank)), several, timeout=TIMEOUT_SECONDS)
        return whole, in_place, several

    for result in outcomes_of(nodes, ranks, act):
        whole, in_place, several = result  # type: ignore[misc]
        for rank in range(size):
            assert np.array_equal(whole[rank], values(rank, 1_001))
            assert np.array_equal(in_place[rank], values(rank, 1_001))
            assert np.array_equal(several[rank], values(rank, uneven(rank)))


@place
def test_reduce_scatter(nodes: Nodes, ranks: list[str]) -> None:
    size = len(ranks)

    def act(group: square.Communicator, rank: int) -> object:
        whole = np.concatenate([values(rank, 1_000, part) for part in range(size)])
        even = np.zeros(1_000, "float32")
        group.reduce_scatter(whole, even, timeout=TIMEOUT_SECONDS)
        parts = [values(rank, uneven(r), r, "int16") for r in range(size)]
        group.reduce_scatter(parts, parts[rank], op="max", timeout=TIMEOUT_SECONDS)
        # As bytes: the name says what they are.
        raw = whole.view("uint8").copy()
        named = np.zeros(4_000, "uint8")
        group.reduce_scatter(raw, named, dtype="float32", timeout=TIMEOUT_SECONDS)
        return even, parts[rank], named.view("float32")

    for rank, result in enumerate(outcomes_of(nodes, ranks, act)):
        even, greatest, named = result  # type: ignore[misc]
        total = np.sum([values(r, 1_000, rank) for r in range(size)], axis=0)
        assert np.array_equal(even, total)
        assert np.array_equal(named, total)
        wanted = np.max([values(r, uneven(rank), rank, "int16") for r in range(size)], axis=0)
        assert np.array_equal(greatest, wanted)


@place
def test_all_to_all(nodes: Nodes, ranks: list[str]) -> None:
    size = len(ranks)

    def between(source: int, to: int) -> Array:
        return values(source, (3 * source + to) % 4 * 777, to, "int32")

    def act(group: square.Communicator, rank: int) -> object:
        even = np.zeros((size, 500), "int32")
        given = np.stack([values(rank, 500, to, "int32") for to in range(size)])
        group.all_to_all(given, even, timeout=TIMEOUT_SECONDS)
        sent = [between(rank, to) for to in range(size)]
        lists = [np.zeros_like(between(source, rank)) for source in range(size)]
        group.all_to_all(sent, lists, timeout=TIMEOUT_SECONDS)
        # One buffer for all, cut where the sizes say; and a list at the other end.
        sizes = [4 * len(between(source, rank)) for source in range(size)]
        cut = np.zeros(sum(sizes), "uint8")
        group.all_to_all(sent, cut, output_bytes=sizes, timeout=TIMEOUT_SECONDS)
        back = [np.zeros_like(part) for part in sent]
        group.all_to_all(cut, back, input_bytes=sizes, timeout=TIMEOUT_SECONDS)
        return even, lists, cut.view("int32"), all(map(np.array_equal, back, sent))

    for rank, result in enumerate(outcomes_of(nodes, ranks, act)):
        even, lists, cut, came_back = result  # type: ignore[misc]
        for source in range(size):
            assert np.array_equal(even[source], values(source, 500, rank, "int32"))
            assert np.array_equal(lists[source], between(source, rank))
        assert np.array_equal(cut, np.concatenate(lists))
        assert came_back


@place
def test_gather_and_scatter(nodes: Nodes, ranks: list[str]) -> None:
    size = len(ranks)
    root = size - 1

    def act(group: square.Communicator, rank: int) -> object:
        own = values(rank, uneven(rank))
        several = [np.zeros(uneven(r), "float32") for r in range(size)] if rank == root else None
        group.gather(own, several, root=root, timeout=TIMEOUT_SECONDS)
        whole = np.zeros((size, 300), "float32") if rank == 0 else None
        group.gather(values(rank, 300), whole, timeout=TIMEOUT_SECONDS)  # to rank 0
        returned = np.zeros_like(own)
        group.scatter(several, returned, root=root, timeout=TIMEOUT_SECONDS)
        even = np.zeros(300, "float32")
        group.scatter(whole, even, timeout=TIMEOUT_SECONDS)
        return several, returned, even

    results = outcomes_of(nodes, ranks, act)
    several = results[root][0]  # type: ignore[index]
    for rank, result in enumerate(results):
        _, returned, even = result  # type: ignore[misc]
        assert np.array_equal(several[rank], values(rank, uneven(rank)))
        assert np.array_equal(returned, values(rank, uneven(rank)))
        assert np.array_equal(even, values(rank, 300))


@place
def test_messages_by_tag(nodes: Nodes, ranks: list[str]) -> None:
    """Around the ring; the tags are received in the opposite order."""
    size = len(ranks)

    def act(group: square.Communicator, rank: int) -> object:
        to, source = (rank + 1) % size, (rank - 1) % size
        works = [
            group.send_async(values(rank, 10 * tag, tag), to, tag=tag, timeout=TIMEOUT_SECONDS)
            for tag in range(3)
        ]
        got = {tag: np.zeros(10 * tag, "float32") for tag in (2, 1, 0)}
        for tag, message in got.items():
            group.receive(message, source, tag=tag, timeout=TIMEOUT_SECONDS)
        for work in works:
            work.wait()
        return all(np.array_equal(got[tag], values(source, 10 * tag, tag)) for tag in got)

    assert outcomes_of(nodes, ranks, act) == [True] * size


def test_messages_from_anybody(nodes: Nodes) -> None:
    ranks = ["a", "b", "a", "c"]

    def act(group: square.Communicator, rank: int) -> object:
        if rank != 0:
            group.send(values(rank, 100), 0, timeout=TIMEOUT_SECONDS)
            return None
        sources = []
        for _ in range(3):
            message = np.zeros(100, "float32")
            work = group.receive_async(message, timeout=TIMEOUT_SECONDS)
            work.wait()
            assert work.source is not None
            assert np.array_equal(message, values(work.source, 100))
            sources.append(work.source)
        return sorted(sources)

    assert outcomes_of(nodes, ranks, act)[0] == [1, 2, 3]


@place
def test_nobody_leaves_a_barrier_before_all_have_come(nodes: Nodes, ranks: list[str]) -> None:
    come: list[int] = []

    def act(group: square.Communicator, rank: int) -> object:
        seen = []
        for step in range(3):
            come.append(rank)
            group.barrier(timeout=TIMEOUT_SECONDS)
            seen.append(len(come) >= (step + 1) * len(ranks))
        return seen

    assert outcomes_of(nodes, ranks, act) == [[True] * 3] * len(ranks)


@pytest.mark.parametrize("kind", [bytearray, memoryview, np.frombuffer])
def test_any_contiguous_buffer_will_do(nodes: Nodes, kind: type) -> None:
    def act(group: square.Communicator, rank: int) -> object:
        memory = bytearray(b"abc" if rank == 0 else b"xyz")
        given = np.frombuffer(memory, "uint8") if kind is np.frombuffer else kind(memory)
        group.broadcast(given, timeout=TIMEOUT_SECONDS)
        return bytes(given)

    assert outcomes_of(nodes, ["a", "b"], act) == [b"abc", b"abc"]


def refusals(group: square.Communicator) -> Iterator[tuple[str, str, tuple[object, ...], dict[str, object]]]:
    """Calls of a member of two that must be refused: words, operation, arguments."""
    own, two = np.zeros(2, "float32"), np.zeros((2, 2), "float32")
    frozen = np.zeros((2, 2), "float32")
    frozen.flags.writeable = False
    for operation, arguments in {
        "all_reduce": (own, frozen[0]),
        "all_gather": (own, frozen),
        "reduce_scatter": (two, frozen[0]),
        "all_to_all": (two, frozen),
        "gather": (own, frozen),
        "scatter": (two, frozen[0]),
        "receive": (frozen[0], 1),
    }.items():
        yield "the buffer of a result must be writable", operation, arguments, {}
    yield "must be writable", "all_gather", (own, [own, frozen[0]]), {}
    yield "must be writable", "all_reduce", (frozen,), {}
    yield "must be writable", "all_to_all", (b"abcd", b"abcd"), {}
    strided = np.zeros((4, 4), "float32")[:, ::2]
    for operation, arguments in {
        "broadcast": (strided,),
        "all_gather": (own, strided),
        "reduce_scatter": (strided, own),
        "all_to_all": (two, strided),
        "scatter": (strided, own),
        "send": (strided, 1),
        "gather": (np.asfortranarray(np.zeros((3, 2))), two),
    }.items():
        yield "the buffer must be contiguous, in C order", operation, arguments, {}
    odd = np.zeros(3, "uint8")
    yield "3 bytes cannot be cut evenly for 2 ranks: give sizes", "all_gather", (own, odd), {}
    yield "3 bytes cannot be cut evenly for 2 ranks", "scatter", (odd, own), {}
    yield "3 bytes cannot be cut evenly for 2 ranks", "all_to_all", (odd, odd), {}
    yield "sizes are more than the bytes", "all_to_all", (two, two), {"input_bytes": [8, 9]}
    yield "sizes are less than the bytes", "all_to_all", (two, two), {"output_bytes": [8, 4]}
    yield "sizes are for one buffer", "all_to_all", ([own, own], two), {"input_bytes": [8, 8]}
    yield "3 inputs for the 2 members", "all_to_all", (two, two), {"input_bytes": [8, 4, 4]}
    yield "3 outputs for the 2 members", "all_gather", (own, [own, own, own]), {}
    yield "1 inputs for the 2 members", "reduce_scatter", ([own], own), {}
    yield "the root needs an output", "gather", (own,), {}
    yield "the root needs an input", "scatter", (None, own), {}
    yield "root 2 is not a rank", "broadcast", (own,), {"root": 2}
    yield "gives itself 8 bytes, into a buffer of 4", "all_gather", (own, [own[:1], own]), {}
    yield "another type", "reduce_scatter", (np.zeros(4, "float64"), own), {}
    yield "another type", "reduce_scatter", ([own, np.zeros(2, "int32")], own), {}
    yield "bfloat16 has 2 bytes", "reduce_scatter", (two, own), {"dtype": "bfloat16"}
    yield "its own message", "send", (own, 0), {}
    yield "tag 2147483648 is above 2147483647", "send", (own, 1), {"tag": 2**31}
    yield "source 7 is not a rank", "receive", (own, 7), {}


def test_what_cannot_be_is_refused_and_the_group_goes_on(nodes: Nodes) -> None:
    def act(group: square.Communicator, rank: int) -> object:
        if rank == 0:
            for words, operation, arguments, options in refusals(group):
                for name in (operation, f"{operation}_async"):
                    with pytest.raises(InvalidArgumentError) as raised:
                        getattr(group, name)(*arguments, **options, timeout=5.0)
                    assert words in str(raised.value), (operation, str(raised.value))
        group.barrier(timeout=TIMEOUT_SECONDS)
        return True

    assert outcomes_of(nodes, ["a", "b"], act) == [True, True]


def test_what_is_no_buffer_or_no_number_is_refused(nodes: Nodes) -> None:
    def act(group: square.Communicator, rank: int) -> object:
        for call in (
            lambda: group.broadcast(7),  # type: ignore[arg-type]
            lambda: group.all_gather(b"", [bytearray(), None]),  # type: ignore[list-item]
        ):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(ValueError, match="a size must be a whole number from 0 to"):
            group.all_to_all(b"", bytearray(), input_bytes=[-1])
        with pytest.raises(ValueError, match="root must be a whole number from 0 to"):
            group.broadcast(bytearray(), root=-1)
        return True

    assert outcomes_of(nodes, ["a"], act) == [True]


def test_sizes_that_differ_are_told_at_both_ends(nodes: Nodes) -> None:
    def act(group: square.Communicator, rank: int) -> object:
        sizes = [8, 12] if rank == 1 else [8, 8]
        outputs = [np.zeros(size, "uint8") for size in sizes]
        own = np.zeros(8, "uint8")
        group.all_to_all([own] * 2, [own, outputs[1]] if rank == 0 else [outputs[1], own], timeout=10.0)

    for outcome in on_all(nodes, ["a", "b"], act):
        assert isinstance(outcome, InvalidArgumentError), outcome
        assert 'rank 1 on node "b" posted a buffer of 12 bytes where 8 arrive from node "a"' in str(outcome)


def test_a_failed_group_says_why(nodes: Nodes) -> None:
    def act(group: square.Communicator, rank: int) -> object:
        with pytest.raises(InvalidArgumentError, match="12 bytes of float32"):
            group.all_reduce(np.zeros(2 + rank, "float32"), timeout=10.0)
        with pytest.raises(FailedPreconditionError, match=r"(?s)12 bytes of float32.*make a new group"):
            group.barrier(timeout=10.0)
        return True

    assert outcomes_of(nodes, ["a", "b"], act) == [True, True]


def test_works_keep_their_buffers(nodes: Nodes) -> None:
    """Nobody else holds the inputs and outputs while the operation runs."""

    def act(group: square.Communicator, rank: int) -> object:
        size = 200_000
        works = [
            group.all_to_all_async(
                [values(rank, size, to) for to in range(3)], np.zeros((3, size), "float32")
            )
            for _ in range(3)
        ]
        gc.collect()
        rubbish = [np.full(size, 7.0, "float32") for _ in range(10)]
        for work in works:
            assert work.wait_for(TIMEOUT_SECONDS)
            work.wait()
        return len(rubbish)

    assert outcomes_of(nodes, ["a", "b", "c"], act) == [10, 10, 10]


def test_a_work_that_is_dropped_is_cancelled(nodes: Nodes) -> None:
    dropped = threading.Event()

    def act(group: square.Communicator, rank: int) -> object:
        if rank == 0:
            work = group.reduce_async(np.zeros(10), root=1)
            assert not work.is_done
            del work  # waits until nothing refers to the buffer
            dropped.set()
            return True
        assert dropped.wait(TIMEOUT_SECONDS)
        with pytest.raises(CancelledError, match='node "a" cancelled the operation'):
            group.reduce(np.zeros(10), root=1, timeout=TIMEOUT_SECONDS)
        return True

    assert outcomes_of(nodes, ["a", "b", "c"], act) == [True, True, True]


def test_callbacks_run_once_on_another_thread(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: complaints.append(report.exc_value))

    def act(group: square.Communicator, rank: int) -> object:
        seen: list[int] = []
        order: list[str] = []
        over = threading.Event()
        work = group.all_gather_async(np.zeros(9), np.zeros((2, 9)), timeout=TIMEOUT_SECONDS)

        def note() -> None:
            assert work.is_done
            seen.append(threading.get_ident())

        def fail() -> None:
            order.append("fail")
            raise ValueError(f"of rank {rank}")

        work.add_done_callback(note)
        work.add_done_callback(fail)
        work.add_done_callback(lambda: order.append("after"))
        work.wait()
        work.add_done_callback(note)  # over already: soon
        work.add_done_callback(over.set)
        assert over.wait(TIMEOUT_SECONDS)
        assert len(seen) == 2
        assert len(set(seen)) == 1
        assert seen[0] != threading.get_ident()
        assert order == ["fail", "after"]
        group.barrier(timeout=TIMEOUT_SECONDS)
        assert len(seen) == 2
        return seen[0]

    first, second = outcomes_of(nodes, ["a", "b"], act)
    assert first == second  # one thread for all
    assert sorted(map(str, complaints)) == ["of rank 0", "of rank 1"]
    assert all(isinstance(complaint, ValueError) for complaint in complaints)


def test_a_callback_hears_of_a_failure_too(nodes: Nodes) -> None:
    def act(group: square.Communicator, rank: int) -> object:
        over = threading.Event()
        work = group.all_reduce_async(np.zeros(2 + rank, "float32"), timeout=10.0)
        work.add_done_callback(over.set)
        assert over.wait(TIMEOUT_SECONDS)
        with pytest.raises(InvalidArgumentError):
            work.wait()
        return True

    assert outcomes_of(nodes, ["a", "b"], act) == [True, True]
