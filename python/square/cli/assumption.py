"""What a plan assumes of links without a capacity, in words and as JSON."""

from typing import Any

from square._core import Plan
from square.cli import text


def sentences(links: int, capacity_bps: float, *, is_bound_assumed: bool) -> list[str]:
    """Nothing if every link has a capacity."""
    if not links:
        return []
    have, each = ("has", "it") if links == 1 else ("have", "each")
    said = [
        f"{text.count(links, 'link')} {have} no capacity: planned as if {each} carried "
        f"{text.rate(capacity_bps)} Mbit/s."
    ]
    if is_bound_assumed:
        said.append("Bounds that rest on this show no percentage: state the capacities, or measure them.")
    return said


def of_plan(plan: Plan) -> list[str]:
    return sentences(
        plan.assumed_links, plan.assumed_capacity_bps, is_bound_assumed=bool(plan.assumed_bounds)
    )


def to_json(links: int, capacity_bps: float) -> dict[str, Any] | None:
    return {"links": links, "capacity_mbps": capacity_bps / 1e6} if links else None
