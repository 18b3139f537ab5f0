"""The modes that are compared. All begin with one model and see the same streams of data."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import clusters as clock
import numpy as np
from clusters import FLOAT_BYTES, Clusters, Round
from exchange import Group
from model import Cluster, Floats, HeldOut, Learning
from square.ps import OuterOptimizer
from text import Corpus

INT8 = "int8:feedback"
DATA_PARALLEL = "data-parallel"
PACED = "di-ps-paced"
SERVERS = ("asynchronous", "di-ps", PACED)  # modes that push to servers and pull from them


@dataclass(frozen=True)
class Outer:
    """What a mode's outer optimizer is given."""

    lr: float = 1.0
    momentum: float = 0.7
    delay: int = 1  # rounds, one of which changes the momentum
    clip: float | None = None
    penalty: tuple[float, float, int, int] | None = None  # alpha, beta, warm-up, window
    divide_by_live_workers: bool = False
    basis: str = "base"  # what pushes are: "base", the way that a cluster went, or "current", its parameters

    def optimizer(self, parameters: Floats) -> OuterOptimizer:
        given = asdict(self)
        del given["basis"]
        return OuterOptimizer(parameters, threads=1, **given)


# The paper's alpha and beta. Its warm-up would outlast these runs.
PENALTY = (0.02, 3.0, 8, 1024)
# From trials with seed 0, which is in no result, and H = 50. Clusters that push when they like are held
# together by pushing parameters: steps from bases of long ago, at this lr, overshoot.
OUTER = {
    "diloco": Outer(),
    "diloco-int8": Outer(),
    "streaming": Outer(),
    "asynchronous": Outer(lr=0.2, momentum=0.8, basis="current"),
    "di-ps": Outer(clip=4.0, penalty=PENALTY, divide_by_live_workers=True, basis="current"),
    PACED: Outer(clip=4.0, penalty=PENALTY),
}
MODES = (DATA_PARALLEL, *OUTER)


@dataclass(frozen=True)
class Task:
    """One run, all that it depends on but the text and where it begins."""

    mode: str
    seed: int
    horizon: int  # inner steps between exchanges
    learning: Learning
    clusters: Clusters = field(default_factory=Clusters)
    fragments: int = 4
    delay: int = 2  # of streaming, in steps
    alpha: float = 0.0  # of streaming: how much of its own parameters a cluster keeps
    grace: float = 0.2  # of the time that the fastest cluster needs for its steps
    points: int = 20  # of the curve
    outer: Outer | None = None  # else OUTER's

    def settings(self) -> Outer:
        return self.outer or OUTER[self.mode]

    @property
    def rounds(self) -> int:
        """Of all clusters together."""
        return self.learning.tokens // (len(self.clusters) * self.horizon * self.learning.step_tokens)


@dataclass
class Run:
    """What came of it. A point: tokens, virtual seconds, bytes of a cluster, held-out loss."""

    mode: str
    horizon: int
    seed: int
    tokens: int = 0
    curve: list[tuple[int, float, float, float]] = field(default_factory=list)
    bytes_each: list[float] = field(default_factory=list)  # sent and received by every cluster
    left_out: int = 0  # pushes
    clipped: int = 0  # rounds
    longest: float = 0.0  # average of a round, before it is clipped
    digest: str = ""  # of the model at the end

    @property
    def loss(self) -> float:
        return self.curve[-1][3]


class Course:
    """A run under way."""

    def __init__(self, task: Task, corpus: Corpus, start: dict[str, Any]) -> None:
        self.task = task
        streams: list[list[int]] = [[number] for number in range(len(task.clusters))]
        if task.mode == DATA_PARALLEL:
            streams = [[number for stream in streams for number in stream]]
        self.clusters = [Cluster(task.learning, corpus, task.seed, one) for one in streams]
        for one in self.clusters:
            one.restore(start)
        self.shown = Cluster(task.learning, corpus, task.seed, [0])
        self.parameters = self.clusters[0].parameters()
        self.size_bytes = FLOAT_BYTES * len(self.parameters)
        self.held_out = HeldOut(task.learning, corpus)
        self.run = Run(task.mode, task.horizon, task.seed, bytes_each=[0.0] * len(task.clusters))
        self.note(0.0, self.parameters)

    def consumed(self, tokens: int, bytes_of: dict[int, float]) -> None:
        self.run.tokens += tokens
        for one, sent in bytes_of.items():
            self.run.bytes_each[one] += sent

    def note(self, seconds: float, parameters: Floats) -> None:
        """Another point of the curve, if it is time for one."""
        gap = self.task.learning.tokens / self.task.points
        if not self.run.curve or self.run.tokens - self.run.curve[-1][0] >= gap:
            self.finish(seconds, parameters)

    def finish(self, seconds: float, parameters: Floats) -> None:
        """The last point, whether it is time for one or not."""
        if self.run.curve and self.run.curve[-1][0] == self.run.tokens:
            return
        self.shown.load(parameters)
        loss = self.held_out.loss(self.shown.model)
        each = sum(self.run.bytes_each) / len(self.run.bytes_each)
        self.run.curve.append((self.run.tokens, seconds, each, loss))

    def everybody(self, sent: float) -> dict[int, float]:
        return dict.fromkeys(range(len(self.task.clusters)), sent)


def horizons_of(task: Task, size_bytes: float) -> tuple[int, ...]:
    """Inner steps of each cluster between exchanges."""
    if task.mode == PACED:
        return clock.paced(task.clusters, task.horizon, size_bytes)
    return (task.horizon,) * len(task.clusters)


def rounds_of(task: Task, size_bytes: float, rounds: int) -> list[Round]:
    """By the clock, of as many steps as `rounds` synchronous ones."""
    if task.mode == "streaming":
        return clock.streaming(task.clusters, task.horizon, size_bytes, task.fragments, task.delay, rounds)
    if task.mode not in SERVERS:
        return clock.synchronous(task.clusters, task.horizon, size_bytes, rounds)
    steps = len(task.clusters) * task.horizon * rounds
    horizons = horizons_of(task, size_bytes)
    return clock.asynchronous(task.clusters, horizons, size_bytes, grace_seconds(task), steps)


def grace_seconds(task: Task) -> float:
    """How long a round stays open. Paced clusters come together but for the part of a step."""
    if task.mode == "asynchronous":
        return 0.0
    steps = [task.clusters.step(one) for one in range(len(task.clusters))]
    usual = task.grace * task.horizon * min(steps)
    return max(usual, *steps) if task.mode == PACED else usual


def data_parallel(course: Course) -> None:
    """Gradients of all in float32, in every step."""
    task, whole = course.task, course.clusters[0]
    count = len(task.clusters)
    sent = course.everybody(2 * task.clusters.ring_bytes(course.size_bytes))
    for step in rounds_of(task, course.size_bytes, task.rounds):
        whole.train(1, course.run.tokens, count)
        course.consumed(count * task.learning.step_tokens, sent)
        course.note(step.seconds, whole.parameters())
    course.finish(step.seconds, whole.parameters())


def diloco(course: Course) -> None:
    """All do their steps, then one of the outer optimizer with the average of their changes."""
    task = course.task
    count, tokens = len(task.clusters), task.horizon * task.learning.step_tokens
    server = task.settings().optimizer(course.parameters)
    group = Group(count, INT8) if task.mode == "diloco-int8" else None
    shrunk = course.size_bytes
    theta = course.parameters
    for number in range(task.rounds):
        changes = []
        for one in course.clusters:
            one.train(task.horizon, course.run.tokens, count)
            changes.append(theta - one.parameters())
        if group is None:
            pushes = [(f"cluster {one}", tokens, change) for one, change in enumerate(changes)]
        else:
            before = group.sent_bytes
            pushes = [("all", count * tokens, group.average(changes))]
            shrunk = group.sent_bytes - before
        server.round(pushes)
        theta = np.asarray(server.parameters)
        for one in course.clusters:
            one.load(theta)
        sent = course.everybody(2 * task.clusters.ring_bytes(shrunk))
        course.consumed(count * tokens, sent)
        seconds = rounds_of(task, shrunk, task.rounds)[number].seconds
        course.note(seconds, theta)
    course.finish(seconds, theta)
    if group is not None:
        group.close()


def streaming(course: Course) -> None:
    """Fragment by fragment: each goes out `delay` steps before it is taken in. At the end all go out once
    more, as DiLoCo.sync() has it."""
    task = course.task
    count, per_step = len(task.clusters), len(task.clusters) * task.learning.step_tokens
    parts = np.array_split(np.arange(len(course.parameters)), task.fragments)
    slices = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
    servers = [task.settings().optimizer(course.parameters[part]) for part in slices]
    ended = rounds_of(task, course.size_bytes, task.rounds)

    def shared() -> Floats:
        return np.concatenate([np.asarray(one.parameters) for one in servers])

    def exchange(number: int) -> list[tuple[str, int, Floats]]:
        base = np.asarray(servers[number].parameters)
        changes = [base - one.parameters()[slices[number]] for one in course.clusters]
        size = 2 * task.clusters.ring_bytes(FLOAT_BYTES * len(base))
        course.consumed(0, course.everybody(size))
        return [(f"cluster {one}", 1, change) for one, change in enumerate(changes)]

    def take_in(number: int, pushes: list[tuple[str, int, Floats]], alpha: float) -> None:
        servers[number].round(pushes)
        new = np.asarray(servers[number].parameters)
        for one in course.clusters:
            own = one.parameters()
            own[slices[number]] = alpha * own[slices[number]] + (1 - alpha) * new
            one.load(own)

    def train(steps: int) -> None:
        for one in course.clusters:
            one.train(steps, course.run.tokens, count)
        course.consumed(steps * per_step, {})

    for one in ended:
        for fragment in range(task.fragments):
            steps = (fragment + 1) * task.horizon // task.fragments
            train(steps - fragment * task.horizon // task.fragments - task.delay)
            pushes = exchange(fragment)
            train(task.delay)
            take_in(fragment, pushes, task.alpha)
        if one is not ended[-1]:
            course.note(one.seconds, shared())
    for fragment in range(task.fragments):
        take_in(fragment, exchange(fragment), 0.0)
    course.finish(ended[-1].seconds + task.clusters.ring_seconds(course.size_bytes), shared())


def asynchronous(course: Course) -> None:
    """Who has done its steps pushes, and goes on with what the servers make of it."""
    task, settings = course.task, course.task.settings()
    count, sends_parameters = len(task.clusters), settings.basis == "current"
    server = settings.optimizer(course.parameters)
    horizons = horizons_of(task, course.size_bytes)
    bases, began = [course.parameters] * count, [0] * count
    for one in rounds_of(task, course.size_bytes, task.rounds):
        pushes = []
        for member in one.members:
            cluster = course.clusters[member]
            cluster.train(horizons[member], began[member], count)
            now = cluster.parameters()
            tokens = horizons[member] * task.learning.step_tokens
            pushes.append((f"cluster {member}", tokens, now if sends_parameters else bases[member] - now))
        report = server.round(pushes, settings.basis, count)
        taken = sum(decision == "taken" for decision in report.decisions)
        course.run.left_out += len(pushes) - taken
        share = taken / count if settings.divide_by_live_workers else 1.0
        course.run.clipped += report.factor < share
        course.run.longest = max(course.run.longest, report.norm)
        theta = np.asarray(server.parameters)
        sent = dict.fromkeys(one.members, 2.0 * course.size_bytes)
        course.consumed(sum(tokens for _, tokens, _ in pushes), sent)
        for member in one.members:
            course.clusters[member].load(theta)
            bases[member], began[member] = theta, course.run.tokens
        course.note(one.seconds, theta)
    course.finish(one.seconds, theta)


_COURSES: dict[str, Callable[[Course], None]] = {
    DATA_PARALLEL: data_parallel,
    "diloco": diloco,
    "diloco-int8": diloco,
    "streaming": streaming,
    "asynchronous": asynchronous,
    "di-ps": asynchronous,
    PACED: asynchronous,
}


def run(task: Task, corpus: Corpus, start: dict[str, Any]) -> Run:
    course = Course(task, corpus, start)
    _COURSES[task.mode](course)
    course.run.digest = hashlib.sha256(course.shown.parameters().tobytes()).hexdigest()[:16]
    return course.run


def steps_a_second(task: Task, size_bytes: float, rounds: int) -> float:
    """Of all clusters together over so many rounds, by the clock alone: nothing is learned."""
    return clock.steps_a_second(rounds_of(task, size_bytes, rounds), horizons_of(task, size_bytes))
