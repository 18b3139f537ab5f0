"""Collectives of a scenario's group follow one another."""

import os
import random
from pathlib import Path

import pytest
import square
from exact_perturbed import perturbed
from square.planning import with_policy

SCENARIO = """
[policy]
name = "exact"

[overlay]
mesh = ["a", "b", "c", "d"]
capacity_mbps = 12

[[tenant]]
name = "alice"

{collectives}
"""
SOLVES = int(os.environ.get("SQUARE_SEEDS", "300"))
OPERATIONS = ("all_gather", "reduce_scatter", "all_reduce")


def collective(operation: str, tenant: str = "alice", group: str = "") -> square.Collective:
    return square.Collective(tenant, op=operation, size_bytes=1_000_000, group=group)


def rates(scenario: square.Scenario) -> list[float]:
    plan = square.plan(scenario)
    square.validate(plan)
    return [one.rate_bps for one in plan.collectives]


def scenario(*collectives: square.Collective) -> square.Scenario:
    topology = square.Topology.full_mesh(["a", "b", "c", "d"], capacity_bps=12e6)
    return with_policy(square.Scenario(topology, collectives=list(collectives)), policy="exact")


def test_each_has_what_it_has_alone() -> None:
    alone = [rates(scenario(collective(operation)))[0] for operation in OPERATIONS]
    in_turn = [collective(operation, group="job") for operation in OPERATIONS]
    assert rates(scenario(*in_turn)) == pytest.approx(alone, rel=1e-6)
    at_once = rates(scenario(*(collective(operation) for operation in OPERATIONS)))
    assert all(slow < 0.8 * fast for slow, fast in zip(at_once, alone, strict=True))


def test_two_tenants_halve_it() -> None:
    alone = [rates(scenario(collective(operation)))[0] for operation in OPERATIONS]
    two = [collective(operation, tenant, "job") for tenant in ("a", "b") for operation in OPERATIONS]
    assert rates(scenario(*two)) == pytest.approx([rate / 2 for rate in (*alone, *alone)], rel=0.02)


def test_messages_wait_for_nobody() -> None:
    pairs = [
        square.Collective("alice", root=root, members=[root, other], size_bytes=1, group="job")
        for root, other in (("a", "b"), ("a", "c"))
    ]
    assert sum(rates(scenario(*pairs))) == pytest.approx(36e6, rel=1e-6)  # what leaves a


def test_a_file_says_group_and_a_plan_repeats_it(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    text = "".join(
        f'[[collective]]\ntenant = "alice"\ngroup = "job"\nop = "{operation}"\nbytes = 1000000\n'
        for operation in OPERATIONS
    )
    file.write_text(SCENARIO.format(collectives=text))
    read = square.Scenario.read(str(file))
    assert [one.group for one in read.collectives] == ["job"] * 3
    plan = square.plan(str(file))
    again = square.Plan.from_json(plan.to_json())
    square.validate(again)
    assert [one.group for one in again.collectives] == ["job"] * 3
    assert max(link.load_bps / link.capacity_bps for link in again.links) <= 1 + 1e-6


def test_what_limits_a_turn_is_its_own_load() -> None:
    plan = square.plan(scenario(*(collective(operation, group="job") for operation in OPERATIONS)))
    for one in plan.collectives:
        cuts = square.limits(plan, one.sessions[0]).cuts
        assert cuts
        for cut in cuts:
            full = sum(link.capacity_bps for link in cut.links)
            assert sum(link.load_bps for link in cut.links) == pytest.approx(full, rel=0.01)


@pytest.mark.parametrize("coding", ["off", "exact"])
def test_random_groups_fit(coding: str, seed: int) -> None:
    for number in range(SOLVES // 2):
        instance = perturbed(seed, number)
        chance = random.Random(f"{seed} {number} groups")
        groups = [chance.choice(["", "x", "x", "y"]) for _ in instance.groups]
        plan = square.plan(instance.scenario("exact", coding, chance.choice([0, 0, 3]), groups))
        assert not square.violations(plan), f"SQUARE_SEED={seed}, instance {number}"
