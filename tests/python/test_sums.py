"""Reduces and all-reduces over real nodes on loopback, against NumPy."""

import random
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import square
from square.errors import InvalidArgumentError, SquareError
from square.planning import with_policy

MEMBERS = ["a", "b", "c"]
TIMEOUT_SECONDS = 60.0


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[square.Node]]:
    topology = square.Topology.full_mesh(MEMBERS, capacity_bps=800e6)
    overlay = with_policy(square.Scenario(topology, name="three"), policy="exact")
    with square.Controller(overlay) as controller:
        joined = [square.Node(name, controller.address) for name in MEMBERS]
        yield joined
        for node in joined:
            node.stop()


_groups = iter(range(1_000_000))


def on_all(
    nodes: list[square.Node],
    act: Callable[[square.Communicator, int], object],
    ranks: list[str] | None = None,
) -> list[object]:
    """What `act` returns or raises at every rank of a new group."""
    where = ranks or MEMBERS
    group = f"sums/{next(_groups)}"
    results: list[object] = [None] * len(where)

    def member(rank: int) -> None:
        try:
            node = nodes[MEMBERS.index(where[rank])]
            results[rank] = act(square.Communicator(node, group, "alice", where, rank), rank)
        except SquareError as error:
            results[rank] = error

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(len(where))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def whole_numbers(rank: int, count: int, dtype: str) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    values = np.random.default_rng([17, rank, count]).integers(-1000, 1000, count)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 5, 1_000_003])
def test_all_reduce(nodes: list[square.Node], dtype: str, count: int) -> None:
    expected = sum(whole_numbers(rank, count, dtype) for rank in range(3))

    def act(communicator: square.Communicator, rank: int) -> object:
        given = whole_numbers(rank, count, dtype)
        result = np.full_like(given, -7)
        communicator.all_reduce(given, result, timeout=TIMEOUT_SECONDS)
        assert np.array_equal(given, whole_numbers(rank, count, dtype))
        communicator.all_reduce(given, timeout=TIMEOUT_SECONDS)  # in place
        return result, given

    for outcome in on_all(nodes, act):
        assert isinstance(outcome, tuple), outcome
        assert all(np.array_equal(array, expected) for array in outcome)


COMBINE: dict[str, Callable[..., object]] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "average": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
BITWISE = ["and", "or", "xor"]


def few_values(rank: int, dtype: str) -> np.ndarray:  # type: ignore[type-arg]
    """Any integer; or floats so small that every way to add them, or to multiply three, is exact."""
    draw = np.random.default_rng([23, rank])
    if dtype in FLOATS:
        return draw.integers(-8, 8, 3_001).astype(dtype)
    if dtype == "bool":
        return draw.integers(0, 2, 3_001).astype(bool)
    limits = np.iinfo(dtype)
    return draw.integers(limits.min, limits.max, 3_001, dtype=dtype, endpoint=True)


def combined(op: str, values: list[np.ndarray]) -> np.ndarray:  # type: ignore[type-arg]
    total = values[0]
    for value in values[1:]:
        total = np.asarray(COMBINE[op](total, value))
    return (total / np.array(len(values), total.dtype)).astype(total.dtype) if op == "average" else total


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
def test_all_types_and_operations(nodes: list[square.Node], dtype: str) -> None:
    ops = [op for op in COMBINE if op not in (BITWISE if dtype in FLOATS else ["average"])]
    expected = {op: combined(op, [few_values(rank, dtype) for rank in range(3)]) for op in ops}

    def act(communicator: square.Communicator, rank: int) -> object:
        results = {op: few_values(rank, dtype) for op in ops}
        for op, result in results.items():
            communicator.all_reduce(result, op=op, timeout=TIMEOUT_SECONDS)
        return results

    for outcome in on_all(nodes, act):
        assert isinstance(outcome, dict), outcome
        for op in ops:
            assert np.array_equal(outcome[op], expected[op]), op


def test_bfloat16_by_name(nodes: list[square.Node]) -> None:
    """As numbers of 16 bits, and as bytes; an average over ranks that share a node."""
    ranks = ["a", "b", "a", "c"]

    def bits(rank: int) -> "np.ndarray[tuple[int], np.dtype[np.uint16]]":
        upper = few_values(rank, "float32").view("uint32") >> 16
        return np.asarray(upper, "uint16")

    total = combined("average", [few_values(rank, "float32") for rank in range(4)])

    def act(communicator: square.Communicator, rank: int) -> object:
        numbers, raw = bits(rank), bits(rank).view("uint8")
        communicator.all_reduce(numbers, op="average", dtype="bfloat16", timeout=TIMEOUT_SECONDS)
        communicator.reduce(raw, root=3, op="average", dtype="bfloat16", timeout=TIMEOUT_SECONDS)
        return numbers, raw.view("uint16")

    outcomes = on_all(nodes, act, ranks)
    for rank, outcome in enumerate(outcomes):
        assert isinstance(outcome, tuple), outcome
        for result in outcome if rank == 3 else outcome[:1]:
            assert np.array_equal((result.astype("uint32") << 16).view("float32"), total)


@pytest.mark.parametrize("op", ["min", "max"])
def test_a_nan_is_the_least_and_the_greatest(nodes: list[square.Node], op: str) -> None:
    def act(communicator: square.Communicator, rank: int) -> object:
        given = np.full(3, float(rank), "float32")
        given[rank] = np.nan
        communicator.all_reduce(given, op=op, timeout=TIMEOUT_SECONDS)
        return given

    assert all(isinstance(got, np.ndarray) and np.isnan(got).all() for got in on_all(nodes, act))


@pytest.mark.parametrize("root", [0, 2])
def test_reduce_writes_the_root_only(nodes: list[square.Node], root: int) -> None:
    expected = sum(whole_numbers(rank, 300_000, "float32") for rank in range(3))

    def act(communicator: square.Communicator, rank: int) -> object:
        given = whole_numbers(rank, 300_000, "float32")
        given.flags.writeable = rank == root
        communicator.reduce(given, root=root, timeout=TIMEOUT_SECONDS)
        return given

    for rank, outcome in enumerate(on_all(nodes, act)):
        assert isinstance(outcome, np.ndarray), outcome
        assert np.array_equal(outcome, expected if rank == root else whole_numbers(rank, 300_000, "float32"))


def test_all_members_get_the_same_bits_again_and_again(nodes: list[square.Node]) -> None:
    def act(communicator: square.Communicator, rank: int) -> object:
        given = np.random.default_rng([3, rank]).normal(size=400_000).astype("float32")
        results = [np.empty_like(given) for _ in range(4)]
        works = [communicator.all_reduce_async(given, result, timeout=TIMEOUT_SECONDS) for result in results]
        for work in works:
            work.wait()
        return [result.tobytes() for result in results]

    outcomes = on_all(nodes, act)
    assert all(isinstance(outcome, list) for outcome in outcomes), outcomes
    assert len({data for outcome in outcomes for data in outcome}) == 1  # type: ignore[attr-defined]


def test_ranks_that_share_a_node(nodes: list[square.Node]) -> None:
    ranks = ["a", "b", "a", "c", "c"]
    expected = sum(whole_numbers(rank, 70_001, "int64") for rank in range(5))

    def act(communicator: square.Communicator, rank: int) -> object:
        given = whole_numbers(rank, 70_001, "int64")
        communicator.all_reduce(given, timeout=TIMEOUT_SECONDS)
        return given

    for outcome in on_all(nodes, act, ranks):
        assert isinstance(outcome, np.ndarray), outcome
        assert np.array_equal(outcome, expected)


def test_random_sequences(nodes: list[square.Node]) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    calls = []
    draw = random.Random(seed)
    for _ in range(20):
        op = draw.choice(["broadcast", "reduce", "all_reduce"])
        calls.append((op, draw.randrange(3), draw.randrange(200_000)))

    def act(communicator: square.Communicator, rank: int) -> object:
        works, arrays = [], []
        for op, root, count in calls:
            array = whole_numbers(rank, count, "float32")
            arrays.append(array)
            call = getattr(communicator, f"{op}_async")
            where = {} if op == "all_reduce" else {"root": root}
            works.append(call(array, timeout=TIMEOUT_SECONDS, **where))
        for work in works:
            work.wait()
        return arrays

    outcomes = on_all(nodes, act)
    for rank, arrays in enumerate(outcomes):
        assert isinstance(arrays, list), arrays
        for (op, root, count), array in zip(calls, arrays, strict=True):
            total = sum(whole_numbers(r, count, "float32") for r in range(3))
            changed = op == "all_reduce" or (op == "reduce" and rank == root)
            own = whole_numbers(root if op == "broadcast" else rank, count, "float32")
            assert np.array_equal(array, total if changed else own), (op, root, count, rank)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (np.zeros(7, "float32"), "28 bytes of float32"),
        (np.zeros(4, "float64"), "32 bytes of float64"),
    ],
)
def test_members_that_disagree_are_told(nodes: list[square.Node], odd: np.ndarray, words: str) -> None:  # type: ignore[type-arg]
    def act(communicator: square.Communicator, rank: int) -> object:
        given = odd.copy() if rank == 1 else np.zeros(8, "float32")
        communicator.reduce(given, root=0, timeout=10.0)
        return None

    for outcome in on_all(nodes, act):
        assert isinstance(outcome, InvalidArgumentError), outcome
        assert words in str(outcome)
        assert "32 bytes of float32" in str(outcome)


def test_what_cannot_be_added_is_refused(nodes: list[square.Node]) -> None:
    def act(communicator: square.Communicator, rank: int) -> object:
        with pytest.raises(InvalidArgumentError, match="cannot be added: use float16, bfloat16"):
            communicator.all_reduce(np.zeros(4, "complex64"))
        with pytest.raises(InvalidArgumentError, match='type ">f" cannot be added'):
            communicator.all_reduce(np.zeros(4, ">f4"))
        with pytest.raises(InvalidArgumentError, match="another type"):
            communicator.all_reduce(np.zeros(4, "float32"), np.zeros(4, "float64"))
        with pytest.raises(InvalidArgumentError, match='no operation "mean": use sum, product'):
            communicator.all_reduce(np.zeros(4, "float32"), op="mean")
        with pytest.raises(InvalidArgumentError, match=r'average of int32: .* use "sum"'):
            communicator.all_reduce(np.zeros(4, "int32"), op="average")
        with pytest.raises(InvalidArgumentError, match=r"xor of bfloat16: .* integers and bool"):
            communicator.reduce(np.zeros(4, "uint16"), op="xor", dtype="bfloat16")
        with pytest.raises(InvalidArgumentError, match='type "half" cannot be added: use float16'):
            communicator.reduce(np.zeros(4, "uint16"), dtype="half")
        with pytest.raises(InvalidArgumentError, match="bfloat16 has 2 bytes, the buffer's elements have 4"):
            communicator.all_reduce(np.zeros(4, "float32"), dtype="bfloat16")
        with pytest.raises(InvalidArgumentError, match="output has 12 bytes, the input 16"):
            communicator.all_reduce(np.zeros(4, "float32"), np.zeros(3, "float32"))
        return rank

    # The last one fails where it is called, before anything is sent; so nobody else waits.
    assert on_all(nodes, act, ["a"]) == [0]


def test_half_an_element_is_refused(nodes: list[square.Node]) -> None:
    def act(communicator: square.Communicator, rank: int) -> object:
        with pytest.raises(InvalidArgumentError, match="7 bytes are not a number of bfloat16"):
            communicator.all_reduce(np.zeros(7, "uint8"), op="max", dtype="bfloat16")
        return rank

    assert on_all(nodes, act, ["a"]) == [0]
