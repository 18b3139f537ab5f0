"""Larger instances whose capacities are perturbed over and over: does every plan stay sound?"""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import square
from exact_comparison import check_sound
from exact_instances import random_group, reachable
from exact_sessions import Group, Instance, Link

PERTURBATIONS = 10  # of one base
DECADES = 6
WAYS = (0.05, 0.3, 1.0)  # standard deviations of the logarithm of a factor
OPERATIONS = ("broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce")
# Sessions times destinations: an all-reduce over all of 16 nodes would be an instance by itself.
MOST_DESTINATIONS = 90


@dataclass(frozen=True)
class Solved:
    number: int
    gap: float
    wrong: str = ""  # what the checker or the planner said


def base_instance(rng: random.Random) -> Instance:
    """8 to 16 nodes, 2 to 8 collectives, capacities evenly over six decades."""
    nodes = tuple(f"n{number}" for number in range(rng.randint(8, 16)))
    density = rng.choice([0.2, 0.3, 0.5, 1.0])
    around = set(zip(nodes, (*nodes[1:], nodes[0]), strict=True))
    links: dict[Link, float] = {}
    for pair in ((tail, head) for tail in nodes for head in nodes if tail != head):
        if pair in around or rng.random() < density:
            links[pair] = 10 ** rng.uniform(4, 4 + DECADES)
    reach = reachable(nodes, links)
    wanted = rng.randint(2, 8)
    groups: list[Group] = []
    left = MOST_DESTINATIONS
    while len(groups) < wanted:
        group = random_group(rng, nodes, reach, ("t0", "t1"))
        if group is None or group.op not in OPERATIONS:
            continue
        size = destinations(group)
        if size > left - (wanted - len(groups) - 1):  # leave one for each that is to come
            smaller = rng.sample(list(nodes), 2)
            group, size = Group("broadcast", tuple(smaller), smaller[0], tenant=group.tenant), 1
        groups.append(group)
        left -= size
    limits = {
        name: 10 ** rng.uniform(6, 4 + DECADES)
        for name in rng.sample(list(nodes), rng.randint(0, len(nodes)))
    }
    ends = ({}, limits) if rng.random() < 0.5 else (limits, {})
    return Instance(nodes, links, tuple(groups), *ends, tenants={"t0": 1.0, "t1": rng.choice([1.0, 2.0])})


def destinations(group: Group) -> int:
    count = len(group.members)
    if group.op in ("broadcast", "reduce", "scatter", "gather"):
        return count - 1
    return count * (count - 1) * (2 if group.op == "all_reduce" else 1)


def perturbed(seed: int, number: int) -> Instance:
    """Instance `number` of the sequence: the same base for PERTURBATIONS of them."""
    base = base_instance(random.Random(f"{seed} {number // PERTURBATIONS}"))
    rng = random.Random(f"{seed} {number} factors")
    deviation = rng.choice(WAYS)
    links = {link: capacity * rng.lognormvariate(0, deviation) for link, capacity in base.links.items()}
    return replace(base, links=links)


def solve(seed: int, number: int) -> Solved:
    """Plans and checks one; what goes wrong is in the answer, with what runs it again."""
    instance = perturbed(seed, number)
    try:
        return Solved(number, check_sound(square.plan(instance.scenario())))
    except (AssertionError, square.SquareError) as error:
        again = f"again: SQUARE_SEED={seed}, instance {number}:\n{instance!r}"
        return Solved(number, float("inf"), f"{type(error).__name__}: {error}\n{again}")


def solve_all(seed: int, count: int, threads: int) -> Iterator[Solved]:
    """On threads, since a planner must not mind others beside it. As they come, in order."""
    chunk = 64 * threads  # bounds what waits
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, count, chunk):
            numbers = range(start, min(start + chunk, count))
            yield from pool.map(lambda number: solve(seed, number), numbers)
