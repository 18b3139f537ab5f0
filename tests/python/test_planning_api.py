"""Policies by name, scenarios that change in place, planners: what Python adds to planning."""

import math
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import square
from square.cli.run import with_sizes
from square.errors import InvalidArgumentError, NotFoundError
from square.planning import with_policy

NAMES = ["fra", "sfo", "syd"]


def mesh(names: list[str] = NAMES) -> square.Topology:
    return square.Topology.full_mesh(names, capacity_bps=10e6, latency=0.01, price_usd_per_gb=0.02)


def scenario(policy: square.Policy | None = None, **collective: object) -> square.Scenario:
    broadcast = square.Collective("alice", root="fra", size_bytes=1000, **collective)  # type: ignore[arg-type]
    return square.Scenario(mesh(), policy or square.Policy("exact"), collectives=[broadcast])


def test_a_policy_holds_names() -> None:
    policy = square.Policy(
        "exact",
        fairness="tenant",
        gap=1e-3,
        deadline=2,
        max_streams=5,
        coding="float32",
        budget_usd_per_hour=7,
        headroom=1.5,
        avoid_nodes=["syd"],
        avoid_links=[("fra", "sfo")],
    )
    assert (policy.name, policy.fairness, policy.objective) == ("exact", "tenant", "fair")
    assert (policy.gap, policy.deadline, policy.max_streams) == (1e-3, 2.0, 5)
    assert (policy.budget_usd_per_hour, policy.headroom, policy.coding) == (7.0, 1.5, "float32")
    seen = scenario(policy).policy
    assert seen.avoid_nodes == policy.avoid_nodes == ["syd"]
    assert seen.avoid_links == policy.avoid_links == [("fra", "sfo")]
    assert seen.budget_usd_per_hour == 7.0
    assert square.Policy(deadline=timedelta(milliseconds=250)).deadline == 0.25
    plain = square.Policy()
    assert (plain.name, plain.objective, plain.gap, plain.deadline) == ("exact", "fair", 1e-6, None)
    assert (plain.max_streams, plain.budget_usd_per_hour, plain.headroom) == (0, None, 0.0)
    assert (plain.fairness, plain.shots, plain.paths) == ("tenant", 3, "shortest")
    assert plain.coding == "exact"


def test_parts_of_a_policy_are_keywords_of_their_types() -> None:
    with pytest.raises(TypeError, match='no keyword "headrom"'):
        square.Policy(headrom=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="gap must be float, not 'small'"):
        square.Policy(gap="small")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="shots: must be from 1 to 1000"):
        square.Policy(shots=1 << 40)
    base = square.Policy("exact", gap=0.5, headroom=1)
    assert base.replace(gap=None, shots=4).gap == 0.5
    assert (base.replace("mcf").gap, base.replace("mcf").headroom) == (1e-6, 1.0)
    assert base.gap == 0.5


@pytest.mark.parametrize("part", [{"shots": 4}, {"paths": "shortest:2"}])
def test_what_the_default_policy_ignores_needs_a_name(part: dict[str, Any]) -> None:
    """As in a file."""
    (key,) = part
    refused = f'{key}: the policy "exact", which plans where none is named, has no {key}'
    with pytest.raises(InvalidArgumentError, match=refused):
        square.Policy(**part)
    with pytest.raises(InvalidArgumentError, match=refused):
        square.Policy(gap=0.5).replace(**part)
    with pytest.raises(InvalidArgumentError, match=refused):
        square.plan(scenario(square.Policy()), **part)
    assert getattr(square.Policy("exact", **part), key) == part[key]
    assert getattr(square.Policy("exact").replace(**part), key) == part[key]
    assert getattr(square.Policy().replace("square", **part), key) == part[key]
    assert square.plan(scenario(square.Policy()), policy="square", **part).policy == "square"
    assert square.plan(scenario(square.Policy("square")), **part).policy == "square"


def test_a_sum_is_planned_where_no_policy_is_named() -> None:
    adds = square.Collective("alice", "all_reduce", size_bytes=9_000_000)
    plan = square.plan(square.Scenario(mesh(), collectives=[adds]))
    assert plan.policy == "exact"
    assert plan.min_rate_bps == pytest.approx(15e6, rel=1e-6)


def test_a_tenant_gains_nothing_by_asking_for_more() -> None:
    wishes = [square.Collective(tenant, root="fra", size_bytes=1000) for tenant in ("alice", "bob", "bob")]
    plan = square.plan(square.Scenario(mesh(), collectives=wishes))
    alice, *bob = (collective.rate_bps for collective in plan.collectives)
    assert alice == pytest.approx(sum(bob), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (
            lambda: square.Policy(objective="cheap"),
            InvalidArgumentError,
            'unknown objective "cheap": write one of "fair", "cost"',
        ),
        (lambda: square.Policy(max_streams=-1), InvalidArgumentError, "max_streams"),
        (lambda: scenario(square.Policy("best")), InvalidArgumentError, 'unknown policy "best"'),
        (lambda: scenario(square.Policy("exact", gap=math.nan)), InvalidArgumentError, "policy.gap"),
        (lambda: scenario(square.Policy("exact", gap=1)), InvalidArgumentError, "policy.gap"),
        (lambda: scenario(square.Policy("exact", deadline=0)), InvalidArgumentError, "deadline_seconds"),
        (lambda: scenario(square.Policy("exact", headroom=-1)), InvalidArgumentError, "policy.headroom"),
        (lambda: scenario(square.Policy("exact", avoid_nodes=["lon"])), NotFoundError, 'no node "lon"'),
        (
            lambda: scenario(square.Policy("exact", avoid_links=[("fra", "fra")])),
            NotFoundError,
            'no link from "fra" to "fra"',
        ),
        (lambda: scenario(square.Policy("mcf", headroom=1)), InvalidArgumentError, "knows no headroom"),
        (lambda: scenario(square.Policy("mcf"), max_latency=1), InvalidArgumentError, "no bound on latency"),
        (lambda: scenario(required_bps=1e6), InvalidArgumentError, 'for objective "cost"'),
        (
            lambda: scenario(square.Policy("exact", objective="cost")),
            InvalidArgumentError,
            "collective 0 .broadcast.: objective .cost. needs a required rate",
        ),
        (lambda: scenario(max_latency=0), InvalidArgumentError, "max_latency must be above 0"),
        (lambda: scenario(max_latency=math.nan), InvalidArgumentError, "max_latency must be above 0"),
        (lambda: scenario(max_latency={"lon": 1}), NotFoundError, 'no node "lon"'),
        (lambda: scenario(max_latency={"fra": 1}), InvalidArgumentError, "the root"),
        (
            lambda: scenario(members=["fra", "sfo"], max_latency={"syd": 1}),
            InvalidArgumentError,
            "not a member",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    make: Callable[[], object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        make()


def test_demands_of_a_collective() -> None:
    bounds = {"sfo": 0.08, "syd": timedelta(milliseconds=300)}
    (seen,) = scenario(max_latency=bounds).collectives
    assert seen.max_latency == {"sfo": 0.08, "syd": 0.3}
    assert seen.required_bps is None
    (seen,) = scenario(max_latency=0.2).collectives
    assert seen.max_latency == {"sfo": 0.2, "syd": 0.2}
    (seen,) = scenario(square.Policy("exact", objective="cost"), required_bps=2e6).collectives
    assert seen.required_bps == 2e6
    assert seen.max_latency is None
    assert square.Collective("a", root="fra", max_latency=1).max_latency == 1.0


def test_keywords_replace_parts_of_the_policy() -> None:
    base = scenario(square.Policy("exact", gap=1e-2, deadline=3, headroom=2, avoid_nodes=["syd"]))
    changed = with_policy(base, gap=0.0, avoid_links=[("sfo", "fra")], headroom=0).policy
    assert (changed.gap, changed.deadline, changed.headroom) == (0.0, 3.0, 0.0)
    assert (changed.avoid_nodes, changed.avoid_links) == (["syd"], [("sfo", "fra")])
    # How to solve goes with the policy; what is wanted stays, and is refused.
    other = with_policy(base, policy="mcf").policy
    assert (other.gap, other.deadline, other.headroom) == (1e-6, None, 2.0)
    with pytest.raises(InvalidArgumentError, match="knows no headroom"):
        square.plan(base, policy="mcf")
    assert base.policy.gap == 1e-2


def test_sizes_and_required_rates_change_in_place() -> None:
    changing = scenario(square.Policy("exact", objective="cost"), required_bps=2e6, max_latency=0.4)
    added = square.Collective("bob", "all_reduce", size_bytes=9, algorithm="ring", required_bps=1e6)
    assert changing.add_collective(added) == 1
    changing.remove_collective(0)
    changing.set_size(1, 30)
    changing.set_required_rate(1, 3e6)
    (seen,) = changing.collectives
    assert (seen.id, seen.size_bytes, seen.required_bps, seen.algorithm) == (1, 30, 3e6, "ring")
    sized = with_sizes(changing, [60])
    (seen,) = sized.collectives
    assert (seen.id, seen.size_bytes, seen.required_bps, seen.algorithm) == (1, 60, 3e6, "ring")
    assert changing.collectives[0].size_bytes == 30
    assert with_policy(changing, objective="fair").collectives[0].required_bps is None
    assert changing.collectives[0].required_bps == 3e6
    for edit in (lambda: changing.set_size(0, 1), lambda: changing.set_required_rate(0, None)):
        with pytest.raises(NotFoundError, match="no collective 0"):
            edit()


def test_a_ring_is_for_all_reduce() -> None:
    with pytest.raises(InvalidArgumentError, match='"ring" is for all_reduce, not for broadcast'):
        scenario(algorithm="ring")


def test_a_controller_plans_what_a_scenario_demands() -> None:
    policy = square.Policy("exact", objective="cost", avoid_links=[("fra", "sfo")])
    with square.Controller(scenario(policy, required_bps=2e6, max_latency=0.4)) as controller:
        before = controller.plan()
        assert before.collectives[0].rate_bps == pytest.approx(2e6, rel=1e-5)
        # The same overlay, its links in another order.
        changed = square.Topology()
        for name in reversed(NAMES):
            changed.add_node(name)
        for link in reversed(mesh().links):
            changed.add_link(link.from_node, link.to_node, capacity_bps=link.capacity_bps)
        controller.set_topology(changed)
        after = controller.plan()
        for plan in (before, after):
            used = {pair for session in plan.sessions for stream in session.streams for pair in stream.links}
            assert used
            assert ("fra", "sfo") not in used
        with pytest.raises(InvalidArgumentError, match="knows no required rate"):
            controller.set_policy(square.Policy("square"))


def test_collectives_come_and_go_and_keep_their_ids() -> None:
    changing = scenario()
    second = square.Collective("bob", "all_gather", size_bytes=9, weight=2)
    assert changing.add_collective(second) == 1
    assert changing.add_collective(square.Collective("alice", root="syd", size_bytes=9)) == 2
    changing.remove_collective(1)
    assert [collective.id for collective in changing.collectives] == [0, 2]
    assert changing.add_collective(second) == 3
    assert [tenant.name for tenant in changing.tenants] == ["alice", "bob"]
    with pytest.raises(NotFoundError, match="no collective 1"):
        changing.remove_collective(1)
    with pytest.raises(InvalidArgumentError, match=r"collective 4 \(broadcast\): the weight"):
        changing.add_collective(square.Collective("carol", root="fra", weight=0))
    assert [collective.id for collective in changing.collectives] == [0, 2, 3]
    assert [tenant.name for tenant in changing.tenants] == ["alice", "bob"]


def test_a_node_leaves_the_topology_the_collectives_and_the_policy() -> None:
    names = ["ams", *NAMES]
    policy = square.Policy("exact", avoid_nodes=["sfo", "syd"], avoid_links=[("sfo", "fra"), ("ams", "syd")])
    bounded = square.Collective("a", root="syd", max_latency={"ams": 0.1, "fra": 0.2, "sfo": 0.3})
    pair = square.Collective("a", root="syd", members=["syd", "sfo"])
    rooted = square.Collective("a", root="sfo")
    alone = square.Collective("a", root="syd", members=["syd"])
    changing = square.Scenario(mesh(names), policy, collectives=[bounded, pair, rooted, alone])
    changing.set_capacity("ams", "syd", 3e6)
    changing.remove_node("sfo")
    assert [node.name for node in changing.topology.nodes] == ["ams", "fra", "syd"]
    capacity = {(link.from_node, link.to_node): link.capacity_bps for link in changing.topology.links}
    assert len(capacity) == 6
    assert capacity["ams", "syd"] == 3e6
    assert capacity["syd", "ams"] == 10e6
    assert changing.policy.avoid_nodes == ["syd"]
    assert changing.policy.avoid_links == [("ams", "syd")]
    first, last = changing.collectives
    assert (first.id, first.root, first.members) == (0, "syd", ["ams", "fra", "syd"])
    assert first.max_latency == {"ams": 0.1, "fra": 0.2}
    assert (last.id, last.members) == (3, ["syd"])
    with pytest.raises(NotFoundError, match='no node "sfo"'):
        changing.remove_node("sfo")
    with pytest.raises(NotFoundError, match='no link from "ams" to "ams"'):
        changing.set_capacity("ams", "ams", 1e6)


@pytest.mark.parametrize("policy", ["square", "exact"])
def test_ids_with_gaps_are_planned(policy: str) -> None:
    changing = scenario(square.Policy(policy))
    changing.add_collective(square.Collective("bob", root="sfo", size_bytes=1000))
    changing.add_collective(square.Collective("carol", root="syd", size_bytes=1000))
    changing.remove_collective(0)
    plan = square.plan(changing)
    square.validate(plan)
    assert [collective.id for collective in plan.collectives] == [1, 2]
    assert {session.collective for session in plan.sessions} == {1, 2}
    assert [collective.tenant for collective in plan.collectives] == ["bob", "carol"]


def test_a_planner_says_what_changed() -> None:
    changing = scenario()
    planner = square.Planner()
    first = planner.plan(changing)
    square.validate(first)
    assert first.collectives[0].rate_bps == pytest.approx(20e6, rel=1e-5)
    added = changing.add_collective(square.Collective("bob", root="sfo", size_bytes=1000))
    second = planner.plan(changing)
    square.validate(second)
    assert second.changes is not None
    kinds = {change.collective: change.kind for change in second.changes}
    assert kinds[added] == "joined"
    assert kinds[0] == "slower"
    changing.remove_collective(0)
    third = planner.plan(changing)
    assert third.changes is not None
    assert {change.collective: change.kind for change in third.changes} == {0: "left", added: "faster"}
    changing.set_capacity("sfo", "fra", 5e6)
    fourth = planner.plan(changing)
    assert fourth.min_rate_bps == pytest.approx(square.plan(changing).min_rate_bps, rel=1e-5)
    assert fourth.min_rate_bps < third.min_rate_bps


def test_a_planner_goes_on_after_an_error() -> None:
    changing = scenario()
    planner = square.Planner()
    planner.plan(changing)
    with pytest.raises(InvalidArgumentError, match="knows no headroom"):
        planner.plan(with_policy(changing, policy="mcf", headroom=1))
    again = planner.plan(changing)
    assert again.changes == []
    assert square.Planner().plan(changing, streams=False).realised is False


def test_threads_share_a_planner() -> None:
    planner = square.Planner()
    rates: list[float] = []

    def work() -> None:
        rates.extend([planner.plan(scenario()).min_rate_bps for _ in range(5)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rates == pytest.approx([20e6] * 20, rel=1e-5)


def test_the_frontier_of_rate_and_cost() -> None:
    points = square.frontier(scenario(), points=5)
    assert len(points) == 5
    assert points[-1].level_bps == pytest.approx(20e6, rel=1e-3)
    levels = [point.level_bps for point in points]
    costs = [point.cost_usd_per_hour for point in points]
    assert levels == sorted(levels)
    assert costs == sorted(costs)
    for point in points:
        assert point.cost_bound_usd_per_hour <= point.cost_usd_per_hour * (1 + 1e-9) + 1e-12
    # Every bit crosses two links; 1 GB costs 0.02 USD on each.
    per_bit = 3600 / 8e9 * 0.02 * 2
    assert points[-1].cost_usd_per_hour == pytest.approx(20e6 * per_bit, rel=1e-2)
    for wrong in (1, 0, -3):
        with pytest.raises(InvalidArgumentError):
            square.frontier(scenario(), points=wrong)
    with pytest.raises(InvalidArgumentError, match="exact"):
        square.frontier(scenario(square.Policy("square")))


def test_least_cost_and_budget() -> None:
    cost = square.Policy("exact", objective="cost")
    cheap = square.plan(scenario(cost, required_bps=4e6))
    assert cheap.collectives[0].rate_bps == pytest.approx(4e6, rel=1e-5)
    assert cheap.cost_usd_per_hour == pytest.approx(4e6 * 3600 / 8e9 * 0.02 * 2, rel=1e-5)
    bought = square.plan(scenario(), budget_usd_per_hour=cheap.cost_usd_per_hour)
    assert bought.min_rate_bps == pytest.approx(4e6, rel=1e-3)
    with pytest.raises(square.errors.FailedPreconditionError, match="collective 0"):
        square.plan(scenario(cost, required_bps=21e6))


def test_latency_and_avoidance() -> None:
    # Each hop takes 10 ms: under 15 ms only the direct links are left.
    assert square.plan(scenario(max_latency=0.015)).min_rate_bps == pytest.approx(10e6, rel=1e-5)
    assert square.plan(scenario(), avoid_nodes=["sfo", "syd"]).min_rate_bps == pytest.approx(10e6, rel=1e-5)
    avoided = square.plan(scenario(), avoid_links=[("fra", "sfo")])
    assert avoided.min_rate_bps == pytest.approx(10e6, rel=1e-5)
    loads = {(link.from_node, link.to_node): link.load_bps for link in avoided.links}
    assert loads["fra", "sfo"] == 0
    with pytest.raises(square.errors.FailedPreconditionError, match="collective 0"):
        square.plan(scenario(max_latency=0.001))


def test_headroom_is_what_the_deviations_say() -> None:
    topology = square.Topology.full_mesh(NAMES, capacity_bps=10e6, capacity_stddev_bps=1e6)
    assert {link.capacity_stddev_bps for link in topology.links} == {1e6}
    with pytest.raises(InvalidArgumentError):
        topology.add_link("fra", "sfo", capacity_stddev_bps=math.nan)
    policy = square.Policy("exact", headroom=2)
    plan = square.plan(square.Scenario(topology, policy, collectives=[square.Collective("a", root="fra")]))
    assert plan.min_rate_bps == pytest.approx(16e6, rel=1e-5)
    assert plan.headroom is not None
    assert plan.headroom.deviations == 2
    assert plan.headroom.nominal_min_rate_bps == pytest.approx(20e6, rel=1e-5)


def test_rates_without_streams() -> None:
    plan = square.plan(scenario(), streams=False)
    assert not plan.realised
    assert all(not session.streams for session in plan.sessions)
    assert plan.collectives[0].lp_rate_bps == pytest.approx(20e6, rel=1e-5)
