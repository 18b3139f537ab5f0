"""Very many nodes and sessions: a plan in bounded time, with a certified gap."""

import os
import random

import pytest
import square
from square.planning import with_policy

SEED = int(os.environ.get("SQUARE_SEED", "20261126"))
NODES = 220
SESSIONS = 60
# Takes as long as the deadline; without one it goes on until all levels are found.
SECONDS = 4.0


@pytest.fixture(scope="module")
def scenario() -> square.Scenario:
    print(f"SQUARE_SEED={SEED}")
    chance = random.Random(SEED)
    names = [f"n{i}" for i in range(NODES)]
    topology = square.Topology()
    for name in names:
        topology.add_node(name)
    links = {(i, (i + 1) % NODES) for i in range(NODES)}
    while len(links) < 4 * NODES:
        links.add(tuple(sorted(chance.sample(range(NODES), 2))))
    for a, b in sorted({tuple(sorted(link)) for link in links}):
        for one, other in ((a, b), (b, a)):
            topology.add_link(names[one], names[other], capacity_bps=max(1e6, chance.gauss(10e6, 3e6)))
    collectives = []
    for k in range(SESSIONS):
        members = chance.sample(names, 16)
        collectives.append(square.Collective(f"tenant {k % 7}", root=members[0], members=members))
    return with_policy(square.Scenario(topology, collectives=collectives), policy="exact", deadline=SECONDS)


def least_level(plan: square.Plan) -> float:
    return min(one.rate_bps / one.weight for one in plan.collectives)


def test_a_plan_in_time_is_valid_and_better_than_a_quick_one(scenario: square.Scenario) -> None:
    plan = square.plan(scenario)
    square.validate(plan)
    gaps = square.gaps(plan)
    assert all(one.rate_bps > 0 for one in plan.collectives)
    assert gaps
    assert gaps[0].rate_gap < 0.05
    assert least_level(plan) > least_level(square.quick_plan(scenario))
    assert sum(len(session.streams) for session in plan.sessions) < 32 * SESSIONS


def test_few_streams_where_that_is_asked(scenario: square.Scenario) -> None:
    plan = square.plan(with_policy(scenario, max_streams=3, deadline=SECONDS))
    square.validate(plan)
    assert max(len(session.streams) for session in plan.sessions) <= 3


def test_it_can_be_given_up(scenario: square.Scenario) -> None:
    with pytest.raises(square.SquareError, match="looking for"):
        square.plan(scenario, timeout=0.5)
