"""Policies as `square run --compare` names them: one with trees alone is another than one that codes."""

from square._core import Scenario
from square.errors import InvalidArgumentError
from square.planning import with_policy

# Behind a policy's name, after a colon.
TREES = "trees"


def with_variant(scenario: Scenario, label: str) -> Scenario:
    """A copy under "exact", or under "exact:trees", which does not code.

    Raises ``InvalidArgumentError`` for another variant, and as ``with_policy`` does.
    """
    name, colon, variant = label.partition(":")
    if colon and variant != TREES:
        raise InvalidArgumentError(f'policy "{label}": what follows the colon can only be "{TREES}"')
    return with_policy(scenario, policy=name, coding="off" if colon else None)
