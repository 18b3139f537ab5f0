"""The policy "exact": what a tenant gets, whatever it cuts its traffic into."""

import random
from dataclasses import replace

import pytest
import square
from exact_comparison import check_sound
from exact_instances import random_instance, random_limits, random_links
from exact_sessions import Group, Instance

INSTANCES = 40


def planned(instance: Instance) -> square.Plan:
    plan = square.plan(instance.scenario())
    check_sound(plan)
    return plan


def by_tenant(plan: square.Plan) -> dict[str, float]:
    return {tenant.name: tenant.rate_bps for tenant in plan.tenants}


def random_tenants(rng: random.Random) -> Instance:
    """A ring with chords, limits in half; tenants with one multicast each."""
    nodes = tuple(f"n{number}" for number in range(rng.randint(4, 8)))
    around = dict.fromkeys(zip(nodes, (*nodes[1:], nodes[0]), strict=True), 5e6)
    links = around | random_links(rng, nodes)
    egress, ingress = random_limits(rng, nodes, links)
    tenants = {f"t{number}": rng.choice([1.0, 2.0]) for number in range(rng.randint(2, 4))}
    groups = []
    for tenant in tenants:
        members = rng.sample(nodes, rng.randint(2, len(nodes)))
        groups.append(Group("broadcast", tuple(members), members[0], tenant=tenant))
    return Instance(nodes, links, tuple(groups), egress, ingress, tenants, "tenant")


@pytest.mark.parametrize("number", range(INSTANCES))
def test_more_collectives_gain_a_tenant_nothing(number: int, seed: int) -> None:
    """Its broadcast cut into k alike, or into k of different sizes and weights; others as before."""
    rng = random.Random(f"{seed} {number}")
    whole = random_tenants(rng)
    first, *rest = whole.groups
    parts = [
        replace(first, size_bytes=rng.choice([2_520_000, 10**6, 10**8]), weight=rng.uniform(0.2, 5.0))
        if number % 2
        else first
        for _ in range(rng.randint(2, 5))
    ]
    cut = replace(whole, groups=(*parts, *rest))
    before, after = by_tenant(planned(whole)), by_tenant(planned(cut))
    floor = 1e-8 * whole.largest()
    assert after == pytest.approx(before, rel=1e-5, abs=floor), f"{whole!r}\n{cut!r}"


@pytest.mark.parametrize("fairness", ["collective", "tenant"])
def test_under_collective_fairness_two_collectives_count_twice(fairness: str) -> None:
    """So that the test above would notice: one link, and a tenant with two against one with one."""
    one, two = (Group("broadcast", ("a", "b"), "a", tenant=tenant) for tenant in ("t0", "t1"))
    instance = Instance(
        ("a", "b"), {("a", "b"): 12e6}, (one, two, two), tenants={"t0": 1.0, "t1": 1.0}, fairness=fairness
    )
    expected = {"t0": 6e6, "t1": 6e6} if fairness == "tenant" else {"t0": 4e6, "t1": 8e6}
    assert by_tenant(planned(instance)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("number", range(INSTANCES))
def test_weights_share_what_two_want_alike(number: int, seed: int) -> None:
    """The same multicast of two tenants, of weight 2 and 1, among others: 2 to 1."""
    rng = random.Random(f"{seed} {number}")
    base = random_tenants(rng)
    mine = base.groups[0]
    twins = (replace(mine, tenant="heavy"), replace(mine, tenant="light"))
    instance = replace(
        base,
        groups=(*twins, *base.groups[1:]),
        tenants={**base.tenants, "heavy": 2.0, "light": 1.0},
        fairness=rng.choice(["collective", "tenant"]),
    )
    rates = by_tenant(planned(instance))
    assert rates["heavy"] == pytest.approx(2 * rates["light"], rel=1e-5), repr(instance)


@pytest.mark.parametrize("number", range(INSTANCES))
def test_never_lexicographically_worse_than_square(number: int, seed: int) -> None:
    """The paper's plan is one of trees too: the ordered levels of "exact" are no smaller."""
    rng = random.Random(f"{seed} {number}")
    instance = random_instance(rng)
    groups = tuple(
        Group("broadcast", group.members, group.members[0], tenant=group.tenant, weight=group.weight)
        if group.op in ("reduce", "reduce_scatter", "all_reduce")
        else group
        for group in instance.groups
    )
    nodes = instance.nodes
    around = dict.fromkeys(zip(nodes, (*nodes[1:], nodes[0]), strict=True), 1e6)
    instance = replace(instance, links=around | instance.links, groups=groups)
    exact, paper = (
        sorted(collective.rate_bps / collective.weight for collective in plan.collectives)
        for plan in (planned(instance), square.plan(instance.scenario("square")))
    )
    floor = 1e-7 * instance.largest()
    for mine, theirs in zip(exact, paper, strict=True):
        if mine > theirs * (1 + 1e-5) + floor:
            return  # larger at the first level where they differ
        assert mine >= theirs * (1 - 1e-5) - floor, f"exact {exact}, square {paper}: {instance!r}"
