"""Codes of a plan in words: what is added where, and what each destination solves."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from square._core import PlanCode, PlanSession, PlanStream
from square.cli import text

if TYPE_CHECKING:
    from rich.console import Console

# Rows of one table; --json of the plan has all.
MAX_ROWS = 40


def block_name(block: int) -> str:
    """ "a", "b", ... "z", "b26", ..."""
    return chr(ord("a") + block) if block < 26 else f"b{block}"


def sum_in_words(row: Sequence[float]) -> str:
    """ "3a + 2b", with the factors of the code's field."""
    terms = [
        f"{'' if factor == 1 else f'{factor:g}'}{block_name(block)}"
        for block, factor in enumerate(row)
        if factor
    ]
    return " + ".join(terms)


def note(stream: PlanStream) -> str:
    """What a coded stream carries, behind its rate."""
    if not stream.coded:
        return ""
    return f", carries {sum_in_words(stream.row)} of code {stream.code}"


def print_codes(session: PlanSession, console: "Console") -> None:
    """Where streams of the session are added, with which factors, and what comes to each destination."""
    for number, code in enumerate(session.codes):
        console.print(
            f"Code {number}: generations of {code.blocks} blocks over {code.field}, "
            f"{text.rate(code.rate_bps)} of the session's {text.rate(session.rate_bps)} Mbit/s",
            style="bold",
        )
        merges = list(_merges(session, number))
        table = text.table("node", "adds", "sends", "to", left=4)
        for stream in merges[:MAX_ROWS]:
            table.add_row(stream.origin, _terms(session, stream), sum_in_words(stream.row), _heads(stream))
        console.print(table if merges else "Nothing is added between the root and the destinations.")
        if len(merges) > MAX_ROWS:
            console.print(f"... and {len(merges) - MAX_ROWS} more; --json of the plan has them")
        _print_sinks(session, code, console)
        console.print()


def _merges(session: PlanSession, code: int) -> Iterator[PlanStream]:
    """Streams that begin as a sum: in the network, or at the root itself."""
    for stream in session.streams:
        if stream.code == code and (stream.adds or sum(1 for factor in stream.row if factor) > 1):
            yield stream


def _terms(session: PlanSession, stream: PlanStream) -> str:
    if not stream.adds:
        return "its own blocks"
    parts = []
    for index, factor in stream.adds:
        parts.append(f"{'' if factor == 1 else f'{factor:g} x '}({sum_in_words(session.streams[index].row)})")
    return " + ".join(parts)


def _heads(stream: PlanStream) -> str:
    return ", ".join(head for tail, head in stream.links if tail == stream.origin)


def _print_sinks(session: PlanSession, code: PlanCode, console: "Console") -> None:
    table = text.table("destination", "gets", left=2)
    for sink in code.sinks[:MAX_ROWS]:
        table.add_row(
            sink.member, ", ".join(sum_in_words(session.streams[index].row) for index in sink.streams)
        )
    console.print(table)
    if len(code.sinks) > MAX_ROWS:
        console.print(f"... and {len(code.sinks) - MAX_ROWS} more destinations")
