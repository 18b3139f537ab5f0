"""The sessions of a plan with their streams, drawn as trees."""

from typing import TYPE_CHECKING

from square._core import Plan, PlanSession
from square.cli import codes, text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

# Trees are drawn while they have no more lines than this together.
MAX_TREE_LINES = 120
MAX_NAMES = 4


def print_sessions(plan: Plan, console: "Console") -> None:
    sessions = plan.sessions
    if not plan.realised:
        return
    console.print("Sessions and their streams" if sessions else "No sessions: nothing is sent", style="bold")
    lines_left = MAX_TREE_LINES
    for number, session in enumerate(sessions):
        if lines_left <= 0:
            console.print(f"... and {len(sessions) - number} more sessions; --json lists them")
            break
        tree, lines = _tree_of(session, lines_left)
        console.print(tree)
        lines_left -= lines
    console.print()


def _tree_of(session: PlanSession, lines_left: int) -> tuple["Tree", int]:
    """The session with its widest streams, and the number of lines. One stream is always shown."""
    from rich.tree import Tree

    adds = session.kind == "reduce"
    ways = ("to", "from") if adds else ("from", "to")
    tree = Tree(
        f"session {session.id} of collective {session.collective}: {session.kind} {ways[0]} {session.root} "
        f"{ways[1]} {_others(session)}, {text.rate(session.rate_bps)} Mbit/s "
        f"in {text.count(len(session.streams), 'stream')}"
    )
    lines = 1
    streams = sorted(session.streams, key=lambda stream: -stream.rate_bps)
    for number, stream in enumerate(streams):
        more = 2 + len(stream.links)
        if number > 0 and lines + more > lines_left:
            tree.add(f"... and {len(streams) - number} thinner streams; --json lists them")
            break
        lines += more
        notes = codes.note(stream) + (", added towards the root" if adds else "")
        branch = tree.add(f"{text.rate(stream.rate_bps)} Mbit/s{notes}")
        _grow(branch, stream.origin, stream.links, adds)
    return tree, lines


def _others(session: PlanSession) -> str:
    names = [name for name in session.members if name != session.root]
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    return f"{len(names)} {'sources' if session.kind == 'reduce' else 'destinations'}"


def _grow(branch: "Tree", root: str, links: list[tuple[str, str]], adds: bool) -> None:
    """Links come after the one that feeds them, so that no recursion is needed. Those of a
    reduce run towards the root: read backwards, they grow from it."""
    places = {root: branch.add(root)}
    for tail, head in [(head, tail) for tail, head in reversed(links)] if adds else links:
        places[head] = places[tail].add(head)
