"""Nodes and links as they are now: for the picture of the overlay, and as a table."""

import re
from typing import TYPE_CHECKING, Any

from square.page.overlay import Flow, Site
from square.page.tables import Cell, table
from square.page.words import count, figure, mbps, percent

if TYPE_CHECKING:
    from square.watch.rates import View

Row = dict[str, Any]

_COLUMNS = ("from", "to", "state", "rate", "wire", "planned", "capacity", "used", "queue", "resent", "RTT ms")


def sites_of(view: "View") -> list[Site]:
    """By name, so that each stays where it is while others come and go."""
    asked = {node["node"]: node for node in view.nodes if node["reason"] is None}
    told = {end for row in view.links for end in (row["from"], row["to"])}
    return [_site(name, asked.get(name)) for name in sorted({*asked, *told}, key=_in_order)]


def _in_order(name: str) -> list[tuple[int, str]]:
    """Site 2 before site 10."""
    words = re.split(r"([0-9]{1,9})", name)
    return [(int(word), "") if at % 2 else (0, word) for at, word in enumerate(words)]


def _site(name: str, node: Row | None) -> Site:
    if node is None:
        return Site(name, "its neighbours tell of it", is_asked=False)
    plan = "no plan yet" if node["epoch"] is None else f"plan {node['epoch']}"
    return Site(name, f"at {node['address']}, {plan}")


def flow_of(row: Row) -> Flow:
    used = row["utilisation"]
    if used is None and row["capacity_bps"] is None and row["planned_bps"] and row["rate_bps"] is not None:
        used = row["rate_bps"] / row["planned_bps"]
    round_trip = row["round_trip_seconds"]
    return Flow(
        row["from"],
        row["to"],
        row["rate_bps"],
        row["planned_bps"],
        row["capacity_bps"],
        used,
        bool(row["is_up"]),
        "" if round_trip is None else f"round trip {figure(1e3 * round_trip)} ms",
    )


def table_of(rows: list[Row]) -> str:
    """Of links that have something to carry, or had."""
    busy = [row for row in rows if row["planned_bps"] or row["bytes"]]
    shown = table("Links, Mbit/s", _COLUMNS, [_cells(row) for row in busy], left=3)
    idle = len(rows) - len(busy)
    note = f'<p class="note">And {count(idle, "link")} that carried nothing.</p>' if idle else ""
    return shown + note


def _cells(row: Row) -> list[Cell | str]:
    up = "up" if row["channels"] == 1 else f"up x{row['channels']}"
    round_trip = row["round_trip_seconds"]
    return [
        row["from"],
        row["to"],
        up if row["is_up"] else "down",
        mbps(row["rate_bps"]),
        mbps(row["wire_bps"]),
        mbps(row["planned_bps"]),
        "no limit" if row["capacity_bps"] is None else mbps(row["capacity_bps"]),
        Cell(percent(row["utilisation"]), share=row["utilisation"]),
        "-" if row["queue_blocks"] is None else f"{row['queue_blocks']:,}",
        "-" if row["blocks_resent"] is None else f"{row['blocks_resent']:,}",
        "-" if round_trip is None else f"{1e3 * round_trip:.2f}",
    ]
