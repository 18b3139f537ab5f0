"""How `square top` shows a view: as tables for people, as JSON for programs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from square.cli import text

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from square.watch.rates import View

Row = dict[str, Any]

FORMAT = "square.top/1"


def rendered(view: "View", by: str | None) -> "Group":
    from rich.console import Group
    from rich.text import Text

    parts: list[Text | Table] = [Text(_headline(view), style="bold")]
    parts += [
        Text(f"{node['address']} does not answer: {node['reason']}", style="red")
        for node in view.nodes
        if node["reason"] is not None
    ]
    for name, table in TABLES.items():
        if by in (None, name):
            parts += [Text(""), Text(f"{name}s, Mbit/s", style="bold"), table(view)]
    return Group(*parts)


def _headline(view: "View") -> str:
    answering = [node for node in view.nodes if node["reason"] is None]
    epochs = sorted({node["epoch"] for node in answering if node["epoch"] is not None})
    plans = "no plan yet" if not epochs else "plan " + ", ".join(map(str, epochs))
    return f"{text.count(len(answering), 'node')}, {plans}"


def _links(view: "View") -> "Table":
    table = text.table(
        "from", "to", "state", "rate", "wire", "planned", "capacity", "used", "queue", "resent", "RTT ms",
        left=3,
    )  # fmt: skip
    idle = 0
    for row in view.links:
        if not row["planned_bps"] and not row["bytes"]:
            idle += 1
            continue
        table.add_row(
            row["from"],
            row["to"],
            _state(row),
            text.rate(row["rate_bps"]),
            text.rate(row["wire_bps"]),
            text.rate(row["planned_bps"]),
            "no limit" if row["capacity_bps"] is None else text.rate(row["capacity_bps"]),
            _percent(row["utilisation"]),
            _queue(row),
            _whole(row["blocks_resent"]),
            _milliseconds(row["round_trip_seconds"]),
        )
    if idle:
        table.caption = f"and {text.count(idle, 'link')} that carried nothing"
        table.caption_justify = "left"
    return table


def _sessions(view: "View") -> "Table":
    table = text.table(
        "node", "tenant", "session", "kind", "sent", "planned", "received", "planned", "delivered", "of plan",
        "queue", "resent", left=4,
    )  # fmt: skip
    for row in view.sessions:
        table.add_row(
            row["node"],
            row["tenant"],
            f"{row['collective']}/{row['session']}",
            row["kind"],
            text.rate(row["sent_bps"]),
            text.rate(row["planned_sent_bps"]),
            text.rate(row["received_bps"]),
            text.rate(row["planned_received_bps"]),
            text.rate(row["delivered_bps"]),
            _percent(row["of_plan"]),
            _queue(row),
            _whole(row["blocks_resent"]),
        )
    return table


def _tenants(view: "View") -> "Table":
    table = text.table(
        "tenant", "plan", "sent", "planned", "received", "planned", "delivered", "of plan", "in transit MB",
        "held MB",
    )  # fmt: skip
    for row in view.tenants:
        table.add_row(
            row["tenant"],
            text.rate(row["planned_bps"]),
            text.rate(row["sent_bps"]),
            text.rate(row["planned_sent_bps"]),
            text.rate(row["received_bps"]),
            text.rate(row["planned_received_bps"]),
            text.rate(row["delivered_bps"]),
            _percent(row["of_plan"]),
            _megabytes(row["bytes_in_transit"]),
            _megabytes(row["bytes_held"]),
        )
    return table


TABLES: "dict[str, Callable[[View], Table]]" = {"link": _links, "session": _sessions, "tenant": _tenants}


def _state(link: Row) -> str:
    if not link["is_up"]:
        return "down"
    return "up" if link["channels"] == 1 else f"up x{link['channels']}"


def _percent(part: float | None) -> str:
    return "-" if part is None else text.percent(part)


def _queue(row: Row) -> str:
    if row["queue_blocks"] is None:
        return "-"
    waiting = f" ({_megabytes(row['queue_bytes'])} MB)" if row["queue_bytes"] else ""
    return f"{row['queue_blocks']}{waiting}"


def _whole(number: int | None) -> str:
    return "-" if number is None else str(number)


def _megabytes(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / 1e6:.2f}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"


def to_document(view: "View", by: str | None, interval_seconds: float) -> dict[str, Any]:
    """Rates in Mbit/s; null for what has no limit or is not known."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "interval_seconds": interval_seconds,
        "nodes": view.nodes,
    }
    for name, rows in (("link", view.links), ("session", view.sessions), ("tenant", view.tenants)):
        if by in (None, name):
            document[f"{name}s"] = [_in_mbps(row) for row in rows]
    return document


def _in_mbps(row: Row) -> Row:
    converted = {}
    for key, value in row.items():
        if key.endswith("_bps"):
            converted[key.removesuffix("_bps") + "_mbps"] = None if value is None else value / 1e6
        else:
            converted[key] = value
    return converted
