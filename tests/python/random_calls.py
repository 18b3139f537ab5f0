"""Random operations of a group, with what every rank should have afterwards, by NumPy.

Numbers are whole and so small that every way to add or multiply them is exact in every type; a
wrong bit shows.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import square

TIMEOUT_SECONDS = 60.0
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64", "bfloat16"]
TYPES = [*INTEGERS, *FLOATS, "bool"]

Array = npt.NDArray[np.generic]
Buffers = list[list[Array]]  # of every rank


@dataclass
class Call:
    """One operation: `start` begins it at a rank, whose buffers should then be as `wanted`."""

    name: str
    got: Buffers
    wanted: Buffers
    start: Callable[[square.Communicator, int], square.Work | None]

    def trouble(self) -> str:
        for rank, (got, wanted) in enumerate(zip(self.got, self.wanted, strict=True)):
            for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
                if one.tobytes() != other.tobytes():
                    return f"{self.name}: wrong bytes at rank {rank}, buffer {place} of {one.nbytes} bytes"
        return ""


class Draw:
    """Random sizes and numbers from one seed; no more than `budget_bytes` in all."""

    def __init__(self, seed: int, budget_bytes: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.left_bytes = budget_bytes

    def count(self, item_bytes: int, copies: int) -> int:
        """How many elements: none, a few, some, or up to 10 MB of them."""
        most = self.random.choice([0, 10, 1_000, 1_000, 100_000, 100_000, 10_000_000])
        size = min(self.random.randint(0, most), self.left_bytes // copies)
        self.left_bytes -= size * copies
        return size // item_bytes

    def bytes(self, copies: int) -> Array:
        return np.frombuffer(self.numbers.bytes(self.count(1, copies)), "uint8").copy()

    def reduction(self) -> tuple[str, str]:
        dtype = self.random.choice(TYPES)
        bitwise = [] if dtype in FLOATS else ["and", "or", "xor"]
        average = ["average"] if dtype in FLOATS else []
        return dtype, self.random.choice(["sum", "product", "min", "max", *bitwise, *average])

    def values(self, dtype: str, op: str, count: int) -> npt.NDArray[np.generic]:
        if dtype == "bool":
            return self.numbers.integers(0, 2, count).astype(bool)
        if dtype in INTEGERS:
            limits = np.iinfo(dtype)
            return self.numbers.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        least, most = (-2, 2) if op == "product" else (-8, 8)
        return self.numbers.integers(least, most, count, endpoint=True).astype(numpy_type(dtype))


def numpy_type(dtype: str) -> str:
    """What NumPy calculates with: it has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def item_bytes(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def stored(values: Array, dtype: str) -> Array:
    """The values as they lie in memory; bfloat16 rounds to the nearest, ties to even."""
    if dtype != "bfloat16":
        return values.copy()
    bits = values.astype("float32").view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def combined(parts: list[Array], dtype: str, op: str) -> Array:
    """What the sum of `parts` is, as it lies in memory."""
    ways: dict[str, Callable[..., Array]] = {
        "sum": np.add,
        "product": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "average": np.add,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    total = parts[0]
    for part in parts[1:]:
        total = ways[op](total, part)
    if op == "average":
        total = (total / np.array(len(parts), total.dtype)).astype(total.dtype)
    return stored(np.asarray(total), dtype)


def blank(wanted: Buffers) -> Buffers:
    """Where results go: as large as they are, other bytes."""
    rooms = []
    for buffers in wanted:
        rooms.append([np.empty_like(buffer) for buffer in buffers])
        for room in rooms[-1]:
            room.view("uint8").fill(0xA5)
    return rooms


def broadcast(draw: Draw, ranks: int) -> Call:
    root = draw.random.randrange(ranks)
    data = draw.bytes(ranks)
    wanted: Buffers = [[data] for _ in range(ranks)]
    got = blank(wanted)
    got[root] = [data.copy()]
    return Call(
        "broadcast",
        got,
        wanted,
        lambda group, rank: group.broadcast_async(got[rank][0], root, timeout=TIMEOUT_SECONDS),
    )


def all_gather(draw: Draw, ranks: int) -> Call:
    if draw.random.random() < 0.5:  # one buffer for all
        whole = draw.bytes(ranks)
        whole = whole[: whole.size // ranks * ranks]
        parts = np.split(whole, ranks)
        wanted: Buffers = [[whole] for _ in range(ranks)]
    else:
        parts = [draw.bytes(ranks) for _ in range(ranks)]
        wanted = [list(parts) for _ in range(ranks)]
    got = blank(wanted)
    return Call(
        "all_gather",
        got,
        wanted,
        lambda group, rank: group.all_gather_async(
            parts[rank], got[rank] if len(got[rank]) > 1 else got[rank][0], timeout=TIMEOUT_SECONDS
        ),
    )


def all_to_all(draw: Draw, ranks: int) -> Call:
    parts = [[draw.bytes(2) for _ in range(ranks)] for _ in range(ranks)]  # from, to
    has_lists = draw.random.random() < 0.5
    columns = [[parts[source][rank] for source in range(ranks)] for rank in range(ranks)]
    wanted: Buffers = columns if has_lists else [[np.concatenate(column)] for column in columns]
    got = blank(wanted)

    def start(group: square.Communicator, rank: int) -> square.Work:
        if has_lists:
            return group.all_to_all_async(parts[rank], got[rank], timeout=TIMEOUT_SECONDS)
        return group.all_to_all_async(
            np.concatenate(parts[rank]),
            got[rank][0],
            [part.size for part in parts[rank]],
            [part.size for part in columns[rank]],
            timeout=TIMEOUT_SECONDS,
        )

    return Call("all_to_all", got, wanted, start)


def gather(draw: Draw, ranks: int) -> Call:
    root = draw.random.randrange(ranks)
    parts = [draw.bytes(2) for _ in range(ranks)]
    wanted: Buffers = [parts if rank == root else [] for rank in range(ranks)]
    got = blank(wanted)
    return Call(
        "gather",
        got,
        wanted,
        lambda group, rank: group.gather_async(
            parts[rank], got[rank] if rank == root else None, root, timeout=TIMEOUT_SECONDS
        ),
    )


def scatter(draw: Draw, ranks: int) -> Call:
    root = draw.random.randrange(ranks)
    parts = [draw.bytes(2) for _ in range(ranks)]
    wanted: Buffers = [[part] for part in parts]
    got = blank(wanted)
    return Call(
        "scatter",
        got,
        wanted,
        lambda group, rank: group.scatter_async(
            parts if rank == root else None, got[rank][0], root, timeout=TIMEOUT_SECONDS
        ),
    )


def message(draw: Draw, ranks: int) -> Call:
    source, to = draw.random.sample(range(ranks), 2)
    tag = draw.random.randrange(2)
    data = draw.bytes(2)
    wanted: Buffers = [[data] if rank == to else [] for rank in range(ranks)]
    got = blank(wanted)

    def start(group: square.Communicator, rank: int) -> square.Work | None:
        if rank == source:
            return group.send_async(data, to, tag, timeout=TIMEOUT_SECONDS)
        if rank == to:
            return group.receive_async(got[rank][0], source, tag, timeout=TIMEOUT_SECONDS)
        return None

    return Call("message", got, wanted, start)


def barrier(draw: Draw, ranks: int) -> Call:
    nothing: Buffers = [[] for _ in range(ranks)]
    return Call("barrier", nothing, nothing, lambda group, rank: group.barrier_async(timeout=TIMEOUT_SECONDS))


def reduce(draw: Draw, ranks: int) -> Call:
    dtype, op = draw.reduction()
    root = draw.random.randrange(ranks)
    count = draw.count(item_bytes(dtype), 2 * ranks)
    given = [draw.values(dtype, op, count) for _ in range(ranks)]
    inputs = [stored(values, dtype) for values in given]
    to_all = draw.random.random() < 0.6
    in_place = draw.random.random() < 0.5
    algorithm = draw.random.choice(["planned", "ring"])
    result = combined(given, dtype, op)
    # What is only read stays as it is.
    wanted: Buffers = [[result if to_all or rank == root else inputs[rank]] for rank in range(ranks)]
    got = [[buffer.copy()] for buffer in inputs] if in_place else blank(wanted)
    if not in_place and not to_all:
        for rank in set(range(ranks)) - {root}:
            got[rank] = wanted[rank]

    def start(group: square.Communicator, rank: int) -> square.Work:
        output = None if in_place else got[rank][0]
        given_here = got[rank][0] if in_place else inputs[rank]
        if to_all:
            return group.all_reduce_async(
                given_here, output, op, dtype, algorithm=algorithm, timeout=TIMEOUT_SECONDS
            )
        return group.reduce_async(given_here, output, root, op, dtype, timeout=TIMEOUT_SECONDS)

    operation = f"{algorithm} all_reduce" if to_all else "reduce"
    name = f"{operation} {op} of {dtype}{', in place' if in_place else ''}"
    return Call(name, got, wanted, start)


def reduce_scatter(draw: Draw, ranks: int) -> Call:
    dtype, op = draw.reduction()
    is_even = draw.random.random() < 0.5
    counts = [draw.count(item_bytes(dtype), 2 * ranks) for _ in range(ranks)]
    if is_even:
        counts = [min(counts)] * ranks
    given = [[draw.values(dtype, op, count) for count in counts] for _ in range(ranks)]  # from, to
    inputs = [[stored(values, dtype) for values in row] for row in given]
    wanted: Buffers = [[combined([row[rank] for row in given], dtype, op)] for rank in range(ranks)]
    got = blank(wanted)

    def start(group: square.Communicator, rank: int) -> square.Work:
        parts = np.concatenate(inputs[rank]) if is_even else inputs[rank]
        return group.reduce_scatter_async(parts, got[rank][0], op, dtype, timeout=TIMEOUT_SECONDS)

    return Call(f"reduce_scatter {op} of {dtype}", got, wanted, start)


OPERATIONS: list[Callable[[Draw, int], Call]] = [
    broadcast,
    all_gather,
    all_to_all,
    gather,
    scatter,
    message,
    barrier,
    reduce,
    reduce,
    reduce_scatter,
]


def random_call(draw: Draw, ranks: int) -> Call:
    return draw.random.choice(OPERATIONS)(draw, ranks)
