"""A plan of the policy "exact" against both oracles: used by the tests and by the long command."""

import random
from dataclasses import dataclass, field

import square
from exact_instances import random_instance
from exact_lexicographic import OracleError
from exact_models import lp_rates, tree_rates
from exact_sessions import Instance

TOLERANCE = 1e-6
MOST_GAP = 1e-6
# Solvers keep constraints to about this much of the largest capacity, so rates that are a
# millionth of it or less cannot be told apart to TOLERANCE.
FLOOR = 1e-9
MOST_NODES_FOR_TREES = 6
# A collective whose trees carry less than its program allows by more than this is listed.
SHORTFALL = 1e-5


class DifferenceError(AssertionError):
    """The planner and an oracle disagree, or the plan is not sound. The text makes it again."""


@dataclass
class Outcome:
    """What became of one instance."""

    number: int
    with_trees: bool = False
    shortfalls: list[str] = field(default_factory=list)
    undecided: str = ""  # why an oracle gave no answer
    worst_difference: float = 0.0


def instance_of(seed: int, number: int) -> Instance:
    return random_instance(random.Random(f"{seed} {number}"))


def compare(seed: int, number: int) -> Outcome:
    """Plans instance `number` of the sequence `seed`; raises DifferenceError where it is wrong."""
    instance = instance_of(seed, number)
    outcome = Outcome(number)
    try:
        check(instance, outcome)
    except OracleError as error:
        outcome.undecided = f"instance {number}: {error}"
    except Exception as error:
        raise DifferenceError(
            f"{error}\nagain: SQUARE_SEED={seed}, instance {number}:\n{instance!r}"
        ) from error
    return outcome


def check(instance: Instance, outcome: Outcome) -> None:
    plan = square.plan(instance.scenario())
    check_sound(plan)
    floor = FLOOR * instance.largest()
    allowed = [collective.lp_rate_bps for collective in plan.collectives]
    carried = [collective.rate_bps for collective in plan.collectives]
    outcome.worst_difference = compare_rates("lp_rate", allowed, lp_rates(instance), floor)
    if len(instance.nodes) <= MOST_NODES_FOR_TREES:
        outcome.with_trees = True
        difference = compare_rates("rate", carried, tree_rates(instance), floor)
        outcome.worst_difference = max(outcome.worst_difference, difference)
    for collective, lp_rate, rate in zip(plan.collectives, allowed, carried, strict=True):
        if rate < lp_rate * (1 - SHORTFALL) - floor:
            outcome.shortfalls.append(
                f"instance {outcome.number}, {len(instance.nodes)} nodes, collective {collective.id} "
                f"({collective.op}): rate {rate:.6g} of lp_rate {lp_rate:.6g}, {rate / lp_rate:.4f}"
            )


def check_sound(plan: square.Plan) -> float:
    """Asserts that the validator has nothing against it; the largest gap of a level's lp_rate."""
    wrong = square.violations(plan)
    assert not wrong, f"violations: {wrong}"
    gaps = square.gaps(plan)
    assert gaps or not plan.collectives, "the plan certifies no level"
    worst = max((gap.lp_gap for gap in gaps), default=0.0)
    listed = [(gap.level, gap.bound_bps, gap.lp_gap) for gap in gaps]
    assert worst <= MOST_GAP, f"lp_gap {worst}: {listed}"
    assert all(gap.lp_gap >= -MOST_GAP for gap in gaps), f"a rate is above its bound: {listed}"
    return worst


def compare_rates(what: str, found: list[float], expected: list[float], floor: float) -> float:
    """The largest relative difference; asserts that all are within the tolerance."""
    worst = 0.0
    assert len(found) == len(expected)
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        away = max(abs(mine - theirs) - floor, 0.0)
        assert away <= TOLERANCE * abs(theirs), (
            f"{what} of collective {number}: {mine:.12g}, the oracle has {theirs:.12g} "
            f"({mine / theirs - 1 if theirs else mine:+.3g}); {what}s {found}, oracle {expected}"
        )
        worst = max(worst, away / abs(theirs) if theirs else 0.0)
    return worst
