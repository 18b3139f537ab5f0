"""One broadcast on a full mesh reaches the min-cut under the paper's policy, by default paths."""

import random

import pytest
import square
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

NODES = 8
MEGABYTES = 12_500_000
PAPER = square.Policy("square", fairness="collective")


def mesh(seed: int) -> square.Topology:
    topology = square.Topology.full_mesh([f"n{number}" for number in range(NODES)])
    topology.draw_capacities(10e6, 1e6, seed)
    return topology


def min_cut_bps(topology: square.Topology, root: int) -> float:
    """The smallest maximum flow from the root to another node, capacities in whole bit/s."""
    number = {node.name: index for index, node in enumerate(topology.nodes)}
    links = topology.links
    capacity = csr_array(
        (
            [int(link.capacity_bps) for link in links],
            ([number[link.from_node] for link in links], [number[link.to_node] for link in links]),
        ),
        shape=(NODES, NODES),
        dtype="int32",
    )
    return min(maximum_flow(capacity, root, sink).flow_value for sink in range(NODES) if sink != root)


@pytest.mark.parametrize("seed", random.Random(2026).sample(range(10_000), 8))
def test_one_broadcast_reaches_the_min_cut(seed: int) -> None:
    topology = mesh(seed)
    broadcast = square.Collective("alice", root="n0", size_bytes=MEGABYTES)
    plan = square.plan(square.Scenario(topology, PAPER, collectives=[broadcast]))
    assert plan.collectives[0].rate_bps >= 0.99 * min_cut_bps(topology, 0)


@pytest.mark.parametrize("seed", random.Random(2027).sample(range(10_000), 4))
def test_streams_of_eight_broadcasts_carry_what_the_program_allows(seed: int) -> None:
    topology = mesh(seed)
    broadcasts = [
        square.Collective(f"t{root}", root=f"n{root}", size_bytes=MEGABYTES) for root in range(NODES)
    ]
    plan = square.plan(square.Scenario(topology, PAPER, collectives=broadcasts))
    allowed = sum(session.lp_rate_bps for session in plan.sessions)
    assert sum(session.rate_bps for session in plan.sessions) >= 0.99 * allowed
