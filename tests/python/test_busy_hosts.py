"""Hosts whose processors are busy with other work: slow, and nobody is taken for gone."""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_faults import busy_loops
from overlay_processes import Overlay, overlay, wait_for_operations

SITES = [f"s{i}" for i in range(6)]
MBPS = 50.0
DATA_BYTES = 1_000_000
LOOPS = 2  # on each processor
IS_LONG = os.environ.get("SQUARE_LONG") == "1"
SECONDS = 600.0 if IS_LONG else 10.0
END_SECONDS = 60.0


@pytest.fixture
def six(tmp_path: Path) -> Iterator[Overlay]:
    mesh = dict.fromkeys(itertools.permutations(SITES, 2), MBPS)
    with overlay(tmp_path, mesh, SITES, [], is_stored=False) as running:
        yield running


# Ten seconds under load: a link that is given up is so after one or two.
@pytest.mark.timeout(SECONDS + 300)
def test_no_link_is_given_up(six: Overlay) -> None:
    six.begin("g", SITES, DATA_BYTES)
    wait_for_operations(six, "g", 60)
    with busy_loops(LOOPS):
        time.sleep(SECONDS)
    ends = six.finish("g", SITES, END_SECONDS)
    done = six.operations("g")
    complaints = [line for name in SITES for line in six.processes[name].complaints]
    suspected = sum("has fallen silent" in line for line in complaints)
    longest = max(one["seconds"] for one in done)
    print(f"{len(done)} operations, the longest {longest:.2f} s, {suspected} suspicions")
    assert all(end and "over" in end for end in ends), ends
    lost = [line for line in complaints if "went down" in line]
    assert not lost, lost[:10]
