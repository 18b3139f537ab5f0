"""What is called often gets the tenant's share; what is not keeps next to nothing guaranteed."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import square
from groups import TIMEOUT_SECONDS
from square.planning import with_policy

NAMES = ["a", "b", "c"]
# The weights of a tenant's collectives sum to one, and the other one has 1.
LEAST_WEIGHT = (1 / 256) / (1 + 1 / 256)
PATIENCE_SECONDS = 20.0


@pytest.fixture
def controller() -> Iterator[square.Controller]:
    overlay = with_policy(square.Scenario(square.Topology.full_mesh(NAMES, capacity_bps=1e9)), policy="exact")
    with square.Controller(overlay) as controller:
        yield controller


def planned(controller: square.Controller, operation: str) -> list[Any]:
    return [one for one in controller.plan().collectives if one.op == operation]


def test_groups_share_by_use(controller: square.Controller) -> None:
    nodes = [square.Node(name, controller.address) for name in NAMES]
    data = [np.ones(1_000_000, "float32") for _ in NAMES]
    with ThreadPoolExecutor(len(NAMES)) as pool:

        def group(name: str) -> list[square.Communicator]:
            def join(node: square.Node) -> square.Communicator:
                return square.Communicator(node, name, "alice", NAMES, NAMES.index(node.name))

            return list(pool.map(join, nodes))

        often = group("often")
        rarely = group("rarely")

        def step(rank: int, rare: bool) -> None:
            if rare:
                rarely[rank].broadcast(data[rank], 0, timeout=TIMEOUT_SECONDS)
            often[rank].all_reduce(data[rank], op="max", timeout=TIMEOUT_SECONDS)

        def weight_after(rare: bool, is_enough: Callable[[float], bool]) -> float:
            """Of the broadcast, as soon as it is enough, or after some time."""
            end = time.monotonic() + PATIENCE_SECONDS
            while True:
                for _ in range(3):
                    list(pool.map(step, range(len(NAMES)), [rare] * len(NAMES)))
                weight = planned(controller, "broadcast")[0].weight
                if is_enough(weight) or time.monotonic() > end:
                    return weight
                time.sleep(0.1)

        list(pool.map(step, range(len(NAMES)), [True] * len(NAMES)))
        shared = planned(controller, "all_reduce")[0].rate_bps
        assert weight_after(False, lambda weight: weight <= 1.001 * LEAST_WEIGHT) == pytest.approx(
            LEAST_WEIGHT
        )
        assert planned(controller, "all_reduce")[0].weight == pytest.approx(1 - LEAST_WEIGHT)
        assert planned(controller, "all_reduce")[0].rate_bps > 1.3 * shared
        # It works as before, and who calls it again gets more.
        assert weight_after(True, lambda weight: weight > 1.001 * LEAST_WEIGHT) > 1.001 * LEAST_WEIGHT
        for one in (*often, *rarely):
            one.close()
    for node in nodes:
        node.stop()


def test_the_collectives_of_a_group_have_all_of_it_each(controller: square.Controller) -> None:
    nodes = [square.Node(name, controller.address) for name in NAMES]
    data = [np.ones(99_999, "float32") for _ in NAMES]
    with ThreadPoolExecutor(len(NAMES)) as pool:

        def job(rank: int) -> square.Communicator:
            group = square.Communicator(nodes[rank], "job", "alice", NAMES, rank)
            group.all_reduce(data[rank], op="max", timeout=TIMEOUT_SECONDS)
            group.broadcast(data[rank], 0, timeout=TIMEOUT_SECONDS)
            return group

        def gather(rank: int) -> None:
            everybodys = np.empty(len(NAMES) * data[rank].size, "float32")
            groups[rank].all_gather(data[rank], everybodys, timeout=TIMEOUT_SECONDS)

        groups = list(pool.map(job, range(len(NAMES))))
        # Every member has 1 Gbit/s from each of two others and to each of them.
        assert final_rate(controller, "broadcast") == pytest.approx(2e9, rel=1e-6)
        assert final_rate(controller, "all_reduce") == pytest.approx(1.5e9, rel=1e-6)
        # Broadcasts from everybody run at once, and in their turn.
        list(pool.map(gather, range(len(NAMES))))
        assert final_rate(controller, "all_reduce") == pytest.approx(1.5e9, rel=1e-6)
        assert sum(one.rate_bps for one in planned(controller, "broadcast")) == pytest.approx(3e9, rel=0.01)
        for group in groups:
            group.close()
    for node in nodes:
        node.stop()


def final_rate(controller: square.Controller, operation: str) -> float:
    """The rate of the only collective of this kind, once its plan is not a provisional one."""
    end = time.monotonic() + PATIENCE_SECONDS
    while controller.plan().provisional and time.monotonic() < end:
        time.sleep(0.02)
    return float(planned(controller, operation)[0].rate_bps)
