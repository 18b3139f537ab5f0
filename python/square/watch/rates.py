"""From two snapshots of each node to what moves now, by link, session and tenant.

Rates are bits per second of payload unless their name says wire; None where nobody knows: the first
time that a node answers, or after it was started again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from square.metrics.reading import Snapshot
from square.watch.scraping import Answer

Row = dict[str, Any]

# What grows, and the rate that is made of it.
_LINK_RATES = {"bytes": "rate_bps", "wire_bytes": "wire_bps"}
_TRAFFIC_RATES = {
    "bytes_sent": "sent_bps",
    "bytes_received": "received_bps",
    "bytes_delivered": "delivered_bps",
}
_SUMMED = (
    "planned_sent_bps",
    "planned_received_bps",
    "blocks_resent",
    "bytes_in_transit",
    "bytes_held",
    *_TRAFFIC_RATES,
    *_TRAFFIC_RATES.values(),
)


@dataclass(frozen=True)
class View:
    """What all nodes together say at one time."""

    nodes: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    sessions: list[Row] = field(default_factory=list)
    tenants: list[Row] = field(default_factory=list)


class Rates:
    """Remembers the last snapshot of each address."""

    def __init__(self) -> None:
        self._last: dict[str, Answer] = {}

    def view(self, answers: Sequence[Answer]) -> View:
        links: dict[tuple[str, str], Row] = {}
        sessions: list[Row] = []
        tenants: dict[str, list[Row]] = {}
        nodes: list[Row] = []
        for answer in answers:
            nodes.append(_node(answer))
            now = answer.snapshot
            if now is None:
                continue
            before = self._last.get(answer.address)
            self._last[answer.address] = answer
            elapsed = answer.at_seconds - before.at_seconds if before else 0.0
            old = before.snapshot if before else None
            for link in _with_rates(now, old, "links", ("peer", "direction"), _LINK_RATES, elapsed):
                _add_link(links, now["node"], link)
            sessions += [
                {"node": now["node"], **session, "of_plan": _of_plan(session)}
                for session in _with_rates(now, old, "sessions", ("session",), _TRAFFIC_RATES, elapsed)
            ]
            for tenant in _with_rates(now, old, "tenants", ("tenant",), _TRAFFIC_RATES, elapsed):
                tenants.setdefault(tenant["tenant"], []).append(tenant)
        return View(
            nodes=nodes,
            links=sorted(
                links.values(), key=lambda row: (-(row["planned_bps"] or 0), row["from"], row["to"])
            ),
            sessions=sorted(sessions, key=lambda row: (row["tenant"], row["session"], row["node"])),
            tenants=[_over_nodes(name, tenants[name]) for name in sorted(tenants)],
        )


def _node(answer: Answer) -> Row:
    now = answer.snapshot
    if now is None:
        return {"address": answer.address, "node": None, "epoch": None, "reason": answer.reason}
    return {"address": answer.address, "node": now["node"], "epoch": now["epoch"], "reason": None}


def _with_rates(
    now: Snapshot,
    before: Snapshot | None,
    kind: str,
    key: tuple[str, ...],
    rates: dict[str, str],
    elapsed: float,
) -> Iterable[Row]:
    if before is None or before["node"] != now["node"] or elapsed <= 0:
        before = {kind: []}
    old_rows = {tuple(row[name] for name in key): row for row in before[kind]}
    for row in now[kind]:
        old = old_rows.get(tuple(row[name] for name in key))
        yield {**row, **{rate: _rate(row[name], old and old[name], elapsed) for name, rate in rates.items()}}


def _rate(now: float | None, before: float | None, elapsed: float) -> float | None:
    if now is None or before is None or now < before:
        return None
    return (now - before) * 8 / elapsed


def _add_link(links: dict[tuple[str, str], Row], node: str, link: Row) -> None:
    """A link has two ends; the sending one knows more."""
    ends = (node, link["peer"]) if link["direction"] == "out" else (link["peer"], node)
    if ends in links and link["direction"] == "in":
        return
    row = {name: value for name, value in link.items() if name not in ("peer", "direction")}
    limit = link["capacity_bps"] or link["pace_bps"]
    wire = link["wire_bps"]
    used = wire / limit if wire is not None and limit else None
    links[ends] = {"from": ends[0], "to": ends[1], **row, "utilisation": used, "seen_from": node}


def _of_plan(row: Row) -> float | None:
    """Measured over planned: of what arrives here, or at a source of what leaves."""
    for planned, measured in (("planned_received_bps", "received_bps"), ("planned_sent_bps", "sent_bps")):
        if row[planned] and row[measured] is not None:
            of_plan: float = row[measured] / row[planned]
            return of_plan
    return None


def _over_nodes(name: str, rows: list[Row]) -> Row:
    total: Row = {"tenant": name, "planned_bps": max(row["planned_bps"] or 0.0 for row in rows)}
    for key in _SUMMED:
        figures = [row[key] for row in rows if row[key] is not None]
        total[key] = sum(figures) if figures else None
    return {**total, "of_plan": _of_plan(total)}
