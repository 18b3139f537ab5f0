"""What is explained: the limits of a session or of a collective, beside the plan's own parts."""

from dataclasses import dataclass

from square._core import Limits, Plan, PlanCollective, PlanLevel, PlanSession, limits
from square.cli.limits import words
from square.cli.parts import Parts
from square.errors import NotFoundError

MAX_LISTED_CHARACTERS = 400


@dataclass(frozen=True)
class Explanation:
    parts: Parts
    limits: Limits

    @property
    def collective(self) -> PlanCollective:
        return self.parts.collectives[self.limits.collective]

    @property
    def session(self) -> PlanSession | None:
        return None if self.limits.session is None else self.parts.sessions[self.limits.session]

    @property
    def level(self) -> PlanLevel | None:
        return None if self.limits.level is None else self.parts.levels[self.limits.level]

    @property
    def more_cuts(self) -> int:
        return self.limits.cut_count - len(self.limits.cuts)

    @property
    def is_about_cost(self) -> bool:
        return self.limits.reason == "required"

    @property
    def is_proven_by_one_cut(self) -> bool:
        return any(cut.is_proof for cut in self.limits.cuts[:1])


def explain(plan: Plan, what: str) -> Explanation:
    """``what`` is the id of a session, or ``collective:`` and the id of a collective.

    Raises ``NotFoundError`` that lists the ids.
    """
    parts = Parts(plan)
    kind, _, number = what.rpartition(":")
    if kind not in ("", "session", "collective") or not number.isdecimal():
        raise NotFoundError(f"nothing to explain is called {what!r}; {_ids(parts)}")
    wanted = int(number)
    if kind == "collective":
        if wanted not in parts.collectives:
            raise NotFoundError(f"the plan has no collective {wanted}; {_ids(parts)}")
        return Explanation(parts, limits(plan, collective=wanted))
    if wanted not in parts.sessions:
        raise NotFoundError(f"the plan has no session {wanted}; {_ids(parts)}")
    return Explanation(parts, limits(plan, wanted))


def _ids(parts: Parts) -> str:
    sessions = words.shortened(words.ids(parts.sessions), MAX_LISTED_CHARACTERS)
    collectives = words.shortened(words.ids(parts.collectives), MAX_LISTED_CHARACTERS)
    return f"sessions: {sessions or 'none'}; collectives, as collective:N: {collectives or 'none'}"
