"""Who reads what a plan adds: sums go unsealed over the nodes that pass them on or add them."""

from collections import defaultdict
from typing import TYPE_CHECKING

from square._core import Plan
from square.cli import text

if TYPE_CHECKING:
    from rich.console import Console

MAX_ROWS = 20


def trusted_nodes(plan: Plan) -> dict[int, list[str]]:
    """By collective: nodes without a member in it that parts of its sums come through."""
    nodes: defaultdict[int, set[str]] = defaultdict(set)
    for session in plan.sessions:
        if session.kind != "reduce":
            continue
        for stream in session.streams:
            passed = {name for link in stream.links for name in link}
            nodes[session.collective] |= passed - set(session.members)
    return {collective: sorted(names) for collective, names in sorted(nodes.items()) if names}


def print_trusted(plan: Plan, console: "Console") -> None:
    trusted = trusted_nodes(plan)
    if not trusted:
        return
    table = text.table("collective", "nodes", left=2)
    for collective, names in list(trusted.items())[:MAX_ROWS]:
        table.add_row(str(collective), ", ".join(names))
    text.print_titled(console, "Trusted with sums: no members, and they read what they pass on", table)
    if len(trusted) > MAX_ROWS:
        console.print(f"... and {text.count(len(trusted) - MAX_ROWS, 'more collective')}")
    console.print('An all-reduce with algorithm = "ring" trusts members alone; its plan shows the price.')
    console.print()
