"""Four emulated clusters and what joins them, on a virtual clock: who waits how long is arithmetic."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

FLOAT_BYTES = 4
SPEEDS = (1.0, 1 / 1.16, 1 / 1.33, 1 / 1.5)


@dataclass(frozen=True)
class Clusters:
    """How fast each calculates, and the link that joins it to all others: full duplex, without latency."""

    step_seconds: float = 0.1  # of the fastest
    links_mbps: tuple[float, ...] = (100.0, 100.0, 100.0, 10.0)
    speeds: tuple[float, ...] = SPEEDS

    def __len__(self) -> int:
        return len(self.speeds)

    def step(self, cluster: int) -> float:
        return self.step_seconds / self.speeds[cluster]

    def link_seconds(self, cluster: int, size_bytes: float) -> float:
        return 8 * size_bytes / (1e6 * self.links_mbps[cluster])

    def ring_bytes(self, size_bytes: float) -> float:
        """That a ring's all-reduce sends from each cluster, and as many to it."""
        return 2 * (len(self) - 1) / len(self) * size_bytes

    def ring_seconds(self, size_bytes: float) -> float:
        """The slowest link says how fast a ring is."""
        return max(self.link_seconds(one, self.ring_bytes(size_bytes)) for one in range(len(self)))


@dataclass(frozen=True)
class Round:
    seconds: float  # when it is over
    members: tuple[int, ...]  # whose steps are in it


def synchronous(clusters: Clusters, horizon: int, size_bytes: float, rounds: int) -> list[Round]:
    """All do `horizon` steps, the slowest last, then an all-reduce."""
    each = horizon * max(clusters.step(one) for one in range(len(clusters)))
    each += clusters.ring_seconds(size_bytes)
    everybody = tuple(range(len(clusters)))
    return [Round(number * each, everybody) for number in range(1, rounds + 1)]


def streaming(
    clusters: Clusters, horizon: int, size_bytes: float, fragments: int, delay: int, rounds: int
) -> list[Round]:
    """A fragment's all-reduce begins when all have come to its step. Nobody goes beyond the step `delay`
    later before it has arrived; one follows the other on the links. A round is all fragments once."""
    everybody = tuple(range(len(clusters)))
    exchange = clusters.ring_seconds(size_bytes / fragments)
    clocks, steps, arrived, ended = [0.0] * len(clusters), 0, 0.0, []
    for number in range(rounds):
        for fragment in range(fragments):
            end = number * horizon + (fragment + 1) * horizon // fragments
            begun = [clock + (end - delay - steps) * clusters.step(one) for one, clock in enumerate(clocks)]
            arrived = max(arrived, max(begun)) + exchange
            clocks = [max(clock + delay * clusters.step(one), arrived) for one, clock in enumerate(begun)]
            steps = end
        ended.append(Round(max(clocks), everybody))
    return ended


def paced(clusters: Clusters, horizon: int, size_bytes: float) -> tuple[int, ...]:
    """Inner steps of each, so that all push together: the fastest does `horizon`."""
    fastest = clusters.speeds.index(max(clusters.speeds))
    whole = horizon * clusters.step(fastest) + 2 * clusters.link_seconds(fastest, size_bytes)
    left = [whole - 2 * clusters.link_seconds(one, size_bytes) for one in range(len(clusters))]
    return tuple(max(1, int(seconds / clusters.step(one) + 1e-9)) for one, seconds in enumerate(left))


def asynchronous(
    clusters: Clusters, horizons: Sequence[int], size_bytes: float, grace_seconds: float, steps: int
) -> list[Round]:
    """Each pulls, does its inner steps, pushes to the servers, waits until its round is over, and pulls.
    A round ends `grace_seconds` after its first push has come, or when all have pushed. So many steps of all
    together, in whole rounds."""
    everybody = range(len(clusters))

    def away(one: int) -> float:
        return horizons[one] * clusters.step(one) + 2 * clusters.link_seconds(one, size_bytes)

    arriving = [(away(one), one) for one in everybody]
    heapq.heapify(arriving)
    ended: list[Round] = []
    while True:
        seconds, first = heapq.heappop(arriving)
        members, closes = [first], seconds + grace_seconds
        while arriving and arriving[0][0] <= closes:
            seconds, one = heapq.heappop(arriving)
            members.append(one)
        steps -= sum(horizons[one] for one in members)
        if steps < 0:
            return ended
        if arriving:  # else nobody is left to wait for
            seconds = closes
        for one in members:
            heapq.heappush(arriving, (seconds + away(one), one))
        ended.append(Round(seconds, tuple(members)))


def steps_a_second(rounds: list[Round], horizons: Sequence[int]) -> float:
    """Of all clusters together, without the first quarter: a start is no rule."""
    begun = rounds[len(rounds) // 4]
    steps = sum(horizons[one] for ended in rounds[len(rounds) // 4 + 1 :] for one in ended.members)
    return steps / (rounds[-1].seconds - begun.seconds)


def most_steps_a_second(clusters: Clusters, horizon: int, size_bytes: float = 0) -> float:
    """Where each waits for its own push and pull only, or, without bytes, for nothing."""
    return sum(
        horizon / (horizon * clusters.step(one) + 2 * clusters.link_seconds(one, size_bytes))
        for one in range(len(clusters))
    )
