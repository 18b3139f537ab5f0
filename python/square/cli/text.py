"""How figures and tables look, in every command."""

import math
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Where output does not go to a terminal, lines need not fit one.
FILE_WIDTH = 120


def console_for(out: TextIO | None = None) -> "Console":
    from rich.console import Console

    out = sys.stdout if out is None else out
    return Console(
        file=out, width=None if out.isatty() else FILE_WIDTH, highlight=False, emoji=False, markup=False
    )


def table(*columns: str, left: int = 1) -> "Table":
    """An empty table whose first ``left`` columns hold words and whose others hold figures."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < left else "right", overflow="fold")
    return made


def print_titled(console: "Console", title: str, content: "Table") -> None:
    console.print(title, style="bold")
    console.print(content)
    console.print()


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def rate(rate_bps: float | None) -> str:
    """In Mbit/s; a dash where there is none, the word where there is no limit."""
    if rate_bps is None or math.isnan(rate_bps):
        return "-"
    return "no limit" if math.isinf(rate_bps) else f"{rate_bps / 1e6:.3f}"


def seconds(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "never" if math.isinf(value) else "-"


def figure(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def percent(value: float) -> str:
    return f"{100 * value:.1f}%" if math.isfinite(value) else "-"


def times(value: float) -> str:
    return f"{value:.2f}x" if math.isfinite(value) else "-"


def size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.3f}" if size_bytes % 1000 == 0 or size_bytes >= 1e6 else f"{size_bytes} B"
