"""The policy "exact" on networks whose optimum is known by hand."""

import pytest
import square
from exact_comparison import check_sound
from exact_networks import both_ways, butterfly, combination_network, detour
from exact_sessions import Group, Instance


def planned(instance: Instance, coding: str = "off") -> square.Plan:
    plan = square.plan(instance.scenario(coding=coding))
    check_sound(plan)
    return plan


def rates(plan: square.Plan) -> tuple[list[float], list[float]]:
    """lp_rate and rate, by collective, in Mbit/s."""
    return (
        [collective.lp_rate_bps / 1e6 for collective in plan.collectives],
        [collective.rate_bps / 1e6 for collective in plan.collectives],
    )


def test_the_butterfly_needs_coding() -> None:
    plan = planned(butterfly())
    allowed, carried = rates(plan)
    assert allowed == pytest.approx([2.0], rel=1e-6)
    assert carried == pytest.approx([1.5], rel=1e-6)


def test_the_butterfly_is_coded() -> None:
    plan = planned(butterfly(), "exact")
    assert rates(plan) == (pytest.approx([2.0], rel=1e-6),) * 2
    (session,) = plan.sessions
    (code,) = session.codes
    assert (code.field, code.blocks, code.rate_bps) == ("gf256", 2, pytest.approx(2e6))
    assert {sink.member for sink in code.sinks} == {"t", "u"}
    (merge,) = [stream for stream in session.streams if stream.adds]
    assert (merge.origin, merge.row, {factor for _, factor in merge.adds}) == ("c", [1, 1], {1})
    assert all(stream.coded and stream.rate_bps == pytest.approx(1e6) for stream in session.streams)


@pytest.mark.parametrize(("middles", "each"), [(3, 2), (4, 2), (4, 3)])
def test_combination_networks(middles: int, each: int) -> None:
    network = combination_network(middles, each)
    allowed, carried = rates(planned(network))
    assert allowed == pytest.approx([each], rel=1e-6)
    assert carried == pytest.approx([middles / (middles - each + 1)], rel=1e-6)
    plan = planned(network, "exact")
    assert rates(plan) == (pytest.approx([each], rel=1e-6),) * 2
    streams = plan.sessions[0].streams
    assert sum(1 for stream in streams if sum(1 for factor in stream.row if factor) > 1) == middles - each


def test_the_triangle() -> None:
    links = both_ways({("a", "b"): 10e6, ("b", "c"): 10e6, ("a", "c"): 10e6})
    names = ("a", "b", "c")
    # Of the all-reduce: all capacity over 2 (n - 1).
    for group, expected in ((Group("broadcast", names, "a"), 20.0), (Group("all_reduce", names), 15.0)):
        for found in rates(planned(Instance(names, links, (group,)))):
            assert found == pytest.approx([expected], rel=1e-6), group.op


@pytest.mark.parametrize(
    ("op", "egress", "ingress", "expected"),
    [
        ("broadcast", {"hub": 15e6}, {}, 5.0),
        ("broadcast", {}, {"b": 4e6}, 4.0),
        ("reduce", {}, {"hub": 15e6}, 5.0),
        ("reduce", {"b": 4e6}, {}, 4.0),
        # One slot of the four travels to each leaf: 10 Mbit/s of it is 40 of the whole.
        ("scatter", {}, {}, 40.0),
        ("scatter", {"hub": 15e6}, {}, 20.0),
        ("gather", {}, {"hub": 15e6}, 20.0),
    ],
)
def test_a_star_with_node_limits(
    op: str, egress: dict[str, float], ingress: dict[str, float], expected: float
) -> None:
    leaves = ("a", "b", "c")
    links = both_ways({("hub", leaf): 10e6 for leaf in leaves})
    nodes = ("hub", *leaves)
    allowed, carried = rates(planned(Instance(nodes, links, (Group(op, nodes, "hub"),), egress, ingress)))
    assert allowed == pytest.approx([expected], rel=1e-6)
    assert carried == pytest.approx([expected], rel=1e-6)


def test_frozen_rates_leave_their_routes_free() -> None:
    plan = planned(detour())
    assert rates(plan)[1] == pytest.approx([5.0, 8.0], rel=1e-6)
    assert [list(level.collectives) for level in plan.certificate.levels] == [[0], [1]]


@pytest.mark.parametrize(
    ("op", "members", "ends"),
    [
        ("broadcast", ("a", "b", "lost"), ("a", "lost")),
        ("reduce", ("a", "b", "lost"), ("lost", "a")),
        ("all_gather", ("a", "lost"), ("a", "lost")),
    ],
)
def test_a_destination_out_of_reach_is_named(
    op: str, members: tuple[str, ...], ends: tuple[str, str]
) -> None:
    links = both_ways({("a", "b"): 10e6})
    root = "a" if op in ("broadcast", "reduce") else None
    instance = Instance(("a", "b", "lost"), links, (Group(op, members, root),))
    with pytest.raises(square.errors.FailedPreconditionError) as raised:
        square.plan(instance.scenario())
    assert all(end in str(raised.value) for end in ends), str(raised.value)
