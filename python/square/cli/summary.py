"""A plan, for people."""

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from square._core import Plan, PlanSession
from square.cli import text
from square.run.outcome import ratio

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

# Trees are drawn while they have no more lines than this together.
MAX_TREE_LINES = 120
MAX_LINKS = 10
MAX_NAMES = 4


def print_plan(plan: Plan, name: str, console: "Console") -> None:
    console.print(
        f"scenario {name}: {len(plan.nodes)} nodes, {len(plan.links)} links, "
        f"{len(plan.collectives)} collectives, planned by {plan.policy} in {1000 * plan.solve_seconds:.1f} ms"
    )
    console.print()
    _print_tenants(plan, console)
    _print_collectives(plan, console)
    _print_sessions(plan, console)
    _print_links(plan, console)
    _print_totals(plan, console)


def _print_tenants(plan: Plan, console: "Console") -> None:
    table = text.table("tenant", "weight", "Mbit/s")
    for tenant in plan.tenants:
        table.add_row(tenant.name, f"{tenant.weight:g}", text.rate(tenant.rate_bps))
    text.print_titled(console, "Tenants", table)


def _print_collectives(plan: Plan, console: "Console") -> None:
    sessions = {session.id: session for session in plan.sessions}
    table = text.table(
        "id",
        "tenant",
        "operation",
        "root",
        "members",
        "weight",
        "MB",
        "rate\nMbit/s",
        "bound\nMbit/s",
        "rate/\nbound",
        "completion\ns",
        left=4,
    )
    for collective in plan.collectives:
        mine = [sessions[number] for number in collective.sessions]
        members = {name for session in mine for name in session.members}
        table.add_row(
            str(collective.id),
            collective.tenant,
            collective.op,
            mine[0].root if collective.op == "broadcast" and mine else "-",
            str(len(members)) if members else "1",
            f"{collective.weight:g}",
            text.size(collective.size_bytes),
            text.rate(collective.rate_bps),
            text.rate(collective.bound_bps),
            text.percent(ratio(collective.rate_bps, collective.bound_bps)),
            text.seconds(collective.completion_seconds),
        )
    text.print_titled(console, "Collectives", table)


def _print_sessions(plan: Plan, console: "Console") -> None:
    console.print(
        "Sessions and their streams" if plan.sessions else "No sessions: nothing is sent", style="bold"
    )
    lines_left = MAX_TREE_LINES
    for number, session in enumerate(plan.sessions):
        if lines_left <= 0:
            console.print(f"... and {len(plan.sessions) - number} more sessions; --json lists them")
            break
        tree, lines = _tree_of(session, lines_left)
        console.print(tree)
        lines_left -= lines
    console.print()


def _tree_of(session: PlanSession, lines_left: int) -> tuple["Tree", int]:
    """The session with its widest streams, and the number of lines. One stream is always shown."""
    from rich.tree import Tree

    tree = Tree(
        f"session {session.id} of collective {session.collective}: {session.kind} from {session.root} "
        f"to {_destinations(session)}, {text.rate(session.rate_bps)} Mbit/s "
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
        branch = tree.add(f"{text.rate(stream.rate_bps)} Mbit/s" + (", coded" if stream.coded else ""))
        _grow(branch, session.root, stream.links)
    return tree, lines


def _destinations(session: PlanSession) -> str:
    names = [name for name in session.members if name != session.root]
    return ", ".join(names) if len(names) <= MAX_NAMES else f"{len(names)} destinations"


def _grow(branch: "Tree", root: str, links: list[tuple[str, str]]) -> None:
    """Links come after the one that feeds them, so that no recursion is needed."""
    places = {root: branch.add(root)}
    for tail, head in links:
        places[head] = places[tail].add(head)


def _print_links(plan: Plan, console: "Console") -> None:
    loaded = [link for link in plan.links if link.load_bps > 0]
    if not loaded:
        return
    shares = {id(link): ratio(link.load_bps, link.capacity_bps) for link in loaded}
    loaded.sort(key=lambda link: (-_known(shares[id(link)]), link.from_node, link.to_node))
    shown = loaded[:MAX_LINKS]
    table = text.table(
        "from",
        "to",
        "load\nMbit/s",
        "capacity\nMbit/s",
        "used",
        left=2,
    )
    for link in shown:
        table.add_row(
            link.from_node,
            link.to_node,
            text.rate(link.load_bps),
            text.rate(link.capacity_bps),
            text.percent(shares[id(link)]),
        )
    text.print_titled(console, f"Most loaded links ({len(shown)} of {len(loaded)} in use)", table)
    _print_limits(plan, console)


def _print_limits(plan: Plan, console: "Console") -> None:
    limited = [
        node for node in plan.nodes if math.isfinite(node.egress_bps) or math.isfinite(node.ingress_bps)
    ]
    if not limited:
        return
    out: dict[str, float] = defaultdict(float)
    into: dict[str, float] = defaultdict(float)
    for link in plan.links:
        out[link.from_node] += link.load_bps
        into[link.to_node] += link.load_bps
    table = text.table("node", "leaving\nMbit/s", "limit\nMbit/s", "entering\nMbit/s", "limit\nMbit/s")
    for node in limited[:MAX_LINKS]:
        table.add_row(
            node.name,
            text.rate(out[node.name]),
            text.rate(node.egress_bps),
            text.rate(into[node.name]),
            text.rate(node.ingress_bps),
        )
    text.print_titled(console, "Node limits", table)


def _print_totals(plan: Plan, console: "Console") -> None:
    console.print(f"minimum rate   {text.rate(plan.min_rate_bps)} Mbit/s")
    console.print(f"total rate     {text.rate(plan.total_rate_bps)} Mbit/s")
    console.print(f"Jain's index   {plan.jain:.4f}  (of rate / weight; 1 is even)")
    level = plan.certificate.level_bound_bps
    if level is not None:
        console.print(
            f"level bound    {text.rate(level)} Mbit/s  (no plan at all has a larger least rate / weight)"
        )


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value
