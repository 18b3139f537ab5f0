"""What each collective gets of its plan right now, and what holds it back.

Nodes tell of sessions and links; a collective's row is made of the rows of its sessions. Rates are bits per
second of payload, None where they are not known yet.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from square.watch.rates import View

Row = dict[str, Any]

# A link that carries this part of what it can is full.
FULL = 0.9
# A collective that gets this part of its plan has what was planned.
AS_PLANNED = 0.95


def collectives_of(view: View) -> list[Row]:
    """One row for each collective, by tenant and number."""
    by_collective: dict[tuple[str, int], list[Row]] = {}
    for session in view.sessions:
        by_collective.setdefault((session["tenant"], session["collective"]), []).append(session)
    return [
        _collective(view, tenant, number, by_collective[tenant, number])
        for tenant, number in sorted(by_collective)
    ]


def _collective(view: View, tenant: str, number: int, rows: list[Row]) -> Row:
    sessions: dict[int, list[Row]] = {}
    for row in rows:
        sessions.setdefault(row["session"], []).append(row)
    kinds = sorted({row["kind"] for row in rows})
    # A sum and the multicast of its result carry the same bytes: they count once.
    counted = [of for of in sessions.values() if len(kinds) == 1 or of[0]["kind"] != "reduce"]
    planned = _sum(max((row["planned_bps"] or 0.0) for row in of) for of in counted)
    measured = _sum(_measured(of) for of in counted)
    of_plan = measured / planned if measured is not None and planned else None
    nodes = {row["node"] for row in rows}
    return {
        "tenant": tenant,
        "collective": number,
        "kinds": kinds,
        "sessions": len(sessions),
        "planned_bps": planned,
        "measured_bps": measured,
        "of_plan": of_plan,
        "held_by": _held_by(view, nodes, rows, measured, of_plan),
    }


def _measured(rows: Sequence[Row]) -> float | None:
    """Of one session: what arrives at the slowest member that gets it, else what its source sends."""
    arriving = [row["delivered_bps"] for row in rows if row["bytes_delivered"]]
    if arriving:
        return None if None in arriving else min(arriving)
    sending = [row for row in rows if row["planned_sent_bps"]]
    if not sending or any(row["sent_bps"] is None for row in sending):
        return None
    most: float = max(row["sent_bps"] * row["planned_bps"] / row["planned_sent_bps"] for row in sending)
    return most


def _held_by(
    view: View, nodes: set[str], rows: Sequence[Row], measured: float | None, of_plan: float | None
) -> str:
    if measured is None:
        return "-"
    links = [link for link in view.links if link["planned_bps"] and {link["from"], link["to"]} <= nodes]
    down = [link for link in links if not link["is_up"]]
    if down:
        return f"link {_ends(down[0])} is down"
    waiting = [row for row in rows if row["queue_blocks"]]
    if measured == 0 and not waiting:
        return "no call is under way"
    if of_plan is not None and of_plan >= AS_PLANNED:
        return "the plan"
    full = [link for link in links if (link["utilisation"] or 0.0) >= FULL]
    if full:
        fullest = max(full, key=lambda link: link["utilisation"])
        return f"link {_ends(fullest)} is full"
    if waiting:
        longest = max(waiting, key=lambda row: row["queue_bytes"] or 0)
        return f"the queue at {longest['node']}"
    return "its source sends no more"


def _ends(link: Row) -> str:
    return f"{link['from']} -> {link['to']}"


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)
