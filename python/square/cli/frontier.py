"""The frontier between rate and cost, for `square plan --frontier`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from square._core import FrontierPoint
from square.cli import text

if TYPE_CHECKING:
    from rich.console import Console

FORMAT = "square.frontier/1"


def to_json(points: Sequence[FrontierPoint], name: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "scenario": name,
        "points": [
            {
                "level_mbps": point.level_bps / 1e6,
                "cost_usd_per_hour": point.cost_usd_per_hour,
                "cost_bound_usd_per_hour": point.cost_bound_usd_per_hour,
            }
            for point in points
        ],
    }


def print_frontier(points: Sequence[FrontierPoint], name: str, console: "Console") -> None:
    table = text.table("level\nMbit/s", "cost\nUSD/h", "bound\nUSD/h", "above\nbound", left=0)
    for point in points:
        bound = point.cost_bound_usd_per_hour
        # Rounding may bring a cost a few digits under its bound.
        above = f"{100 * max(point.cost_usd_per_hour / bound - 1, 0.0):.2f}%" if bound > 0 else "-"
        table.add_row(
            text.rate(point.level_bps), text.figure(point.cost_usd_per_hour, 4), text.figure(bound, 4), above
        )
    console.print(
        f"scenario {name}: what rate costs. The level is what every collective has for a weight of 1."
    )
    console.print()
    console.print(table)
