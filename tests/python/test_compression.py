"""Compressed all-reduces from Python: kinds and texts, results, reports, residuals, what is refused."""

import math
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import square
from groups import TIMEOUT_SECONDS, on_all, outcomes_of
from square.errors import FailedPreconditionError, InvalidArgumentError
from square.planning import with_policy

Floats = npt.NDArray[np.float32]
Nodes = dict[str, square.Node]

RANKS = ["a", "b", "a"]
COUNT = 10_000


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    names = ["a", "b"]
    topology = square.Topology.full_mesh(names, capacity_bps=2e9)
    with square.Controller(with_policy(square.Scenario(topology, name="two"), policy="exact")) as controller:
        joined = {name: square.Node(name, controller.address) for name in names}
        yield joined
        for node in joined.values():
            node.stop()


def values(rank: int, step: int = 0) -> Floats:
    return np.random.default_rng([17, rank, step]).normal(size=COUNT).astype(np.float32)


def exact(step: int = 0) -> npt.NDArray[np.float64]:
    return sum((values(rank, step).astype(np.float64) for rank in range(len(RANKS))), np.zeros(COUNT))


def relative(got: npt.NDArray[np.generic], wanted: npt.NDArray[np.float64]) -> float:
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(
    ("text", "compression", "ratio", "error"),
    [
        ("bf16", square.Compression.bf16(), 2.0, 0.01),
        ("int8", square.Compression.int8(), 3.93, 0.02),
        ("int8:64", square.Compression.int8(block=64), 3.75, 0.02),
        ("top-k:0.1:no-feedback", square.Compression.top_k(0.1, feedback=False), 5.0, 0.8),
    ],
)
def test_all_ranks_get_the_same_near_the_sum(
    nodes: Nodes, text: str, compression: square.Compression, ratio: float, error: float
) -> None:
    assert square.Compression.parse(text) == compression
    assert square.Compression.parse(str(compression)) == compression
    assert eval(repr(compression), {"Compression": square.Compression}) == compression

    def act(group: square.Communicator, rank: int) -> tuple[bytes, bytes, square.CompressionReport]:
        out = np.empty(COUNT, np.float32)
        group.all_reduce(values(rank), out, compression=text)
        in_place = values(rank)
        work = group.all_reduce_async(in_place, op="average", compression=compression)
        work.wait()
        report = work.compression_report
        assert report is not None
        return out.tobytes(), in_place.tobytes(), report

    results = outcomes_of(nodes, RANKS, act)
    sums, averages, reports = zip(*results, strict=True)  # type: ignore[call-overload]
    assert len(set(sums)) == len(set(averages)) == 1
    assert relative(np.frombuffer(sums[0], np.float32), exact()) < error
    assert relative(np.frombuffer(averages[0], np.float32), exact() / len(RANKS)) < error
    for report in reports:
        assert report.calls == 1
        assert report.bytes_before == 4 * COUNT
        assert report.ratio == pytest.approx(ratio, rel=0.01)
        assert 0 < report.relative_error < error


def test_none_is_no_compression(nodes: Nodes) -> None:
    def act(group: square.Communicator, rank: int) -> bytes:
        results = []
        for compression in (None, "none", square.Compression.parse("none")):
            numbers = np.arange(COUNT, dtype=np.float32) + rank
            work = group.all_reduce_async(numbers, compression=compression)
            work.wait()
            assert work.compression_report is None
            results.append(numbers.tobytes())
        assert len(set(results)) == 1
        return results[0]

    assert np.array_equal(
        np.frombuffer(outcomes_of(nodes, RANKS, act)[0], np.float32),  # type: ignore[arg-type]
        3 * np.arange(COUNT, dtype=np.float32) + 3,
    )


def test_feedback_makes_up_for_what_was_not_sent(nodes: Nodes) -> None:
    steps = 10

    def act(group: square.Communicator, rank: int) -> tuple[npt.NDArray[np.float64], bytes, float]:
        total = np.zeros(COUNT)
        feedback = square.ErrorFeedback()
        reports = square.CompressionReport()
        for step in range(steps):
            numbers = values(rank, step)
            work = group.all_reduce_async(numbers, compression="top-k:0.2", feedback=feedback)
            work.wait()
            assert work.compression_report is not None
            reports = reports + work.compression_report
            total += numbers
            if step == steps // 2:  # what is kept may be stored and loaded
                feedback = square.ErrorFeedback(feedback.tobytes())
        assert reports.calls == steps
        assert len(feedback) == COUNT
        kept = np.frombuffer(feedback.tobytes(), np.float32)
        assert feedback.norm == pytest.approx(float(np.linalg.norm(kept)), rel=1e-4)
        return total, feedback.tobytes(), reports.relative_error

    results = outcomes_of(nodes, RANKS, act)
    wanted = sum((exact(step) for step in range(steps)), np.zeros(COUNT))
    got = results[0][0]  # type: ignore[index]
    kept = sum(np.frombuffer(result[1], np.float32).astype(np.float64) for result in results)  # type: ignore[index]
    assert relative(got + kept, wanted) < 1e-5
    assert relative(got, wanted) < results[0][2]  # type: ignore[index]


def test_a_feedback_is_of_one_tensor(nodes: Nodes) -> None:
    is_seen_in_use = threading.Event()

    def act(group: square.Communicator, rank: int) -> None:
        feedback = square.ErrorFeedback()
        group.all_reduce(values(rank), compression="int8:feedback", feedback=feedback)
        with pytest.raises(InvalidArgumentError, match="of 10000 elements, not of 4"):
            group.all_reduce(np.zeros(4, np.float32), compression="int8:feedback", feedback=feedback)
        feedback.reset()
        assert len(feedback) == 0
        if rank != 0:  # until these call, the first rank's call cannot be over
            assert is_seen_in_use.wait(TIMEOUT_SECONDS)
        first = group.all_reduce_async(values(rank), compression="int8:feedback", feedback=feedback)
        if rank == 0:
            assert feedback.is_in_use
            with pytest.raises(FailedPreconditionError, match="in use"):
                feedback.reset()
            is_seen_in_use.set()
        first.wait()
        assert not feedback.is_in_use

    outcomes_of(nodes, RANKS, act)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int4", "use none, bf16, int8"),
        ("int8:9", "use 16 to 65536"),
        ("int8:big", "int8:BLOCK"),
        ("top-k:2", "above 0, at most 1"),
        ("bf16:feedback", "no error feedback"),
    ],
)
def test_a_bad_text_says_what_there_is(nodes: Nodes, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        square.Compression.parse(text)

    def act(group: square.Communicator, rank: int) -> None:
        group.all_reduce(values(rank), compression=text)

    for outcome in on_all(nodes, ["a"], act):
        assert isinstance(outcome, InvalidArgumentError)
        assert words in str(outcome)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"compression": "top-k"}, "pass feedback=ErrorFeedback()"),
        ({"compression": "int8", "feedback": square.ErrorFeedback()}, "leave feedback out"),
        ({"feedback": square.ErrorFeedback()}, "none keeps nothing"),
        ({"compression": "int8", "op": "max"}, "only sum and average"),
        ({"compression": "int8", "algorithm": "ring"}, '"planned" only'),
        ({"compression": "int8", "dtype": "int32"}, "only float32"),
    ],
)
def test_what_cannot_be_is_refused_and_the_group_goes_on(
    nodes: Nodes, arguments: dict[str, object], words: str
) -> None:
    def act(group: square.Communicator, rank: int) -> float:
        with pytest.raises(InvalidArgumentError) as refused:
            group.all_reduce(values(rank).view(np.uint8), **{"dtype": "float32", **arguments})
        assert words in str(refused.value)
        ones = np.ones(100, np.float32)
        group.all_reduce(ones, compression="bf16")
        return float(ones[0])

    assert outcomes_of(nodes, RANKS, act) == [3.0] * 3


def test_kinds_refuse_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="16 to 65536"):
        square.Compression.int8(block=1)
    with pytest.raises(ValueError, match="at most 1"):
        square.Compression.top_k(math.inf)
    with pytest.raises(ValueError, match="float32 elements"):
        square.ErrorFeedback(b"abc")
