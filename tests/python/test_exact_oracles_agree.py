"""The oracles of the policy "exact" against one another, and against known results.

No planner here: an oracle that is wrong would pass a planner that is wrong with it.
"""

import random
from itertools import combinations

import pytest
from exact_instances import random_instance
from exact_lexicographic import Goal, Program, lexicographic
from exact_models import arc_model, lp_rates, steiner_trees, tree_model, tree_rates
from exact_networks import both_ways, butterfly, combination_network, detour
from exact_sessions import Group, Instance, Session
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

INSTANCES = 60


def min_cut(instance: Instance, source: str, sinks: tuple[str, ...]) -> float:
    """Whole bit/s: the least of the maximum flows to the sinks."""
    number = {name: index for index, name in enumerate(instance.nodes)}
    tails = [number[tail] for tail, _ in instance.links]
    heads = [number[head] for _, head in instance.links]
    capacity = csr_array(
        ([int(c) for c in instance.links.values()], (tails, heads)),
        shape=(len(number), len(number)),
        dtype="int32",
    )
    return float(min(maximum_flow(capacity, number[source], number[sink]).flow_value for sink in sinks))


def cut_rates(instance: Instance) -> list[float]:
    """Broadcasts to all nodes, no limits: every set of nodes is a constraint (Edmonds, Frank)."""
    program = Program()
    scale = instance.largest()
    weights = instance.weights()
    program.add_columns(len(weights))
    for size in range(1, len(instance.nodes)):
        for chosen in combinations(instance.nodes, size):
            entering = sum(c for (t, h), c in instance.links.items() if t not in chosen and h in chosen)
            outside = [n for n, group in enumerate(instance.groups) if group.root not in chosen]
            program.at_most.add([(n, 1.0) for n in outside], entering / scale)
    program.equal.add([(0, 0.0)], 0.0)
    goals = [Goal(number, weight / max(weights)) for number, weight in enumerate(weights)]
    return [rate * scale for rate in lexicographic(program, goals)]


@pytest.mark.parametrize("number", range(INSTANCES))
def test_arcs_hold_what_trees_carry(number: int, seed: int) -> None:
    """Trees are a restriction: their ordered levels are nowhere lexicographically larger."""
    instance = random_instance(random.Random(f"{seed} {number}"), (3, 4, 5))
    weights = instance.weights()
    arcs = sorted(rate / weight for rate, weight in zip(lp_rates(instance), weights, strict=True))
    trees = sorted(rate / weight for rate, weight in zip(tree_rates(instance), weights, strict=True))
    for arc, tree in zip(arcs, trees, strict=True):
        if arc > tree * (1 + 1e-6):
            return
        assert arc == pytest.approx(tree, rel=1e-6), repr(instance)


@pytest.mark.parametrize("number", range(INSTANCES))
def test_levels_without_freezing(number: int, seed: int) -> None:
    instance = random_instance(random.Random(f"{seed} {number}"), (3, 4, 5))
    weights = instance.weights()
    for model in (arc_model(instance), tree_model(instance)):
        levels = sorted(rate / weight for rate, weight in zip(model.rates(), weights, strict=True))
        floor = 1e-8 * instance.largest() / min(weights)
        assert model.ascending_levels() == pytest.approx(levels, rel=1e-6, abs=floor), repr(instance)


@pytest.mark.parametrize("number", range(INSTANCES))
def test_broadcasts_to_all_against_every_cut(number: int, seed: int) -> None:
    rng = random.Random(f"{seed} {number}")
    base = random_instance(rng, (3, 4, 5, 6))
    nodes = base.nodes
    links = dict.fromkeys(zip(nodes, (*nodes[1:], nodes[0]), strict=True), 1e6) | base.links
    groups = [
        Group("broadcast", nodes, rng.choice(nodes), weight=rng.choice([1.0, 2.0]))
        for _ in range(rng.randint(1, 4))
    ]
    instance = Instance(nodes, links, tuple(groups))
    expected = cut_rates(instance)
    assert lp_rates(instance) == pytest.approx(expected, rel=1e-6), repr(instance)
    assert tree_rates(instance) == pytest.approx(expected, rel=1e-6), repr(instance)


@pytest.mark.parametrize("number", range(INSTANCES))
def test_one_multicast_reaches_its_least_cut(number: int, seed: int) -> None:
    rng = random.Random(f"{seed} {number}")
    base = random_instance(rng)
    links = {link: float(round(capacity)) for link, capacity in base.links.items()}
    group = Group("broadcast", base.groups[0].members, base.groups[0].members[0])
    alone = Instance(base.nodes, links, (group,))
    assert group.root is not None
    others = tuple(name for name in group.members if name != group.root)
    assert lp_rates(alone) == pytest.approx([min_cut(alone, group.root, others)], rel=1e-6, abs=0.1)


@pytest.mark.parametrize("number", range(INSTANCES))
def test_turning_every_link_turns_a_broadcast_into_a_reduce(number: int, seed: int) -> None:
    rng = random.Random(f"{seed} {number}")
    base = random_instance(rng)
    root = base.groups[0].members[0]
    there = Instance(
        base.nodes, base.links, (Group("broadcast", base.groups[0].members, root),), base.egress, base.ingress
    )
    back = Instance(
        base.nodes,
        {(head, tail): capacity for (tail, head), capacity in base.links.items()},
        (Group("reduce", base.groups[0].members, root),),
        base.ingress,
        base.egress,
    )
    assert lp_rates(there) == pytest.approx(lp_rates(back), rel=1e-6, abs=0.1)
    if len(base.nodes) <= 6:
        assert tree_rates(there) == pytest.approx(tree_rates(back), rel=1e-6, abs=0.1)


def test_trees_are_counted() -> None:
    """Cayley: n^(n-2) spanning trees of a full mesh from one root; paths for one destination."""
    for count, spanning in ((3, 3), (4, 16), (5, 125), (6, 1296)):
        names = tuple(f"n{number}" for number in range(count))
        links = {(tail, head): 1.0 for tail in names for head in names if tail != head}
        mesh = Instance(names, links, ())
        assert len(list(steiner_trees(mesh, Session(0, "n0", names[1:])))) == spanning
    # Of six nodes: 1 path with no relay, 4 with one, 12, 24 and 24 with more.
    for reduce in (False, True):
        assert len(list(steiner_trees(mesh, Session(0, "n0", ("n1",), reduce=reduce)))) == 65


def test_the_butterfly_needs_coding() -> None:
    instance = butterfly()
    assert lp_rates(instance) == pytest.approx([2e6])
    assert tree_rates(instance) == pytest.approx([1.5e6])


@pytest.mark.parametrize(("middles", "each"), [(3, 2), (4, 2), (4, 3)])
def test_combination_networks(middles: int, each: int) -> None:
    """A sink has `each` links into it. Trees: every sink sees middles that carry the message."""
    instance = combination_network(middles, each)
    assert lp_rates(instance) == pytest.approx([each * 1e6])
    # A tree reaches every sink only by n - h + 1 of the middles, and each middle is used once.
    assert tree_rates(instance) == pytest.approx([middles / (middles - each + 1) * 1e6])


def test_the_triangle() -> None:
    links = both_ways({("a", "b"): 10e6, ("b", "c"): 10e6, ("a", "c"): 10e6})
    broadcast = Instance(("a", "b", "c"), links, (Group("broadcast", ("a", "b", "c"), "a"),))
    assert lp_rates(broadcast) == tree_rates(broadcast) == pytest.approx([20e6])
    # All capacity over 2 (n - 1): the bound of an all-reduce.
    summed = Instance(("a", "b", "c"), links, (Group("all_reduce", ("a", "b", "c")),))
    assert lp_rates(summed) == pytest.approx([15e6])
    assert tree_rates(summed) == pytest.approx([15e6])


def test_a_star_with_node_limits() -> None:
    """The hub copies: a limit of its egress counts each copy."""
    leaves = ("a", "b", "c")
    links = both_ways({("hub", leaf): 10e6 for leaf in leaves})
    nodes = ("hub", *leaves)
    group = Group("broadcast", nodes, "hub")
    assert lp_rates(Instance(nodes, links, (group,), {"hub": 15e6})) == pytest.approx([5e6])
    assert lp_rates(Instance(nodes, links, (group,), {}, {"b": 4e6})) == pytest.approx([4e6])
    gathered = Group("reduce", nodes, "hub")
    assert lp_rates(Instance(nodes, links, (gathered,), {}, {"hub": 15e6})) == pytest.approx([5e6])


def test_frozen_rates_leave_their_routes_free() -> None:
    assert lp_rates(detour()) == pytest.approx([5e6, 8e6])
    assert tree_rates(detour()) == pytest.approx([5e6, 8e6])
