"""Names and figures as a page shows them."""

import html
import math
import unicodedata

# What no page shows as it is: control characters, which XML forbids, and those that turn text round.
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
WIDE = ("W", "F")


def escaped(text: str) -> str:
    """For the text of an element and for a value between quotes; a name never becomes markup."""
    return html.escape(printable(text))


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def columns_of(text: str) -> int:
    """How wide it is, in narrow letters."""
    return sum(2 if unicodedata.east_asian_width(letter) in WIDE else 1 for letter in text)


def clipped(text: str, columns: int) -> str:
    """Printable, and at most so wide."""
    text = printable(text)
    if columns_of(text) <= columns:
        return text
    while columns_of(text) > columns - 1:
        text = text[:-1]
    return text.rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def figure(value: float | None) -> str:
    """Three digits that count, whole numbers in full; a dash for what nobody knows."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(float(f"{value:.3g}"))
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}" if size > 0 else "0"


def mbps(rate_bps: float | None) -> str:
    return figure(None if rate_bps is None else rate_bps / 1e6)


def percent(share: float | None) -> str:
    return "-" if share is None or not math.isfinite(share) else f"{100 * share:.0f}%"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is more than a screen shows."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
