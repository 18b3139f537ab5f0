"""Groups that are made and closed leave nothing: no memory, no part of a plan, no slower registrations."""

import json
import subprocess
import sys
import time
from statistics import median

import numpy as np
import pytest
import square
from groups import TIMEOUT_SECONDS, on_all, three_nodes
from square.errors import DeadlineExceededError, FailedPreconditionError
from square.planning import with_policy

NAMES = ["a", "b", "c"]
WARM_GROUPS = 100
MIB = 1 << 20
# What allocators and gRPC take now and then, and give back or use again.
NOISE_BYTES = 12 * MIB

MEMBER = """
import json, sys, time
import numpy as np
import square

rank, address, count, warm = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
names = ["a", "b", "c"]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

took, sizes = [], []
with square.Node(names[rank], address) as node:
    data = np.ones(1000, "float32")
    for number in range(count):
        begun = time.monotonic()
        # Some names come again.
        with square.Communicator(node, f"group {number % 7 or number}", "alice", names, rank,
                                 collectives=[("all_reduce", 0, 4000, 1.0)]) as group:
            took.append(time.monotonic() - begun)
            data[:] = 1
            group.all_reduce(data, timeout=60)
            assert data[0] == 3
        if number + 1 in (warm, count):
            sizes.append(resident())
    print(json.dumps({"took": took, "sizes": sizes, "left": node.statistics()}), flush=True)
    sys.stdin.read()
"""


def closed_plan(controller: square.Controller) -> bytes:
    """The plan, but for what is another in each."""
    plan = json.loads(controller.plan().to_json())
    for field in ("epoch", "solve_seconds"):
        plan.pop(field, None)
    return json.dumps(plan).encode()


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_groups_that_come_and_go_leave_nothing(count: int) -> None:
    topology = square.Topology.full_mesh(NAMES, capacity_bps=1e9)
    overlay = with_policy(square.Scenario(topology, name="closing"), policy="exact")
    with square.Controller(overlay) as controller:
        before = closed_plan(controller)
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", MEMBER, str(rank), controller.address, str(count), str(WARM_GROUPS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for rank in range(len(NAMES))
        ]
        try:
            said = [json.loads(process.stdout.readline()) for process in processes if process.stdout]
            for _ in range(100):
                if closed_plan(controller) == before:
                    break
                time.sleep(0.1)
            assert closed_plan(controller) == before
        finally:
            for process in processes:
                process.communicate()
    for one in said:
        warm, last = one["sizes"]
        assert last - warm < NOISE_BYTES
        # Those of the last few plans.
        assert one["left"]["collectives"] <= 8
        assert one["left"]["sessions"] <= 8 * 6
        assert median(one["took"][-WARM_GROUPS:]) < 3 * median(one["took"][:WARM_GROUPS])


def test_a_closed_communicator_says_so_and_frees_its_name() -> None:
    def act(group: square.Communicator, rank: int) -> str:
        data = np.full(1000, rank)
        with group:
            group.broadcast(data, timeout=TIMEOUT_SECONDS)
        with pytest.raises(FailedPreconditionError, match="closed"):
            group.broadcast(data)
        return str(data[0])

    for nodes in three_nodes():
        assert on_all(nodes, NAMES, act) == ["0", "0", "0"]
        first = square.Communicator(nodes["a"], "g", "alice", NAMES, 0)
        second = square.Communicator(nodes["b"], "g", "alice", NAMES, 1)
        first.close()
        with pytest.raises(DeadlineExceededError, match="free again when these have: b, c"):
            square.Communicator(nodes["a"], "g", "alice", NAMES, 0, timeout=0.1)
        del second
        square.Communicator(nodes["c"], "g", "alice", NAMES, 2).close()
        square.Communicator(nodes["a"], "g", "alice", NAMES, 0).close()


def test_a_block_that_an_exception_leaves_ends_what_runs() -> None:
    def act(group: square.Communicator, rank: int) -> None:
        if rank > 0:
            group.barrier(timeout=TIMEOUT_SECONDS)
            return
        with group:
            group.all_reduce_async(np.ones(10), timeout=TIMEOUT_SECONDS)
            raise KeyError("mine")

    for nodes in three_nodes():
        first, *others = on_all(nodes, NAMES, act)
        assert isinstance(first, KeyError)
        assert all(isinstance(one, Exception) for one in others)
