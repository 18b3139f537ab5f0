"""A forked child of a process that uses Square: its calls fail at once, and it ends as any process does."""

import subprocess
import sys
import textwrap

import pytest

SECONDS = 60

PROGRAM = """
import os, sys, time
import square

{setup}
group = square.Communicator(host, "g", "alice", [host.name], 0)
group.barrier()
work = group.barrier_async()
work.wait()
child = os.fork()
if child == 0:
    began = time.monotonic()
    for call in (
        lambda: group.barrier(timeout=5),
        lambda: square.Communicator(host, "h", "alice", [host.name], 0, timeout=5),
        lambda: group.shrink(timeout=5),
    ):
        try:
            call()
        except square.errors.FailedPreconditionError as error:
            assert "forked" in str(error), error
        else:
            sys.exit("a call in a forked child did not fail")
    host.stop()
    del group, work, host
    assert time.monotonic() - began < 4, "it waited for threads that are not there"
    sys.exit(0)  # with all destructors, as a program ends
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
group.barrier()
host.stop()
"""

SETUPS = {
    "a node": 'host = square.Node("a")',
    "a node with a gateway": 'host = square.Node("a"); host.serve_gateway()',
    "an attached process": 'node = square.Node("a"); host = square.attach(node.serve_gateway())',
    "a node with a controller": (
        "controller = square.Controller(); host = square.Node('a', controller=controller.address)"
    ),
}


@pytest.mark.parametrize("setup", SETUPS)
def test_a_forked_child_is_told_so_and_ends(setup: str) -> None:
    program = textwrap.dedent(PROGRAM).replace("{setup}", SETUPS[setup])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
