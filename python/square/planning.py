"""From a scenario to a plan, in one call."""

import os

from square._core import Plan, Policy, Scenario, find_violations, make_plan
from square._core import validate as validate_plan


def plan(
    scenario: Scenario | str | os.PathLike[str],
    *,
    policy: str | Policy | None = None,
    shots: int | None = None,
    paths: str | None = None,
    fairness: str | None = None,
) -> Plan:
    """Plans a scenario, or the scenario file of that name.

    The keywords replace what the scenario's own policy says; ``policy`` is a name
    (``square``, ``max-throughput``, ``shortest-path``, ``mcf``) or a whole ``Policy``, and
    ``paths`` is written as in a scenario, ``"widest:2"``. The scenario stays as it is.

    Raises ``NotFoundError`` for a file that is not there, ``InvalidArgumentError`` for one
    that makes no sense, ``FailedPreconditionError`` where no path exists. Lets go of the
    interpreter lock while it computes.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.read(os.fspath(scenario))
    changed = with_policy(scenario, policy=policy, shots=shots, paths=paths, fairness=fairness)
    return make_plan(changed).plan


def validate(plan: Plan) -> None:
    """Checks a plan with code that the planner does not know.

    Raises ``InvalidArgumentError`` with what is wrong; ``violations`` lists it.
    """
    validate_plan(plan)


def violations(plan: Plan) -> list[str]:
    """Everything that is wrong with a plan, one sentence each; empty if it is sound."""
    return list(find_violations(plan))


def with_policy(
    scenario: Scenario,
    *,
    policy: str | Policy | None = None,
    shots: int | None = None,
    paths: str | None = None,
    fairness: str | None = None,
) -> Scenario:
    """A copy of the scenario with another policy, or with parts of it replaced."""
    base = policy if isinstance(policy, Policy) else scenario.policy
    changed = scenario.copy()
    changed.policy = Policy(
        name=policy if isinstance(policy, str) else base.name,
        shots=base.shots if shots is None else shots,
        paths=base.paths if paths is None else paths,
        fairness=base.fairness if fairness is None else fairness,
    )
    return changed
