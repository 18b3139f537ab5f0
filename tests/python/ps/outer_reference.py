"""The outer optimizer in float64, from the formulas: Algorithm 1 and section 4.1 of Di-PS, and delayed
Nesterov of arXiv 2401.09135, Algorithm 3. It is slow and short on purpose."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Pushes = Sequence[tuple[str, int, npt.NDArray[np.float32]]]

NEW_START_AFTER = 10  # outliers in a row


@dataclass
class Options:
    """What square.OuterOptimizer takes, by the same names."""

    lr: float = 0.7
    momentum: float = 0.8
    delay: int = 1
    delay_share: float = 0.0
    clip: float | None = 1.0
    clip_scope: str = "global"
    penalty: tuple[float, float, int, int] | None = (0.02, 3.0, 120, 1024)
    norms: str = "root"
    divide_by_live_workers: bool = False
    shards: list[int] = field(default_factory=list)


@dataclass
class History:
    """What is known of one worker: norms while it warms up, then a moving mean and deviation."""

    first: list[float] = field(default_factory=list)
    moving: tuple[float, float] | None = None
    outliers: int = 0

    def take(self, norm: float, alpha: float, warmup: int) -> None:
        self.outliers = 0
        if self.moving is None:
            self.first.append(norm)
            if len(self.first) == warmup:
                self.moving = (float(np.mean(self.first)), float(np.std(self.first)))
            return
        mu, sigma = self.moving
        mu = alpha * norm + (1 - alpha) * mu
        self.moving = (mu, math.sqrt((1 - alpha) * sigma**2 + alpha * (norm - mu) ** 2))


@dataclass
class Outcome:
    decisions: list[str]
    norms: list[float]
    scores: list[float]
    margin: float  # how near a score came to the limit, relatively: what rounding might decide
    weights: list[float]
    norm: float = 0.0
    factor: float = 1.0
    updated: bool = False


class Reference:
    """Keep `theta`, `momentum` and `gathered` as they are, or set them to another implementation's."""

    def __init__(self, theta: npt.NDArray[np.float32], options: Options) -> None:
        self.options = options
        self.theta: Vector = theta.astype(np.float64)
        self.momentum: Vector = np.zeros_like(self.theta)
        self.gathered: Vector = np.zeros_like(self.theta)
        self.rounds = 0
        self.workers: dict[str, History] = {}
        self.scores: list[float] = []
        ends = np.cumsum(options.shards or [len(theta)])
        self.parts = [slice(end - size, end) for end, size in zip(ends, options.shards or ends, strict=True)]

    def forget(self, worker: str) -> None:
        self.workers.pop(worker, None)

    def round(self, pushes: Pushes, basis: str = "base", live_workers: int = 0) -> Outcome:
        with np.errstate(invalid="ignore", over="ignore"):
            deltas = [
                values.astype(np.float64) if basis == "base" else self.theta - values
                for _, _, values in pushes
            ]
            norms = [self.total_norm(delta) for delta in deltas]
        outcome = self.judge(pushes, norms)
        taken = [i for i, decision in enumerate(outcome.decisions) if decision == "taken"]
        tokens = sum(pushes[i][1] for i in taken)
        outcome.weights = [pushes[i][1] / tokens if i in taken else 0.0 for i in range(len(pushes))]
        if not taken:
            return outcome
        average = sum((outcome.weights[i] * deltas[i] for i in taken), np.zeros_like(self.theta))
        outcome.norm = float(np.linalg.norm(average))
        live = live_workers if self.options.divide_by_live_workers else 0
        share = min(1.0, len(taken) / max(live, 1))
        clipped, outcome.factor = self.clipped(share * average)
        outcome.factor *= share
        self.step(clipped)
        outcome.updated = True
        return outcome

    def total_norm(self, delta: Vector) -> float:
        each = [float(np.linalg.norm(delta[part])) for part in self.parts]
        return sum(each) if self.options.norms == "sum" else float(np.linalg.norm(each))

    def judge(self, pushes: Pushes, norms: list[float]) -> Outcome:
        outcome = Outcome([], norms, [], math.inf, [])
        limit = 0.0
        joined = History()
        if self.options.penalty is not None:
            _, beta, _, window = self.options.penalty
            limit = beta * max([1.0, *self.scores[-window:]])
            warm = [history.moving for history in self.workers.values() if history.moving is not None]
            if warm:
                joined.moving = (float(np.mean([w[0] for w in warm])), float(np.mean([w[1] for w in warm])))
        for (worker, tokens, _), norm in zip(pushes, norms, strict=True):
            decision, score = "taken", 0.0
            if not math.isfinite(norm):
                decision = "non-finite"
            elif tokens == 0:
                decision = "no-tokens"
            elif self.options.penalty is not None:
                history = self.workers.setdefault(worker, History([], joined.moving))
                decision, score = self.examine(worker, history, norm, limit)
                outcome.margin = min(outcome.margin, abs(score / limit - 1))
            outcome.decisions.append(decision)
            outcome.scores.append(score)
        return outcome

    def examine(self, worker: str, history: History, norm: float, limit: float) -> tuple[str, float]:
        assert self.options.penalty is not None
        alpha, _, warmup, _ = self.options.penalty
        if history.moving is None:
            history.take(norm, alpha, warmup)
            return "taken", 0.0
        mu, sigma = history.moving
        score = (norm - mu) / max(sigma, mu / 1000, 1e-300)
        if score <= limit:
            history.take(norm, alpha, warmup)
            self.scores.append(score)
            return "taken", score
        history.outliers += 1
        if history.outliers == NEW_START_AFTER:
            self.workers[worker] = History()
        return "outlier", score

    def clipped(self, average: Vector) -> tuple[Vector, float]:
        """The average, and the least factor of its parts."""
        if self.options.clip is None:
            return average, 1.0
        factors = []
        result = np.empty_like(average)
        for part in self.parts:
            measured = average[part] if self.options.clip_scope == "shard" else average
            norm = float(np.linalg.norm(measured))
            factors.append(1.0 if norm <= self.options.clip else self.options.clip / norm)
            result[part] = factors[-1] * average[part]
        return result, min(factors)

    def step(self, g: Vector) -> None:
        lr, beta, n, c = self.options.lr, self.options.momentum, self.options.delay, self.options.delay_share
        self.gathered = self.gathered + g
        if n == 1:
            self.momentum = beta * self.momentum + g
            self.theta = self.theta - lr * (g + beta * self.momentum)
        elif (self.rounds + 1) % n == 0:
            self.momentum = beta * self.momentum + self.gathered / n
            self.theta = self.theta - lr * ((1 - c * n + c) * beta * self.momentum + g / n)
        else:
            self.theta = self.theta - lr * (c * beta * self.momentum + g / n)
        self.rounds += 1
        if self.rounds % n == 0:
            self.gathered = np.zeros_like(g)
