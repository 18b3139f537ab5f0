"""From a scenario to a plan, in one call."""

import os
from collections.abc import Sequence
from datetime import timedelta

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
)
from square._core import validate as validate_plan


def plan(
    scenario: Scenario | str | os.PathLike[str],
    *,
    policy: str | Policy | None = None,
    shots: int | None = None,
    paths: str | None = None,
    fairness: str | None = None,
    objective: str | None = None,
    gap: float | None = None,
    deadline: float | timedelta | None = None,
    max_streams: int | None = None,
    budget_usd_per_hour: float | None = None,
    headroom: float | None = None,
    avoid_nodes: Sequence[str] | None = None,
    avoid_links: Sequence[tuple[str, str]] | None = None,
    streams: bool = True,
) -> Plan:
    """Plans a scenario, or the scenario file of that name.

    The keywords replace what the scenario's own policy says; ``policy`` is a name
    (``square``, ``exact``, ``max-throughput``, ``shortest-path``, ``mcf``) or a whole
    ``Policy``, and ``paths`` is written as in a scenario, ``"widest:2"``. All from
    ``objective`` to ``avoid_links`` is for ``exact``; docs/scenario.md says what it means.
    ``deadline`` is in seconds, or a timedelta. Without ``streams`` the plan has lp rates and
    their certificate only; policies other than ``exact`` make streams anyway. The scenario
    stays as it is.

    Raises ``NotFoundError`` for a file that is not there, ``InvalidArgumentError`` for one
    that makes no sense, ``FailedPreconditionError`` where no path exists or a required rate
    or a bound on latency cannot be had. Lets go of the interpreter lock while it computes.
    """
    changed = with_policy(
        _read(scenario),
        policy=policy,
        shots=shots,
        paths=paths,
        fairness=fairness,
        objective=objective,
        gap=gap,
        deadline=deadline,
        max_streams=max_streams,
        budget_usd_per_hour=budget_usd_per_hour,
        headroom=headroom,
        avoid_nodes=avoid_nodes,
        avoid_links=avoid_links,
    )
    return make_plan(changed, streams=streams).plan


def frontier(scenario: Scenario | str | os.PathLike[str], points: int = 50) -> list[FrontierPoint]:
    """What more rate costs: ``points`` plans with levels evenly spaced up to the largest.

    The scenario's policy must be ``exact``. Raises what ``plan`` raises, and
    ``InvalidArgumentError`` for fewer than 2 points. Lets go of the interpreter lock while
    it computes.
    """
    return list(cost_frontier(_read(scenario), points))


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
    scenario: Scenario,
    *,
    policy: str | Policy | None = None,
    shots: int | None = None,
    paths: str | None = None,
    fairness: str | None = None,
    objective: str | None = None,
    gap: float | None = None,
    deadline: float | timedelta | None = None,
    max_streams: int | None = None,
    budget_usd_per_hour: float | None = None,
    headroom: float | None = None,
    avoid_nodes: Sequence[str] | None = None,
    avoid_links: Sequence[tuple[str, str]] | None = None,
) -> Scenario:
    """A copy of the scenario with another policy, or with parts of it replaced.

    Under the name of another policy than ``exact`` the gap and the deadline of the
    scenario's own go: they say how to solve, not what is wanted. Required rates go where
    ``fair`` takes the place of the objective ``cost``, which they are for.
    """
    base = policy if isinstance(policy, Policy) else scenario.policy
    name = policy if isinstance(policy, str) else base.name
    solver = base if name in (base.name, "exact") else Policy(name)
    changed = scenario.copy()
    changed.policy = Policy(
        name=name,
        shots=base.shots if shots is None else shots,
        paths=base.paths if paths is None else paths,
        fairness=base.fairness if fairness is None else fairness,
        objective=base.objective if objective is None else objective,
        gap=solver.gap if gap is None else gap,
        deadline=solver.deadline if deadline is None else deadline,
        max_streams=base.max_streams if max_streams is None else max_streams,
        budget_usd_per_hour=base.budget_usd_per_hour if budget_usd_per_hour is None else budget_usd_per_hour,
        headroom=base.headroom if headroom is None else headroom,
        avoid_nodes=base.avoid_nodes if avoid_nodes is None else avoid_nodes,
        avoid_links=base.avoid_links if avoid_links is None else avoid_links,
    )
    if base.objective == "cost" and changed.policy.objective == "fair":
        for collective in changed.collectives:
            changed.set_required_rate(collective.id, None)
    return changed


def _read(scenario: Scenario | str | os.PathLike[str]) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else Scenario.read(os.fspath(scenario))
