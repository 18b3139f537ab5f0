"""From a scenario to a plan, in one call."""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict, Unpack

from square._core import (
    FrontierPoint,
    LevelGap,
    Plan,
    Policy,
    Scenario,
    certified_gaps,
    cost_frontier,
    find_violations,
    make_plan,
    make_quick_plan,
    simulate_plan,
)
from square._core import validate as validate_plan


class PolicyParts(TypedDict, total=False):
    """Parts of a policy by keyword, as ``Policy`` takes them; None stands for what is there."""

    shots: int | None
    paths: str | None
    fairness: str | None
    objective: str | None
    gap: float | None
    deadline: float | timedelta | None
    max_streams: int | None
    coding: str | None
    budget_usd_per_hour: float | None
    headroom: float | None
    avoid_nodes: Sequence[str] | None
    avoid_links: Sequence[tuple[str, str]] | None


def plan(
    scenario: Scenario | str | os.PathLike[str],
    *,
    policy: str | Policy | None = None,
    streams: bool = True,
    timeout: float | timedelta | None = None,
    **parts: Unpack[PolicyParts],
) -> Plan:
    """Plans a scenario, or the scenario file of that name.

    The keywords replace what the scenario's own policy says; ``policy`` is a name
    (``exact``, ``square``, ``max-throughput``, ``shortest-path``, ``mcf``) or a whole
    ``Policy``, and ``paths`` is written as in a scenario, ``"widest:2"``. All from
    ``objective`` to ``avoid_links`` is for ``exact``; docs/scenario.md says what it means.
    ``shots`` and ``paths`` are for the others: where the policy would be ``exact`` because
    nobody names one here, they are refused. ``deadline`` and ``timeout`` are in seconds, or
    timedeltas: at the deadline ``exact`` takes the best plan so far, after the timeout any
    policy gives up. Without ``streams`` the plan has lp rates and their certificate only;
    policies other than ``exact`` make streams anyway. The scenario stays as it is.

    Raises ``NotFoundError`` for a file that is not there, ``InvalidArgumentError`` for one
    that makes no sense, ``FailedPreconditionError`` where no path exists or a required rate
    or a bound on latency cannot be had, ``DeadlineExceededError`` after the timeout. Lets go of
    the interpreter lock while it computes; Ctrl-C ends it.
    """
    return make_plan(with_policy(_read(scenario), policy=policy, **parts), streams, timeout).plan


def simulate(
    scenario: Scenario | str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    seed: int = 1,
    timeout: float | timedelta | None = None,
) -> list[float]:
    """How many seconds each collective of a scenario takes, all begun at once, in virtual time.

    The nodes of the data plane run as they are, with blocks, credit, pacing and acknowledgements, over
    links of the scenario's capacities and latencies, without processes or waiting; every byte that should
    arrive is compared. Processors' time is not simulated. ``plan`` is the scenario's; without it
    its own policy makes one. The same ``seed`` gives the same times.

    Knows broadcasts, reduces and all-reduces, rings too. Raises what ``plan`` does,
    ``UnimplementedError`` for other operations, ``ResourceExhaustedError`` where members' buffers
    would take more than 8 GiB, ``DeadlineExceededError`` after the timeout.
    Lets go of the interpreter lock; Ctrl-C ends it.
    """
    read = _read(scenario)
    return simulate_plan(read, plan if plan is not None else make_plan(read).plan, seed, timeout)


def quick_plan(
    scenario: Scenario | str | os.PathLike[str],
    *,
    policy: str | Policy | None = None,
    **parts: Unpack[PolicyParts],
) -> Plan:
    """A plan that fits, in milliseconds: ``provisional``, over a few trees, with nothing proven.

    Takes and raises what ``plan`` does, and ``FailedPreconditionError`` for the objective
    ``cost``, of which there are no quick plans.
    """
    return make_quick_plan(with_policy(_read(scenario), policy=policy, **parts)).plan


def frontier(
    scenario: Scenario | str | os.PathLike[str],
    points: int = 50,
    timeout: float | timedelta | None = None,
) -> list[FrontierPoint]:
    """What more rate costs: ``points`` plans with levels evenly spaced up to the largest.

    The scenario's policy must be ``exact``. Raises what ``plan`` raises, and
    ``InvalidArgumentError`` for fewer than 2 points. Lets go of the interpreter lock while
    it computes; Ctrl-C ends it.
    """
    return list(cost_frontier(_read(scenario), points, timeout))


def validate(plan: Plan) -> None:
    """Checks a plan with code that the planner does not know.

    Raises ``InvalidArgumentError`` with what is wrong; ``violations`` lists it.
    """
    validate_plan(plan)


def violations(plan: Plan) -> list[str]:
    """Everything that is wrong with a plan, one sentence each; empty if it is sound."""
    return list(find_violations(plan))


def gaps(plan: Plan) -> list[LevelGap]:
    """How far each freezing level of a plan is from what its duals prove.

    Bounds are computed anew from the duals in ``plan.certificate.levels``, by code that the
    planner does not know; empty for a plan without levels. Gaps are relative: ``lp_gap`` of
    what the linear program allows, ``rate_gap`` of what the streams carry.

    Raises ``InvalidArgumentError`` for a level that names what is not in the plan.
    """
    return list(certified_gaps(plan))


def with_policy(
    scenario: Scenario, *, policy: str | Policy | None = None, **parts: Unpack[PolicyParts]
) -> Scenario:
    """A copy of the scenario with another policy, or with parts of it replaced.

    Under the name of another policy than ``exact`` the gap and the deadline of the
    scenario's own go: they say how to solve, not what is wanted. Required rates go where
    ``fair`` takes the place of the objective ``cost``, which they are for.
    """
    base = policy if isinstance(policy, Policy) else scenario.policy
    changed = scenario.copy()
    changed.policy = base.replace(policy if isinstance(policy, str) else None, **parts)
    if base.objective == "cost" and changed.policy.objective == "fair":
        for collective in changed.collectives:
            changed.set_required_rate(collective.id, None)
    return changed


def _read(scenario: Scenario | str | os.PathLike[str]) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else Scenario.read(os.fspath(scenario))
