"""`square doctor --operations`: what the ranks of each group have called, and which one is behind."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from square.cli import documents, text
from square.page.words import clipped, printable

if TYPE_CHECKING:
    from rich.console import Console

    from square.doctor.operations import Group, Operation

# Calls that are shown of a group: some that were well, and those that are not.
CALLS_BEFORE = 2
CALLS_SHOWN = 8
# Of what is waited for; --json has all of it.
TEXT_COLUMNS = 160


def report(paths: list[Path], *, as_json: bool) -> int:
    """Prints it; returns the exit code."""
    from square.doctor.operations import collect, merge

    groups = merge(collect(paths))
    is_well = not any(group.explanations for group in groups)
    if as_json:
        document = {
            "format": "square.operations/1",
            "healthy": is_well,
            "groups": [group.to_document() for group in groups],
        }
        print(documents.to_text(document))
    else:
        console = text.console_for()
        for group in groups:
            _print(console, group)
    return 0 if is_well else 1


def _print(console: "Console", group: "Group") -> None:
    size = text.count(len(group.nodes), "rank")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(group.written))
    title = f"group {group.name}, {size}, {text.count(len(group.records), 'record')} until {when}"
    console.print(printable(title), style="bold")
    for line in group.explanations or ["the calls of all ranks agree"]:
        console.print(printable(f"  {line}"), soft_wrap=True)
    table = text.table("call", "operation", "ranks", "state", left=4)
    for column in ("called", "first byte", "last byte", "over"):
        table.add_column(column, justify="right")
    table.add_column("waits for, or outcome", overflow="fold")
    for call in _shown(group):
        by_rank = group.calls[call]
        begun = min(one.called for one in by_rank.values())
        alike: dict[tuple[str, str, str], list[int]] = {}
        for rank, one in by_rank.items():
            alike.setdefault((_what(one), one.state, one.waits_for or one.outcome), []).append(rank)
        for ranks in alike.values():
            table.add_row(str(call), *_cells(ranks, [by_rank[rank] for rank in ranks], begun))
        late = [rank for rank, last in group.last_called.items() if last < call]
        if late:
            table.add_row(str(call), "", ", ".join(map(str, late)), "not called")
    if table.row_count:
        console.print(table)
    console.print()


def _shown(group: "Group") -> list[int]:
    calls = list(group.calls)
    members = len(group.nodes)
    unfinished = (
        place
        for place, call in enumerate(calls)
        if len(group.calls[call]) < members
        or any(one.state != "completed" for one in group.calls[call].values())
    )
    # Without one, the last calls.
    first = max(0, next(unfinished, len(calls) - CALLS_SHOWN + CALLS_BEFORE) - CALLS_BEFORE)
    return calls[first : first + CALLS_SHOWN]


def _what(one: "Operation") -> str:
    return printable(one.name) + (f" {text.size(one.size_bytes)}" if one.size_bytes else "")


def _cells(ranks: list[int], alike: list["Operation"], begun: float) -> list[str]:
    """One row for ranks that did the same: times are those of the last of them."""
    one = alike[0]
    times = [
        [operation.called for operation in alike],
        [operation.first_byte for operation in alike if operation.first_byte is not None],
        [operation.last_byte for operation in alike if operation.last_byte is not None],
        [operation.completed for operation in alike if operation.completed is not None],
    ]
    return [
        _what(one),
        ", ".join(map(str, ranks)),
        one.state,
        *(f"+{max(0.0, max(some) - begun):.3f} s" if some else "-" for some in times),
        clipped(one.waits_for or one.outcome.removeprefix("OK"), TEXT_COLUMNS),
    ]
