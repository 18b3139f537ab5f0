"""A relay that is stopped: neighbours and controller leave it out within seconds, and use it again."""

import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import wait_until
from overlay_processes import Overlay, overlay, wait_for_operations

MEMBERS = ["a", "b", "c"]
RELAY = "r"
DIRECT_MBPS, RELAYED_MBPS = 3.0, 12.0
DATA_BYTES = 100_000
PAUSE_SECONDS = 8.0
# A second of silence and the look that finds it, the word that the relay owes the controller, the plan.
AROUND_SECONDS = 2.5
AGAIN_SECONDS = 60.0


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Overlay]:
    links = dict.fromkeys(itertools.permutations(MEMBERS, 2), DIRECT_MBPS)
    for member in MEMBERS:
        links[member, RELAY] = links[RELAY, member] = RELAYED_MBPS
    with overlay(tmp_path, links, MEMBERS, [RELAY], is_stored=False) as running:
        yield running


def all_reduces(four: Overlay, begin: float, end: float) -> list[float]:
    """How long those of the first member took that began then."""
    said = [one for one in four.said(MEMBERS[0], "g") if one.get("op") == "all_reduce"]
    return [one["seconds"] for one in said if begin <= one["begun"] < end]


def test_a_stopped_relay_is_left_out_and_used_again(four: Overlay) -> None:
    four.begin("g", MEMBERS, DATA_BYTES)
    wait_for_operations(four, "g", 120)
    usual = statistics.median(all_reduces(four, 0, time.monotonic())[10:])
    four.processes[RELAY].pause()
    paused = time.monotonic()
    time.sleep(PAUSE_SECONDS)
    four.processes[RELAY].go_on()
    resumed = time.monotonic()
    without = all_reduces(four, paused + AROUND_SECONDS, resumed)
    assert len(without) > 3, "the relay was waited for"
    longest = max(all_reduces(four, paused - 5, paused + AROUND_SECONDS))

    def is_used_again() -> bool:
        latest = all_reduces(four, resumed, time.monotonic())[-10:]
        return len(latest) == 10 and statistics.median(latest) < (usual + statistics.median(without)) / 2

    is_back = wait_until(is_used_again, AGAIN_SECONDS)
    again = time.monotonic() - resumed
    ends = four.finish("g", MEMBERS, AGAIN_SECONDS)
    print(
        f"usual {usual:.3f} s, without {statistics.median(without):.3f} s, the longest {longest:.2f} s, "
        f"used again after {again:.2f} s"
    )
    assert all(end and "over" in end for end in ends), ends
    assert longest < PAUSE_SECONDS, "it was waited for"
    assert is_back
