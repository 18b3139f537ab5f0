"""Sets of nodes and lists of ids, in few words."""

from collections.abc import Collection, Iterable, Sequence

from square._core import LimitingCut

MAX_NAMES = 4


def ids(numbers: Iterable[int]) -> str:
    """``0-3, 7``: neighbours are put together."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def shortened(words: str, limit: int) -> str:
    """A list with commas, cut after an item."""
    if len(words) <= limit:
        return words
    whole = words[:limit].rpartition(",")[0]
    return f"{whole}, ..." if whole else "..."


def braces(names: Sequence[str], limit: int = MAX_NAMES) -> str:
    shown = ", ".join(names[:limit])
    return f"{{{shown}}}" if len(names) <= limit else f"{{{shown} and {len(names) - limit} more}}"


def far_side(cut: LimitingCut, nodes: Sequence[str]) -> list[str]:
    """As the certificate names it: the side that data enters or, of a reduce, leaves."""
    into = frozenset(cut.into)
    return [name for name in nodes if (name in into) != cut.is_left]


def direction(into: Collection[str], nodes: Sequence[str]) -> str:
    """``into {a, b}``, or ``out of {c}`` where fewer nodes are on that side."""
    inside = [name for name in nodes if name in into]
    outside = [name for name in nodes if name not in into]
    if len(inside) <= len(outside):
        return f"into {braces(inside)}"
    return f"out of {braces(outside)}"
