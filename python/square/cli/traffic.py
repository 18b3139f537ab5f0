"""How `square top` shows a view: as tables for people, as JSON for programs."""

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from square.cli import text

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from square.watch.rates import View

Row = dict[str, Any]

FORMAT = "square.top/1"


# Names are cut to these widths, so that every table fits into 100 columns.
MAX_NAME = 14
MAX_SESSION_NAME = 12
MAX_HELD_BY = 34
# Digits of an id that are always shown.
LEAST_DIGITS = 4
# Without --by: sessions are many, and seldom what is looked for.
SHOWN = ("collective", "link", "tenant")


def rendered(view: "View", by: str | None) -> "Group":
    from rich.console import Group
    from rich.text import Text

    parts: list[Text | Table] = [Text(_headline(view), style="bold")]
    parts += [
        Text(f"{node['address']} does not answer: {node['reason']}", style="red")
        for node in view.nodes
        if node["reason"] is not None
    ]
    for name in SHOWN if by is None else (by,):
        parts += [Text(""), Text(f"{name}s, Mbit/s", style="bold"), TABLES[name](view)]
    return Group(*parts)


def _headline(view: "View") -> str:
    answering = [node for node in view.nodes if node["reason"] is None]
    epochs = sorted({node["epoch"] for node in answering if node["epoch"] is not None})
    plans = "no plan yet" if not epochs else "plan " + ", ".join(map(str, epochs))
    return f"{text.count(len(answering), 'node')}, {plans}"


def _table(*columns: str, left: int) -> "Table":
    """No cell is wrapped: what is too long for one is cut before it is added."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    return table


def _collectives(view: "View") -> "Table":
    from square.watch.collectives import collectives_of

    rows = collectives_of(view)
    short = short_ids([row["collective"] for row in rows])
    table = _table("tenant", "id", "kind", "held by", "sessions", "planned", "measured", "of plan", left=4)
    for row in rows:
        table.add_row(
            _cut(row["tenant"]),
            short[row["collective"]],
            "+".join(row["kinds"]),
            _cut(row["held_by"], MAX_HELD_BY),
            str(row["sessions"]),
            _rate(row["planned_bps"]),
            _rate(row["measured_bps"]),
            _percent(row["of_plan"]),
        )
    return table


def _links(view: "View") -> "Table":
    table = _table(
        "from", "to", "state", "rate", "planned", "capacity", "used", "queue", "resent", "RTT ms", left=3
    )
    idle = 0
    for row in view.links:
        if not row["planned_bps"] and not row["bytes"]:
            idle += 1
            continue
        table.add_row(
            _cut(row["from"]),
            _cut(row["to"]),
            _state(row),
            _rate(row["rate_bps"]),
            _rate(row["planned_bps"]),
            "no limit" if row["capacity_bps"] is None else _rate(row["capacity_bps"]),
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
    collectives = short_ids([row["collective"] for row in view.sessions])
    sessions = short_ids([row["session"] for row in view.sessions])
    table = _table(
        "node", "tenant", "of", "session", "kind", "sent", "received", "planned", "of plan", "queue", left=5
    )
    for row in view.sessions:
        table.add_row(
            _cut(row["node"], MAX_SESSION_NAME),
            _cut(row["tenant"], MAX_SESSION_NAME),
            collectives[row["collective"]],
            sessions[row["session"]],
            row["kind"],
            _rate(row["sent_bps"]),
            _rate(row["received_bps"]),
            _rate(row["planned_received_bps"] or row["planned_sent_bps"]),
            _percent(row["of_plan"]),
            _queue(row),
        )
    return table


def _tenants(view: "View") -> "Table":
    table = _table(
        "tenant", "plan", "sent", "planned", "received", "planned", "delivered", "of plan", "in transit MB",
        "held MB", left=1,
    )  # fmt: skip
    for row in view.tenants:
        table.add_row(
            _cut(row["tenant"]),
            _rate(row["planned_bps"]),
            _rate(row["sent_bps"]),
            _rate(row["planned_sent_bps"]),
            _rate(row["received_bps"]),
            _rate(row["planned_received_bps"]),
            _rate(row["delivered_bps"]),
            _percent(row["of_plan"]),
            _megabytes(row["bytes_in_transit"]),
            _megabytes(row["bytes_held"]),
        )
    return table


TABLES: "dict[str, Callable[[View], Table]]" = {
    "collective": _collectives,
    "link": _links,
    "session": _sessions,
    "tenant": _tenants,
}


def short_ids(numbers: Iterable[int]) -> dict[int, str]:
    """The last digits of each number: as many as tell them apart."""
    whole = {number: str(number) for number in numbers}
    longest = max(map(len, whole.values()), default=0)
    for digits in range(LEAST_DIGITS, longest):
        short = {number: written[-digits:] for number, written in whole.items()}
        if len(set(short.values())) == len(short):
            return {number: last if last == whole[number] else f"..{last}" for number, last in short.items()}
    return whole


def _cut(name: str, limit: int = MAX_NAME) -> str:
    """A long name keeps its beginning and its end, which often tells it from others."""
    if len(name) <= limit:
        return name
    end = (limit - 2) // 2
    return f"{name[: limit - 2 - end]}..{name[-end:]}"


def _rate(rate_bps: float | None) -> str:
    """In Mbit/s, four digits."""
    if rate_bps is None or math.isnan(rate_bps):
        return "-"
    if math.isinf(rate_bps):
        return "no limit"
    mbps = rate_bps / 1e6
    return f"{mbps:.{0 if mbps >= 1000 else 1 if mbps >= 100 else 2 if mbps >= 10 else 3}f}"


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
    from square.watch.collectives import collectives_of

    for name, rows in (
        ("collective", collectives_of(view)),
        ("link", view.links),
        ("session", view.sessions),
        ("tenant", view.tenants),
    ):
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
