"""Tables of a page."""

from collections.abc import Sequence
from dataclasses import dataclass

from square.page.words import escaped, percent

# More nobody reads, and browsers take long over.
MAX_ROWS = 500


@dataclass(frozen=True)
class Cell:
    """Text, and beside it what the pictures show: a line's colour, counted from 0, or a share as a bar."""

    text: str
    colour: int | None = None
    share: float | None = None


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell | str]], left: int = 1) -> str:
    """The first ``left`` columns hold words, the others figures. At most MAX_ROWS rows, and it says so."""
    if not rows:
        return f'<p class="title">{escaped(title)}</p><p class="none">None.</p>'
    head = "".join(
        f'<th scope="col"{_side(at, left)}>{escaped(name)}</th>' for at, name in enumerate(columns)
    )
    body = "\n".join(
        f"<tr>{''.join(_cell(cell, _side(at, left)) for at, cell in enumerate(row))}</tr>"
        for row in rows[:MAX_ROWS]
    )
    rest = len(rows) - MAX_ROWS
    note = f'<p class="note">And {rest} more.</p>' if rest > 0 else ""
    return (
        f'<div class="wide"><table><caption>{escaped(title)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


def _side(at: int, left: int) -> str:
    return ' class="word"' if at < left else ""


def _cell(cell: Cell | str, side: str) -> str:
    if isinstance(cell, str):
        return f"<td{side}>{escaped(cell)}</td>"
    before = "" if cell.colour is None else f'<i class="swatch c{cell.colour + 1}"></i>'
    if cell.share is not None:
        before = f'<i class="bar"><i style="width:{percent(min(max(cell.share, 0.0), 1.0))}"></i></i>'
    return f"<td{side}>{before}{escaped(cell.text)}</td>"
