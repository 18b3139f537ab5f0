"""The policy "exact" on networks of the Internet Topology Zoo: every level is certified.

A sample; benchmarks/exact_zoo.py takes every connected network.
"""

from pathlib import Path

import pytest
import square
from exact_comparison import MOST_GAP
from exact_networks import broadcasts, drawn, is_connected, names_of, zoo_files

FILES = zoo_files()
SAMPLE = FILES[:: max(1, len(FILES) // 24)]
MOST_NODES = 200


@pytest.mark.skipif(not FILES, reason="set SQUARE_DATA to the directory with topology-zoo/")
@pytest.mark.parametrize("file", SAMPLE, ids=lambda file: file.stem)
@pytest.mark.parametrize("count", [2, 8])
def test_every_level_is_certified(file: Path, count: int, seed: int) -> None:
    topology = drawn(file, seed)
    if not is_connected(topology) or topology.node_count > MOST_NODES:
        pytest.skip(f"{file.stem} is not connected, or larger than {MOST_NODES} nodes")
    scenario = square.Scenario(topology, collectives=broadcasts(names_of(topology), count, seed))
    plan = square.plan(scenario, policy="exact", streams=False)
    assert not plan.realised
    gaps = square.gaps(plan)
    assert gaps
    assert max(gap.lp_gap for gap in gaps) <= MOST_GAP, [(gap.level, gap.lp_gap) for gap in gaps]
    assert all(collective.lp_rate_bps > 0 for collective in plan.collectives)
