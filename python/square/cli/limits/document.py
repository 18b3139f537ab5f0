"""An explanation as JSON. Rates are Mbit/s; what is infinite is null."""

import math
from typing import Any

from square.cli.limits.cuts import Crossing, Resource
from square.cli.limits.explanation import Explanation
from square.cli.limits.proof import Proof

FORMAT = "square.explanation/1"


def to_json(explanation: Explanation) -> dict[str, Any]:
    network = explanation.network
    collective = explanation.collective
    document: dict[str, Any] = {
        "format": FORMAT,
        "policy": network.policy,
        "realised": network.realised,
        "collective": str(collective.id),
        "tenant": collective.tenant,
        "op": collective.op,
        "weight": collective.weight,
        "rate_mbps": _mbps(collective.rate_bps),
        "lp_rate_mbps": _mbps(collective.lp_rate_bps),
        "bound_mbps": _mbps(explanation.bound_bps),
        "session": None,
        "level": None,
        "why": list(explanation.why),
        "proven_by_first_cut": explanation.is_proven_by_one_cut,
        "cuts": [_cut(crossing, explanation) for crossing in explanation.crossings],
        "more_cuts": explanation.more_cuts,
        "proof": None if explanation.proof is None else _proof(explanation.proof),
    }
    if explanation.session is not None:
        session = network.sessions[explanation.session]
        document["session"] = {
            "id": str(session.id),
            "kind": session.kind,
            "root": session.root,
            "members": session.members,
            "rate_mbps": _mbps(session.rate_bps),
            "lp_rate_mbps": _mbps(session.lp_rate_bps),
        }
    if explanation.level is not None:
        level = network.levels[explanation.level]
        document["level"] = {
            "number": explanation.level + 1,
            "of": len(network.levels),
            "bound_mbps": _mbps(level.bound_bps),
            "collectives": [str(number) for number in level.collectives],
        }
    return document


def _cut(crossing: Crossing, explanation: Explanation) -> dict[str, Any]:
    network = explanation.network
    cut = crossing.cut
    far_side = [name for name in network.names if (name in cut.into) != cut.is_left]
    return {
        "far_side": far_side,
        "data": "leaves" if cut.is_left else "enters",
        "length": cut.length,
        "sessions": [str(number) for number in cut.sessions],
        "links": [_resource(link, network.realised) for link in crossing.links],
        "limits": [_resource(limit, network.realised) for limit in crossing.limits],
        "carried_mbps": _mbps(crossing.carried_bps),
        "needs": [
            {
                "collective": str(demand.collective),
                "crossings": demand.crossings,
                "rate_mbps": _mbps(demand.rate_bps),
                "needs_mbps": _mbps(demand.needs_bps),
            }
            for demand in crossing.demands
        ],
        "bound_mbps": _mbps(crossing.bound_bps(explanation.collective.id)),
    }


def _resource(resource: Resource, has_load: bool) -> dict[str, Any]:
    names = (
        {"from": resource.nodes[0], "to": resource.nodes[1]}
        if resource.kind == "link"
        else {"node": resource.nodes[0]}
    )
    load = {
        "load_mbps": _mbps(resource.load_bps),
        "sessions": {str(number): _mbps(rate) for number, rate in sorted(resource.by_session.items())},
    }
    return {
        "kind": resource.kind,
        **names,
        "capacity_mbps": _mbps(resource.capacity_bps),
        "length": resource.length,
        **(load if has_load else {}),
    }


def _proof(proof: Proof) -> dict[str, Any]:
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
