"""Members that are killed: the others hear who it was, and go on in another group."""

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import wait_until
from overlay_processes import Overlay, overlay, wait_for_operations

MEMBERS = ["a", "b", "c", "d"]
DATA_BYTES = 200_000
# Within a second on a machine that is not full.
HEARD_SECONDS = 20.0


@pytest.fixture(params=MEMBERS[:2])
def victim(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Overlay]:
    mesh = dict.fromkeys(itertools.permutations(MEMBERS, 2), 100.0)
    with overlay(tmp_path, mesh, MEMBERS, [], is_stored=False) as running:
        yield running


def test_the_others_hear_who_was_killed_and_go_on(four: Overlay, victim: str) -> None:
    four.begin("g", MEMBERS, DATA_BYTES)
    wait_for_operations(four, "g", 20)
    four.processes[victim].kill()
    killed = time.monotonic()
    others = [name for name in MEMBERS if name != victim]
    assert wait_until(lambda: all(four.end_of(name, "g") for name in others), HEARD_SECONDS)
    for name in others:
        end = four.end_of(name, "g")
        assert end is not None
        print(f"{name} after {end['at'] - killed:.2f} s: {end['error']}")
        assert re.search(f'node "{victim}"', end["error"]), end
    go_on_in(four, "h", others)
    four.start(victim).wait_for_line()
    go_on_in(four, "i", MEMBERS[::-1])


def go_on_in(four: Overlay, group: str, members: list[str]) -> None:
    four.begin(group, members, DATA_BYTES)
    wait_for_operations(four, group, 20)
    ends = four.finish(group, members, HEARD_SECONDS)
    assert all(end and "over" in end for end in ends), ends
