"""Refused connections: a relay with a wrong address is avoided and named, and death is told in time."""

import itertools
import re
import socket
import time
from pathlib import Path

import pytest
import square
from commands import wait_until
from overlay_processes import overlay, wait_for_operations
from test_cli_serve import serving

MEMBERS = ["a", "b", "c"]
RELAY = "r"
DATA_BYTES = 100_000
# Over the links between members 0.1 s; a block that waits for the relay's way takes more than a second.
QUICK_SECONDS = 0.8
AVOIDED_SECONDS = 5.0
LATE_OPERATIONS = 10
END_SECONDS = 60.0


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_relay_with_a_wrong_address_is_avoided_and_named(tmp_path: Path) -> None:
    links = dict.fromkeys(itertools.permutations(MEMBERS, 2), 20.0)
    for member in MEMBERS:
        links[member, RELAY] = links[RELAY, member] = 80.0
    wrong = f"127.0.0.1:{closed_port()}"
    with (
        overlay(tmp_path, links, MEMBERS, [], is_stored=False) as running,
        serving("node", "--name", RELAY, "--controller", running.address, "--advertise", wrong),
    ):
        running.begin("g", MEMBERS, DATA_BYTES)
        wait_for_operations(running, "g", 1)
        begun = time.monotonic()

        def late() -> list[float]:
            operations = running.operations("g")
            return [one["seconds"] for one in operations if one["begun"] > begun + AVOIDED_SECONDS]

        assert wait_until(lambda: len(late()) >= LATE_OPERATIONS, END_SECONDS)
        findings = [one for one in square.examine(running.address).findings if one.rule.startswith("reach.")]
        ends = running.finish("g", MEMBERS, END_SECONDS)
        said = "".join(running.processes["a"].complaints)
    print(f"{len(late())} operations after {AVOIDED_SECONDS:.0f} s, the longest {max(late()):.3f} s")
    assert all(end and "over" in end for end in ends), ends
    assert max(late()) < QUICK_SECONDS
    assert [finding.rule for finding in findings] == ["reach.refused"]
    assert f"node {RELAY}" in findings[0].guilty
    assert re.search(f'connections to node "{RELAY}" are refused', said), said


# Of two nodes nobody else can be asked; where there is a third one it is a second and the question.
@pytest.mark.parametrize(("members", "seconds"), [(["a", "b"], 5.0), (["a", "b", "c"], 3.0)])
def test_who_is_killed_is_named_in_time(tmp_path: Path, members: list[str], seconds: float) -> None:
    mesh = dict.fromkeys(itertools.permutations(members, 2), 100.0)
    with overlay(tmp_path, mesh, members, [], is_stored=False) as running:
        running.begin("g", members, DATA_BYTES)
        wait_for_operations(running, "g", 10)
        running.processes["b"].kill()
        killed = time.monotonic()
        assert wait_until(lambda: running.end_of("a", "g") is not None, END_SECONDS)
        end = running.end_of("a", "g")
    assert end is not None
    print(f"{len(members)} nodes: after {end['at'] - killed:.2f} s: {end['error']}")
    assert 'node "b" is gone' in end["error"]
    assert end["at"] - killed < seconds
