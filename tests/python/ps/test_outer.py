"""The outer optimizer against a reference in float64: hundreds of random rounds of every kind.

SQUARE_SEED=N runs one sequence again. The optimizer keeps its parameters in float32, and every round rounds
them once: over 500 rounds that adds up to more than 1e-6. So there are two references. One goes on by itself,
and has to make the same decisions and stay within LONG_DRIFT. The other begins every round with the
optimizer's own parameters and momentum, and has to end it within 1e-6. Both are relative to max(1, |theta|),
or to what it was before or to the momentum where that is larger, as it may be without clipping.
"""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import square.ps
from outer_reference import Options, Outcome, Reference
from square.errors import InvalidArgumentError

Floats = npt.NDArray[np.float32]
Push = tuple[str, int, Floats]

ROUNDS = 500
COUNT = 700
ONE_ROUND = 1e-6
LONG_DRIFT = 1e-5
# A score this near the limit may be decided by rounding: then both are right, and the sequence ends.
MARGIN = 1e-4

CONFIGURATIONS = {
    "usual": Options(),
    "quick": Options(penalty=(0.05, 3.0, 20, 50)),
    "by shard": Options(clip_scope="shard", norms="sum", shards=[1, 300, 399], penalty=(0.02, 3.0, 30, 1024)),
    "no clip": Options(lr=0.3, momentum=0.5, clip=None, shards=[350, 350], penalty=(0.02, 2.0, 30, 100)),
    "delay 3": Options(delay=3, penalty=(0.02, 3.0, 30, 100)),
    "delay 3, shared": Options(delay=3, delay_share=0.2, clip_scope="shard", shards=[699, 1]),
    "no penalty": Options(penalty=None, delay=2, delay_share=0.5, clip=0.5),
    "by live workers": Options(divide_by_live_workers=True, penalty=(0.02, 3.0, 10, 30)),
}


def optimizer_of(theta: Floats, options: Options, threads: int = 1) -> square.ps.OuterOptimizer:
    return square.ps.OuterOptimizer(theta, threads=threads, **dataclasses.asdict(options))


class Site:
    """Draws what workers push: about as long each time, with trouble now and then."""

    def __init__(self, random: np.random.Generator, calm_rounds: int) -> None:
        self.random = random
        self.calm_rounds = calm_rounds  # without pushes of unusual lengths, and of the same workers
        self.names = (f"worker-{number}" for number in itertools.count())
        self.workers = {next(self.names): self.length() for _ in range(4)}

    def length(self) -> float:
        return float(self.random.uniform(0.2, 2.0))

    def come_and_go(self) -> str | None:
        """A worker joins or leaves; returns who left."""
        if self.calm_rounds > 0:
            return None
        if self.random.random() < 0.02 and len(self.workers) < 8:
            self.workers[next(self.names)] = self.length()
        if self.random.random() < 0.02 and len(self.workers) > 2:
            gone = str(self.random.choice(list(self.workers)))
            del self.workers[gone]
            return gone
        if self.random.random() < 0.01:  # for good: it has to warm up again
            self.workers[str(self.random.choice(list(self.workers)))] = 8 * self.length()
        return None

    def pushes(self, theta: Floats, basis: str) -> list[Push]:
        self.calm_rounds -= 1
        chosen = [name for name in self.workers if self.random.random() < 0.5]
        return [self.push(name, theta, basis) for name in chosen]

    def push(self, name: str, theta: Floats, basis: str) -> Push:
        way = self.random.normal(size=COUNT)
        length = self.workers[name] * self.random.lognormal(0, 0.1)
        trouble = self.random.random()
        if trouble < 0.04 and self.calm_rounds < 0:
            length *= 10 ** self.random.uniform(math.log10(5), 3)
        delta = (way * length / np.linalg.norm(way)).astype(np.float32)
        if 0.04 <= trouble < 0.06:
            delta[self.random.integers(COUNT)] = self.random.choice([np.nan, np.inf, -np.inf])
        tokens = 0 if 0.06 <= trouble < 0.08 else int(self.random.integers(1, 2**40))
        # Every worker pulls a tenth of the way to 0, so that the parameters do not wander off.
        values = delta if basis == "base" else (0.9 * theta - delta).astype(np.float32)
        return name, tokens, values


def assert_same(report: square.ps.OuterRound, outcome: Outcome) -> None:
    assert report.decisions == outcome.decisions
    assert report.weights == pytest.approx(outcome.weights, rel=1e-12)
    norms = [norm if math.isfinite(norm) else math.nan for norm in outcome.norms]
    assert report.norms == pytest.approx(norms, rel=1e-6, nan_ok=True)
    assert report.norm == pytest.approx(outcome.norm, rel=1e-6)
    assert report.factor == pytest.approx(outcome.factor, rel=1e-6)
    assert report.updated == outcome.updated


def sizes_of(optimizer: square.ps.OuterOptimizer) -> npt.NDArray[np.float32]:
    """What rounding is relative to: max(1, |theta|), and |momentum| where that is larger."""
    momentum = np.abs(np.asarray(optimizer.momentum))
    return np.maximum(np.maximum(1, np.abs(np.asarray(optimizer.parameters))), momentum)


def assert_near(optimizer: square.ps.OuterOptimizer, reference: Reference, tolerance: Floats) -> None:
    assert np.all(np.abs(np.asarray(optimizer.parameters) - reference.theta) < tolerance)
    assert np.all(np.abs(np.asarray(optimizer.momentum) - reference.momentum) < tolerance)


def follow(reference: Reference, optimizer: square.ps.OuterOptimizer) -> None:
    """Has it go on from the optimizer's parameters and momentum. What a delay gathers stays its own."""
    reference.theta = np.asarray(optimizer.parameters).astype(np.float64)
    reference.momentum = np.asarray(optimizer.momentum).astype(np.float64)


@pytest.mark.parametrize("basis", ["base", "current"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_rounds_are_the_reference_s(name: str, basis: str, seed: int) -> None:
    options = CONFIGURATIONS[name]
    random = np.random.default_rng([seed, *name.encode(), len(basis)])
    theta = random.normal(size=COUNT).astype(np.float32)
    optimizer = optimizer_of(theta, options)
    lasting, each = Reference(theta, options), Reference(theta, options)
    # Outliers in a long warm-up widen the deviation for the rest of the sequence.
    long_warmup = options.penalty is not None and options.penalty[2] > 100
    site = Site(random, calm_rounds=300 if long_warmup else 0)
    seen: set[str] = set()
    largest = sizes_of(optimizer)
    for _ in range(ROUNDS):
        gone = site.come_and_go()
        if gone is not None:
            for one in (optimizer, lasting, each):
                one.forget(gone)
        pushes = site.pushes(np.asarray(optimizer.parameters), basis)
        follow(each, optimizer)
        live = len(site.workers)
        wanted, exact = lasting.round(pushes, basis, live), each.round(pushes, basis, live)
        if min(wanted.margin, exact.margin) < MARGIN:
            break
        before = sizes_of(optimizer)
        report = optimizer.round(pushes, basis, live)
        assert_same(report, exact)
        assert report.scores == pytest.approx(exact.scores, rel=1e-3, abs=1e-3)
        assert report.decisions == wanted.decisions
        after = sizes_of(optimizer)
        largest = np.maximum(largest, after)
        assert_near(optimizer, each, ONE_ROUND * np.maximum(before, after))
        assert_near(optimizer, lasting, LONG_DRIFT * largest)
        seen.update(report.decisions)
    else:
        assert {"taken", "non-finite", "no-tokens"} <= seen
        # With a penalty most sequences have one.
        assert options.penalty is not None or "outlier" not in seen
        assert optimizer.rounds == lasting.rounds > ROUNDS / 2


def test_threads_and_buffers_do_not_matter(seed: int) -> None:
    random = np.random.default_rng(seed)
    theta = random.normal(size=200_003).astype(np.float32)
    push = random.normal(size=theta.size).astype(np.float32)
    results = set()
    for threads in (0, 1, 3):
        for given in (push, memoryview(push), push.reshape(-1, 1), memoryview(push.tobytes()).cast("f")):
            optimizer = optimizer_of(theta, Options(), threads)
            optimizer.round([("a", 3, given), ("b", 5, theta)])
            results.add(bytes(optimizer.parameters))
    assert len(results) == 1


def test_parameters_are_copies() -> None:
    theta = np.ones(4, np.float32)
    optimizer = square.ps.OuterOptimizer(theta)
    theta[:] = 7
    before = np.asarray(optimizer.parameters)
    assert before.dtype == np.float32
    assert not before.flags.writeable
    optimizer.round([("a", 1, np.ones(4, np.float32))])
    assert before.tolist() == [1, 1, 1, 1]
    assert len(optimizer) == 4
    assert optimizer.rounds == 1


def test_a_known_round() -> None:
    optimizer = square.ps.OuterOptimizer(
        np.zeros(2, np.float32), lr=0.5, momentum=0.5, penalty={"warmup": 1.0}
    )
    report = optimizer.round([("a", 30, np.float32([3, 0])), ("b", 10, np.float32([0, np.inf]))])
    assert (report.decisions, report.weights) == (["taken", "non-finite"], [1.0, 0.0])
    assert report.norms == pytest.approx([3.0, math.nan], nan_ok=True)
    assert report.scores == [0.0, 0.0]
    assert (report.norm, report.updated) == (3.0, True)
    assert report.factor == pytest.approx(1 / 3)
    assert np.asarray(optimizer.parameters).tolist() == pytest.approx([-0.75, 0])
    assert np.asarray(optimizer.momentum).tolist() == pytest.approx([1, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lr": -1}, "lr of -1"),
        ({"momentum": 1}, "momentum of 1"),
        ({"delay": 2, "delay_share": 0.75}, "delay_share of 0.75: use 0 to 1/2"),
        ({"clip": math.nan}, "clip of nan"),
        ({"clip_scope": "local"}, 'clip_scope of "local": use "global" or "shard"'),
        ({"norms": "max"}, 'norms of "max": use "root" or "sum"'),
        ({"penalty": (0, 3, 120, 1024)}, "alpha of 0"),
        ({"penalty": {"warmup": 2.5}}, "warmup of 2.5"),
        ({"penalty": {"warmup": 0}}, "warmup of 0"),
        ({"penalty": {"gamma": 1}}, 'no "gamma"'),
        ({"shards": [1, 3]}, "a shard of 3 elements where 2 of 3"),
        ({"threads": 1000}, "1000 threads"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        square.ps.OuterOptimizer(np.ones(3, np.float32), **arguments)


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="float32"):
        square.ps.OuterOptimizer(np.ones(3))
    with pytest.raises(InvalidArgumentError, match="a NaN"):
        square.ps.OuterOptimizer(np.float32([1, np.nan]))
    optimizer = square.ps.OuterOptimizer(np.ones(3, np.float32))
    with pytest.raises(InvalidArgumentError, match='2 elements from worker "a" for a model of 3'):
        optimizer.round([("a", 1, np.ones(2, np.float32))])
    with pytest.raises(InvalidArgumentError, match="float32"):
        optimizer.round([("a", 1, np.ones(3))])
    with pytest.raises(InvalidArgumentError, match='basis of "start"'):
        optimizer.round([], basis="start")
    assert np.asarray(optimizer.parameters).tolist() == [1, 1, 1]
