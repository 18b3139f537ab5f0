"""Two minor releases side by side: processes of one build that speak different protocol versions."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import square
from commands import COMMAND, assert_clear_error, wait_until
from commands import square as run_square
from overlay_processes import Overlay, Running, overlay, wait_for_operations

MEMBERS, RELAY = ["a", "b", "c"], "r"
# Those between members are slow, so plans go over the relay.
MBPS = {
    (x, y): 100.0 if RELAY in (x, y) else 20.0 for x in [*MEMBERS, RELAY] for y in [*MEMBERS, RELAY] if x != y
}
DATA_BYTES = 200_000
OPERATIONS = 6  # of a member, at least, in each state of the overlay

# The control protocol of this release, and the oldest that it speaks.
NEWEST, OLDEST = 12, 11


def spoken(running: Overlay) -> dict[str, int]:
    return {node.name: node.protocol_version for node in square.list_nodes(running.address)}


@contextmanager
def job(running: Overlay, group: str, members: list[str]) -> Iterator[None]:
    """A group of the members that calls without a pause, and checks every result."""
    running.begin(group, members, DATA_BYTES)
    wait_for_operations(running, group, OPERATIONS * len(members))
    yield
    done = len(running.operations(group))
    wait_for_operations(running, group, done + OPERATIONS * len(members))
    for end in running.finish(group, members, 60):
        assert end is not None
        assert "error" not in end, end


def upgrade_controller(running: Overlay, release: str) -> None:
    with job(running, "beside the controller", MEMBERS):
        running.processes["controller"].stop()
        running.release = release
        running.start_controller()
        assert wait_until(lambda: all(spoken(running).values()), 30), spoken(running)


def upgrade_nodes(running: Overlay, release: str) -> None:
    running.release = release
    for name in [*MEMBERS, RELAY]:
        others = [member for member in MEMBERS if member != name]
        with job(running, f"beside {name}", others):
            old = running.processes[name]
            old.stop() if name == RELAY else old.leave()
            running.start(name).wait_for_line()
        with job(running, f"with {name}", MEMBERS):
            pass


@pytest.mark.parametrize(
    ("before", "after", "controller_is_first", "versions"),
    [
        ("before", "", True, [OLDEST, OLDEST, NEWEST]),
        ("before", "", False, [OLDEST, OLDEST, NEWEST]),
        ("", "next", True, [NEWEST, NEWEST, NEWEST + 1]),
    ],
    ids=["controller first", "nodes first", "to the next release"],
)
def test_an_overlay_is_upgraded_while_jobs_run(
    tmp_path: Path, before: str, after: str, controller_is_first: bool, versions: list[int]
) -> None:
    steps = [upgrade_controller, upgrade_nodes]
    seen = []
    with overlay(tmp_path, MBPS, MEMBERS, [RELAY], is_stored=True, release=before) as running:
        seen.append(set(spoken(running).values()))
        for step in steps if controller_is_first else reversed(steps):
            step(running, after)
            seen.append(set(spoken(running).values()))
    assert seen == [{version} for version in versions]


def test_releases_that_are_too_far_apart_say_which_one_to_upgrade(tmp_path: Path) -> None:
    mbps = {("a", "b"): 20.0, ("b", "a"): 20.0}
    with overlay(tmp_path, mbps, [], [], is_stored=False, release="next") as running:
        running.release = "before"
        refused = running.start("a")
        assert refused.process.wait(30) != 0
        words = (
            f'node "a" speaks control protocol {OLDEST}, the controller {NEWEST} to {NEWEST + 1}; '
            'upgrade node "a"'
        )
        assert wait_until(lambda: words in "".join(refused.complaints), 5), refused.complaints


def test_a_store_is_taken_by_the_next_release_and_not_back(tmp_path: Path) -> None:
    mbps = {("a", "b"): 20.0, ("b", "a"): 20.0}
    with overlay(tmp_path, mbps, ["a", "b"], [], is_stored=True) as running:
        with job(running, "g", ["a", "b"]):
            running.processes["controller"].stop()
            running.release = "next"
            running.start_controller()
        running.processes["controller"].stop()
    back = run_square("controller", "--store", tmp_path / "store", "--bind", "127.0.0.1:0")
    assert_clear_error(back, "has version 2, and this release reads version 1", "upgrade this controller")


# A rank of a group of three processes at one gateway.
ATTACHED = """
import sys
import numpy as np
import square
gateway, rank = sys.argv[1], int(sys.argv[2])
with square.attach(gateway) as node:
    with square.Communicator(node, "g", "alice", ["a"] * 3, rank, timeout=30) as group:
        for step in range(5):
            data = np.full(10_000, rank + step, "float32")
            group.all_reduce(data, timeout=30)
            assert (data == 3 + 3 * step).all()
"""


@pytest.mark.parametrize("release", ["", "next"])
def test_processes_of_two_releases_attach_to_one_gateway(tmp_path: Path, release: str) -> None:
    with square.Controller() as controller, tempfile.TemporaryDirectory() as short:
        socket = f"{short}/gateway.sock"
        command = [*COMMAND, "node", "--name", "a", "--controller", controller.address, "--gateway", socket]
        node = Running(command, tmp_path / "a.log", release)
        try:
            node.wait_for_line()
            ranks = [
                Running(
                    [sys.executable, "-P", "-c", ATTACHED, socket, str(rank)], tmp_path / f"{rank}.log", one
                )
                for rank, one in enumerate(["before", "", "next"])
            ]
            assert [rank.process.wait(60) for rank in ranks] == [0, 0, 0], [rank.complaints for rank in ranks]
        finally:
            node.kill()
