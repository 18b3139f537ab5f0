"""Moments in a picture over time: vertical lines with labels above."""

import math
from collections.abc import Callable, Sequence

from square.page import scale
from square.page.words import clipped, columns_of, escaped, number

MAX_MARKS = 40
MAX_ROWS = 3
MAX_COLUMNS = 22
LETTER = 7.0  # about the width of one
ROW_HEIGHT = 15.0

Mark = tuple[float, str]


def rows_of(marks: Sequence[Mark], x: Callable[[float], float], right: float) -> list[int | None]:
    """In which row each label stands; None where the others leave no room for it."""
    ends = [-math.inf] * MAX_ROWS
    rows: list[int | None] = [None] * len(marks)
    for index in sorted(range(len(marks)), key=lambda index: marks[index][0]):
        at, label = marks[index]
        end = x(at) + LETTER * columns_of(clipped(label, MAX_COLUMNS)) + 8
        row = next((row for row in range(MAX_ROWS) if ends[row] <= x(at)), None)
        if row is not None and end <= right:
            ends[row] = end
            rows[index] = row
    return rows


def height_of(rows: Sequence[int | None]) -> float:
    return ROW_HEIGHT * max((row + 1 for row in rows if row is not None), default=0)


def drawn(
    marks: Sequence[Mark],
    rows: Sequence[int | None],
    x: Callable[[float], float],
    top: float,
    bottom: float,
    last: float,
) -> list[str]:
    """``top``: where the first row begins; below them the plot ends at ``bottom``."""
    parts = []
    for (at, label), row in zip(marks, rows, strict=True):
        tip = f"<title>{escaped(label)}: {scale.time_label(round(at, 1), last)}</title>"
        begin = top + (height_of(rows) if row is None else ROW_HEIGHT * row)
        line = f'<path class="mark" d="M{number(x(at))} {number(begin)}V{number(bottom)}"/>'
        text = ""
        if row is not None:
            shown = escaped(clipped(label, MAX_COLUMNS))
            text = f'<text class="soft" x="{number(x(at) + 4)}" y="{number(begin + 10)}">{shown}</text>'
        parts.append(f"<g>{tip}{line}{text}</g>")
    return parts
