"""Many groups over limits of nodes: planned by arithmetic, and a change by what it touches."""

import random

import pytest
import square
from exact_networks import names_of, regions

GROUPS = 400


@pytest.fixture
def chance(seed: int) -> random.Random:
    return random.Random(f"{seed} day")


def group(chance: random.Random, names: list[str], number: int) -> square.Collective:
    members = chance.sample(names, chance.randint(3, 10))
    operation = "all_reduce" if chance.random() < 0.5 else "broadcast"
    root = None if operation == "all_reduce" else members[0]
    tenant = f"tenant {chance.randrange(20)}"
    return square.Collective(
        tenant, operation, root=root, members=members, group=f"{number}", size_bytes=1 << 20
    )


def rates(plan: square.Plan) -> list[float]:
    return [one.rate_bps for one in plan.collectives]


@pytest.mark.usefixtures("data_dir")
def test_groups_come_and_go(chance: random.Random) -> None:
    network = regions(limits=True)
    names = names_of(network)
    scenario = square.Scenario(
        network,
        square.Policy("exact"),
        collectives=[group(chance, names, number) for number in range(GROUPS)],
    )
    planner = square.Planner()
    plan = planner.plan(scenario)
    for number in range(6):
        if number % 3 == 0:
            scenario.add_collective(group(chance, names, GROUPS + number))
        elif number % 3 == 1:
            scenario.remove_collective(chance.choice(plan.collectives).id)
        else:
            link = chance.choice(network.links)
            scenario.set_capacity(link.from_node, link.to_node, link.capacity_bps * 0.6)
        plan = planner.plan(scenario, timeout=60)
        assert not square.violations(plan)
        assert rates(plan) == pytest.approx(rates(square.plan(scenario, timeout=60)), rel=1e-6)
        assert max(gap.rate_gap for gap in square.gaps(plan)) < 1e-6
