"""A node that was stopped for longer than its lease, and comes back to groups that ended without it."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import square
from commands import wait_until

# More than a lease.
PATIENCE_SECONDS = 30.0
# Registers the group, and again upon each line.
MEMBER = """
import sys
import numpy as np
import square

node = square.Node("b", sys.argv[1])
sums = [("all_reduce", 0, 0, 1.0)]
groups = [square.Communicator(node, "g", "alice", ["a", "b"], rank=1, collectives=sums)]
groups[0].all_reduce(np.ones(4, dtype="float32"))
print("summed", flush=True)
for _ in sys.stdin:
    try:
        groups.append(square.Communicator(node, "g", "alice", ["a", "b"], rank=1, timeout=20))
        print("registered", flush=True)
    except square.SquareError as error:
        print(error, flush=True)
"""


def connected(address: str) -> set[str]:
    return {node.name for node in square.list_nodes(address) if node.connected}


@pytest.mark.long
def test_a_node_that_comes_back_is_told_that_its_group_has_ended() -> None:
    controller = square.Controller()
    node = square.Node("a", controller.address)
    member = subprocess.Popen(
        [sys.executable, "-c", MEMBER, controller.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert member.stdin is not None
    assert member.stdout is not None

    def register() -> square.Communicator:
        return square.Communicator(
            node, "g", "alice", ["a", "b"], rank=0, collectives=[("all_reduce", 0, 0, 1.0)], timeout=20
        )

    def ask_again() -> str:
        assert member.stdin is not None
        assert member.stdout is not None
        member.stdin.write("\n")
        member.stdin.flush()
        return member.stdout.readline().strip()

    try:
        group = register()
        group.all_reduce(np.ones(4, dtype="float32"))
        assert member.stdout.readline().strip() == "summed"
        member.send_signal(signal.SIGSTOP)
        assert wait_until(lambda: "b" not in connected(controller.address), PATIENCE_SECONDS)
        group.close()
        member.send_signal(signal.SIGCONT)
        assert wait_until(lambda: "b" in connected(controller.address), PATIENCE_SECONDS)
        group = register()
        said = ask_again()
        assert 'group "g" has ended without node "b", which the controller had taken for gone' in said, said
    finally:
        member.kill()
        member.wait()
        node.stop()
        controller.stop()
