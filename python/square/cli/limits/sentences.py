"""Why a collective, or one of its sessions, has no higher rate, in sentences."""

import math

from square._core import LimitingCut
from square.cli.limits import words
from square.cli.limits.explanation import MAX_LISTED_CHARACTERS, Explanation
from square.run.outcome import ratio

# Rates that differ by less are the same; as plans are checked.
TOLERANCE = 1e-6


def why(explanation: Explanation) -> list[str]:
    limits = explanation.limits
    if limits.reason == "idle":
        return [f"Collective {limits.collective} sends nothing: it has one member."]
    said = _why_others(explanation)
    if explanation.is_about_cost:
        return [*said, *_why_cost(explanation)]
    if not limits.cuts:
        return [*said, f"The plan proves no bound for collective {limits.collective}."]
    return [*said, *_why_cut(explanation), *_why_less(explanation)]


def _why_others(explanation: Explanation) -> list[str]:
    limits = explanation.limits
    numbers = limits.keeps_pace_with
    if not numbers:
        return []
    others = words.shortened(words.ids(numbers), MAX_LISTED_CHARACTERS)
    others = f"session {others}" if len(numbers) == 1 else f"sessions {others}"
    return [
        f"Session {limits.session} is held back by nothing of its own: it keeps pace with the others of "
        f"collective {limits.collective}. The cuts are those of {others}."
    ]


def _why_cost(explanation: Explanation) -> list[str]:
    parts = explanation.parts
    return [
        f"Collective {explanation.limits.collective} has the rate that is required; nothing else limits it. "
        f"The plan seeks the least cost: {parts.plan.cost_usd_per_hour:.4f} USD an hour for all collectives, "
        f"and no plan with these rates costs less than {parts.cost_bound_usd_per_hour:.4f}. The cuts say "
        "where that comes from: every bit crosses each of them, for no less than its price."
    ]


def _why_cut(explanation: Explanation) -> list[str]:
    if not explanation.is_proven_by_one_cut:
        return [
            "No cut proves the bound alone; all cuts of the level together do: the sum below is the proof."
        ]
    limits = explanation.limits
    first = limits.cuts[0]
    own = sum(demand.crossings for demand in first.demands if demand.collective == limits.collective)
    others = sum(demand.needs_bps for demand in first.demands if demand.collective != limits.collective)
    said = [
        f"({_mbps(first.carried_bps)} - {_mbps(others)}) / {own:.6g} = {_mbps(first.bound_bps)} Mbit/s is "
        f"all that cut 1 leaves to collective {limits.collective} while the others keep their rates."
    ]
    return said + _why_not_from_others(explanation, first)


def _why_not_from_others(explanation: Explanation, cut: LimitingCut) -> list[str]:
    collectives = explanation.parts.collectives
    others = [demand for demand in cut.demands if demand.collective != explanation.limits.collective]
    if not others:
        return ["Nobody else needs it."]
    level = explanation.limits.rate_bps / explanation.collective.weight
    most = max(demand.rate_bps / collectives[demand.collective].weight for demand in others)
    if most > level * (1.0 + TOLERANCE):
        return []
    return [
        "None of the others has more per unit of weight: more for this one would be less for one that "
        "has no more than it."
    ]


def _why_less(explanation: Explanation) -> list[str]:
    """Where the bound is not reached."""
    limits = explanation.limits
    reached = ratio(limits.rate_bps, limits.bound_bps)
    if math.isnan(reached) or reached >= 1.0 - TOLERANCE:
        return []
    part = f"It has {_mbps(limits.rate_bps)}, {100 * reached:.2f}% of its bound."
    if explanation.parts.is_bound_assumed(limits.collective):
        part = f"It has {_mbps(limits.rate_bps)}, less than its bound, which rests on assumed capacities."
    if limits.level is None:
        policy = explanation.parts.policy
        return [f"{part} The rest is out of reach of policy {policy}, by the paths that it may use."]
    return [f"{part} The linear program allows {_mbps(explanation.collective.lp_rate_bps)}."]


def _mbps(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.3f}"
