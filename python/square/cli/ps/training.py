"""How `square top` shows a training: as tables for people, as JSON for programs."""

import dataclasses
from typing import TYPE_CHECKING, Any

from square.cli import text
from square.cli.ps.documents import to_plain
from square.metrics.training import newest_hashes

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from square.ps.status import Status
    from square.watch.training import TrainingView


def rendered(view: "TrainingView") -> "Group":
    from rich.console import Group
    from rich.text import Text

    status = view.status
    if status is None:
        return Group(Text(str(view.error), style="red"))
    parts: list[Text | Table] = [Text(_headline(view, status), style="bold")]
    if status.waits_for:
        parts.append(Text(f"waits for {status.waits_for}", style="red"))
    if status.moves_shards:
        parts.append(Text("parts of the model move to servers that came later"))
    parts += [Text(""), Text("workers", style="bold"), _workers(status)]
    parts += [Text(""), Text("servers", style="bold"), _servers(status)]
    return Group(*parts)


def _headline(view: "TrainingView", status: "Status") -> str:
    speed = "-" if view.tokens_per_second is None else f"{view.tokens_per_second:,.0f}"
    line = (
        f"version {status.version}, {status.tokens:,} tokens, {speed} a second, "
        f"{text.count(status.rounds_skipped, 'round')} skipped"
    )
    if status.chunks:
        line += f", {status.chunks_done:,} of {status.chunks:,} chunks done"
    return line


def _workers(status: "Status") -> "Table":
    table = text.table(
        "worker", "state", "push s", "pull s", "idle", "behind", "norm", "excluded", "skipped", left=2
    )
    for row in status.workers:
        table.add_row(
            row.name,
            _state(row.is_connected),
            text.figure(row.push_seconds),
            text.figure(row.pull_seconds),
            text.percent(row.idle_share),
            str(row.staleness),
            f"{row.norm:.3g}",
            str(row.excluded),
            str(row.skipped),
        )
    return table


def _servers(status: "Status") -> "Table":
    table = text.table("server", "state", "elements", "update s", "snapshot s", "hash", left=2)
    hashes = newest_hashes(status)
    for row in status.servers:
        table.add_row(
            row.name,
            _state(row.is_connected),
            f"{row.elements:,}",
            text.figure(row.update_seconds),
            text.figure(row.snapshot_seconds),
            hashes.get(row.name, "-"),
        )
    return table


def _state(is_connected: bool) -> str:
    return "up" if is_connected else "lost"


def to_document(view: "TrainingView") -> dict[str, Any]:
    """Without the rounds, which `square ps rounds` has; null for what is not known or not finite."""
    status = view.status
    document: dict[str, Any] = {"master": view.master, "reason": None if status else str(view.error)}
    if status is None:
        return document
    hashes = newest_hashes(status)
    document |= {
        "tokens_per_second": view.tokens_per_second,
        **{key: value for key, value in dataclasses.asdict(status).items() if key != "rounds"},
        "workers": [{**dataclasses.asdict(one), "idle_share": one.idle_share} for one in status.workers],
        "servers": [{**dataclasses.asdict(one), "hash": hashes.get(one.name)} for one in status.servers],
    }
    plain: dict[str, Any] = to_plain(document)
    return plain
