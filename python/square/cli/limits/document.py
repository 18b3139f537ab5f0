"""An explanation as JSON. Rates are Mbit/s; what is infinite is null."""

import math
from typing import Any

from square._core import LimitedResource, LimitingCut, LimitProof
from square.cli import assumption
from square.cli.limits import words
from square.cli.limits.explanation import Explanation
from square.cli.limits.sentences import why

FORMAT = "square.explanation/1"


def to_json(explanation: Explanation) -> dict[str, Any]:
    limits, collective = explanation.limits, explanation.collective
    session, level, parts = explanation.session, explanation.level, explanation.parts
    document: dict[str, Any] = {
        "format": FORMAT,
        "policy": explanation.parts.policy,
        "realised": explanation.parts.realised,
        "collective": str(collective.id),
        "tenant": collective.tenant,
        "op": collective.op,
        "weight": collective.weight,
        "rate_mbps": _mbps(collective.rate_bps),
        "lp_rate_mbps": _mbps(collective.lp_rate_bps),
        "bound_mbps": _mbps(limits.bound_bps),
        "bound_is_assumed": parts.is_bound_assumed(collective.id),
        "assumed": assumption.to_json(parts.assumed_links, parts.assumed_capacity_bps),
        "session": None,
        "level": None,
        "why": why(explanation),
        "proven_by_first_cut": explanation.is_proven_by_one_cut,
        "cuts": [_cut(cut, explanation) for cut in limits.cuts],
        "more_cuts": explanation.more_cuts,
        "proof": None if limits.proof is None else _proof(limits.proof),
    }
    if session is not None:
        document["session"] = {
            "id": str(session.id),
            "kind": session.kind,
            "root": session.root,
            "members": session.members,
            "rate_mbps": _mbps(session.rate_bps),
            "lp_rate_mbps": _mbps(session.lp_rate_bps),
        }
    if level is not None and limits.level is not None:
        document["level"] = {
            "number": limits.level + 1,
            "of": len(explanation.parts.levels),
            "bound_mbps": _mbps(level.bound_bps),
            "collectives": [str(number) for number in level.collectives],
        }
    return document


def _cut(cut: LimitingCut, explanation: Explanation) -> dict[str, Any]:
    realised = explanation.parts.realised
    return {
        "far_side": words.far_side(cut, explanation.parts.names),
        "data": "leaves" if cut.is_left else "enters",
        "length": cut.length,
        "sessions": [str(number) for number in cut.sessions],
        "links": [_resource(link, realised) for link in cut.links],
        "limits": [_resource(limit, realised) for limit in cut.node_limits],
        "carried_mbps": _mbps(cut.carried_bps),
        "needs": [
            {
                "collective": str(demand.collective),
                "crossings": demand.crossings,
                "rate_mbps": _mbps(demand.rate_bps),
                "needs_mbps": _mbps(demand.needs_bps),
            }
            for demand in cut.demands
        ],
        "bound_mbps": _mbps(cut.bound_bps),
    }


def _resource(resource: LimitedResource, has_load: bool) -> dict[str, Any]:
    nodes = resource.nodes
    names = {"from": nodes[0], "to": nodes[1]} if resource.kind == "link" else {"node": nodes[0]}
    load = {
        "load_mbps": _mbps(resource.load_bps),
        "sessions": {str(number): _mbps(rate) for number, rate in sorted(resource.loads.items())},
    }
    return {
        "kind": resource.kind,
        **names,
        "capacity_mbps": _mbps(resource.capacity_bps),
        "length": resource.length,
        **(load if has_load else {}),
    }


def _proof(proof: LimitProof) -> dict[str, Any]:
    return {
        "resources": [_resource(resource, has_load=False) for resource in proof.resources],
        "budget": {"length": proof.budget_length, "usd_per_hour": proof.budget_usd_per_hour},
        "collectives": [
            {
                "collective": str(part.collective),
                "length": part.length,
                "weight": part.weight,
                "lp_rate_mbps": _mbps(part.lp_rate_bps),
                "stopped_before": part.is_earlier,
            }
            for part in proof.parts
        ],
        "bound_mbps": _mbps(proof.bound_bps),
    }


def _mbps(rate_bps: float) -> float | None:
    return rate_bps / 1e6 if math.isfinite(rate_bps) else None
