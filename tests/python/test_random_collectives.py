"""Random sequences of all operations over real nodes on loopback, against NumPy.

Groups that overlap on 2 to 4 nodes, several operations of each in flight. SQUARE_SEED=N runs one
sequence again, SQUARE_SEEDS=N sets how many (at most 2,000).
"""

import os
import threading

import square
from random_calls import Call, Draw, random_call
from square.errors import SquareError
from square.planning import with_policy

SEQUENCES = min(2_000, int(os.environ.get("SQUARE_SEEDS", "100")))
# What all buffers of a sequence have together, so that 100 of them take well under a minute.
SEQUENCE_BYTES = 40_000_000
FAILURES_TO_SHOW = 3


def random_group(draw: Draw, names: list[str]) -> list[str]:
    """The node of every rank: some of the nodes, in any order; now and then two ranks share one."""
    ranks = draw.random.sample(names, draw.random.randint(2, len(names)))
    if draw.random.random() < 0.3:
        ranks.append(draw.random.choice(ranks))
    return ranks


class Sequence:
    """The groups of one seed and what they call."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed, SEQUENCE_BYTES)
        self.names = [f"n{index}" for index in range(self.draw.random.randint(2, 4))]
        self.groups = [
            random_group(self.draw, self.names) for _ in range(self.draw.random.choice([1, 1, 2, 3]))
        ]
        self.calls: list[list[Call]] = []
        self.waits: list[list[list[bool]]] = []  # by group, call and rank: does it wait there?
        for ranks in self.groups:
            calls = [random_call(self.draw, len(ranks)) for _ in range(self.draw.random.randint(2, 7))]
            self.calls.append(calls)
            self.waits.append([[self.draw.random.random() < 0.3 for _ in ranks] for _ in calls])
        self.errors: list[str] = []

    def topology(self) -> square.Topology:
        topology = square.Topology.full_mesh(self.names, capacity_bps=4e9)
        for from_node in self.names:
            for to_node in self.names:
                if from_node != to_node and self.draw.random.random() < 0.5:
                    topology.set_capacity(from_node, to_node, self.draw.random.uniform(0.2e9, 4e9))
        return topology

    def member(self, node: square.Node, index: int, rank: int) -> None:
        ranks = self.groups[index]
        try:
            group = square.Communicator(node, f"g{index}", f"tenant {index % 2}", ranks, rank, timeout=60.0)
            works = []
            for call, waits in zip(self.calls[index], self.waits[index], strict=True):
                work = call.start(group, rank)
                if work is None:
                    continue
                works.append((call, work))
                if waits[rank]:
                    work.wait()
            for _, work in works:
                work.wait()
        except SquareError as error:
            names = [call.name for call in self.calls[index]]
            self.errors.append(f"group {index} on {ranks}, rank {rank}: {error}; calls: {names}")

    def run(self) -> str:
        """What went wrong, or nothing."""
        scenario = with_policy(square.Scenario(self.topology(), name="random"), policy="exact")
        with square.Controller(scenario) as controller:
            nodes = {name: square.Node(name, controller.address) for name in self.names}
            threads = [
                threading.Thread(target=self.member, args=(nodes[name], index, rank))
                for index, ranks in enumerate(self.groups)
                for rank, name in enumerate(ranks)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for node in nodes.values():
                node.stop()
        troubles = [call.trouble() for calls in self.calls for call in calls]
        return "\n".join([*self.errors, *filter(None, troubles)])


def test_random_sequences(seed: int) -> None:
    count = 1 if "SQUARE_SEED" in os.environ else SEQUENCES
    failures = []
    for number in range(seed, seed + count):
        if trouble := Sequence(number).run():
            failures.append(f"SQUARE_SEED={number}\n{trouble}")
        if len(failures) == FAILURES_TO_SHOW:
            break
    assert not failures, "\n\n".join(failures)
