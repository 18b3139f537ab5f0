"""Why a collective, or one of its sessions, has no higher rate."""

import math
from dataclasses import dataclass, replace

from square._core import Plan, PlanCollective
from square.cli.limits import cuts, proof, words
from square.cli.limits.duals import Duals
from square.cli.limits.network import Network
from square.errors import NotFoundError
from square.run.outcome import ratio

MAX_CUTS = 3
MAX_LISTED_CHARACTERS = 400
# Rates that differ by less are the same; as plans are checked.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Explanation:
    network: Network
    collective: PlanCollective
    session: int | None  # None: of the whole collective
    level: int | None  # position; None for a policy without levels
    crossings: tuple[cuts.Crossing, ...]  # the heaviest cuts
    more_cuts: int
    weight: float  # the lengths of all cuts
    proof: proof.Proof | None
    why: tuple[str, ...]  # sentences

    @property
    def rate_bps(self) -> float:
        """Of the collective."""
        return self.network.rate_bps(self.collective)

    @property
    def bound_bps(self) -> float:
        """Of the collective, while the others keep their rates."""
        return self.collective.bound_bps if self.proof is None else self.proof.bound_of(self.collective.id)

    @property
    def is_proven_by_one_cut(self) -> bool:
        return bool(self.crossings) and self.is_proven_by(self.crossings[0])

    def is_proven_by(self, crossing: cuts.Crossing) -> bool:
        """Does this cut alone prove the bound?"""
        if self.network.is_about_cost() or not math.isfinite(self.bound_bps):
            return False
        return crossing.bound_bps(self.collective.id) <= self.bound_bps * (1.0 + TOLERANCE)


def explain(plan: Plan, what: str) -> Explanation:
    """``what`` is the id of a session, or ``collective:`` and the id of a collective.

    Raises ``NotFoundError`` that lists the ids.
    """
    network = Network(plan)
    collective, session = _find(network, what)
    level = network.level_of.get(collective.id)
    if network.is_about_cost() and network.levels:
        level = 0
    found, donors = _cuts_of(network, collective, session, level)
    duals = Duals() if level is None else network.levels[level]
    crossings = tuple(cuts.crossing(network, cut, duals) for cut in found[:MAX_CUTS])
    draft = Explanation(
        network,
        collective,
        session,
        level,
        crossings,
        max(len(found) - MAX_CUTS, 0),
        sum(cut.length for cut in found),
        None if level is None or network.is_about_cost() else proof.prove(network, level),
        (),
    )
    return replace(draft, why=tuple(_why(draft, donors)))


def _find(network: Network, what: str) -> tuple[PlanCollective, int | None]:
    kind, _, number = what.rpartition(":")
    if kind not in ("", "session", "collective") or not number.isdecimal():
        raise NotFoundError(f"nothing to explain is called {what!r}; {_ids(network)}")
    wanted = int(number)
    if kind == "collective":
        if wanted not in network.collectives:
            raise NotFoundError(f"the plan has no collective {wanted}; {_ids(network)}")
        return network.collectives[wanted], None
    if wanted not in network.sessions:
        raise NotFoundError(f"the plan has no session {wanted}; {_ids(network)}")
    return network.collectives[network.sessions[wanted].collective], wanted


def _ids(network: Network) -> str:
    sessions = words.shortened(words.ids(network.sessions), MAX_LISTED_CHARACTERS)
    collectives = words.shortened(words.ids(network.collectives), MAX_LISTED_CHARACTERS)
    return f"sessions: {sessions or 'none'}; collectives, as collective:N: {collectives or 'none'}"


def _cuts_of(
    network: Network, collective: PlanCollective, session: int | None, level: int | None
) -> tuple[list[cuts.Cut], tuple[int, ...]]:
    """The heaviest first; and the other sessions of the collective that have them instead."""
    if level is None:
        return cuts.certified_cuts(network, collective.id), ()
    asked = collective.sessions if session is None else [session]
    found = cuts.packed_cuts(network, network.levels[level], asked)
    if found or session is None:
        return found, ()
    found = cuts.packed_cuts(network, network.levels[level], collective.sessions)
    return found, tuple(sorted({number for cut in found for number in cut.sessions}))


def _why(draft: Explanation, donors: tuple[int, ...]) -> list[str]:
    collective = draft.collective
    if not collective.sessions:
        return [f"Collective {collective.id} sends nothing: it has one member."]
    if donors:
        others = words.shortened(words.ids(donors), MAX_LISTED_CHARACTERS)
        others = f"session {others}" if len(donors) == 1 else f"sessions {others}"
        said = [
            f"Session {draft.session} is held back by nothing of its own: it keeps pace with the others of "
            f"collective {collective.id}. The cuts are those of {others}."
        ]
    else:
        said = []
    if draft.network.is_about_cost():
        return [*said, *_why_cost(draft)]
    if not draft.crossings:
        return [*said, f"The plan proves no bound for collective {collective.id}."]
    return [*said, *_why_cut(draft), *_why_less(draft)]


def _why_cost(draft: Explanation) -> list[str]:
    network = draft.network
    bound = network.cost_bound_usd_per_hour
    return [
        f"Collective {draft.collective.id} has the rate that is required; nothing else limits it. The plan "
        f"seeks the least cost: {network.cost_usd_per_hour:.4f} USD an hour for all collectives, and no plan "
        f"with these rates costs less than {bound:.4f}. The cuts say where that comes from: every bit "
        "crosses each of them, for no less than its price."
    ]


def _why_cut(draft: Explanation) -> list[str]:
    collective = draft.collective
    first = draft.crossings[0]
    if not draft.is_proven_by_one_cut:
        return [
            "No cut proves the bound alone; all cuts of the level together do: the sum below is the proof."
        ]
    own = sum(demand.crossings for demand in first.demands if demand.collective == collective.id)
    said = [
        f"({_mbps(first.carried_bps)} - {_mbps(first.others_bps(collective.id))}) / {own:.6g} = "
        f"{_mbps(first.bound_bps(collective.id))} Mbit/s is all that cut 1 leaves to collective "
        f"{collective.id} while the others keep their rates."
    ]
    level = draft.rate_bps / collective.weight
    others = [demand for demand in first.demands if demand.collective != collective.id]
    weight = {demand.collective: draft.network.collectives[demand.collective].weight for demand in others}
    if not others:
        return [*said, "Nobody else needs it."]
    above = [d for d in others if d.rate_bps / weight[d.collective] > level * (1.0 + TOLERANCE)]
    if not above:
        said.append(
            "None of the others has more per unit of weight: more for this one would be less for one that "
            "has no more than it."
        )
    return said


def _why_less(draft: Explanation) -> list[str]:
    """Where the bound is not reached."""
    collective = draft.collective
    reached = ratio(draft.rate_bps, draft.bound_bps)
    if math.isnan(reached) or reached >= 1.0 - TOLERANCE:
        return []
    part = f"It has {_mbps(draft.rate_bps)}, {100 * reached:.2f}% of its bound."
    if draft.level is None:
        return [
            f"{part} The rest is out of reach of policy {draft.network.policy}, by the paths that it may use."
        ]
    return [f"{part} The linear program allows {_mbps(collective.lp_rate_bps)}."]


def _mbps(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.3f}"
