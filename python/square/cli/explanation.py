"""Why a session has no higher rate, for people: `square plan --explain`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from square._core import LimitedResource, LimitingCut, LimitProof
from square.cli import assumption, text
from square.cli.codes import print_codes
from square.cli.limits import words
from square.cli.limits.explanation import Explanation
from square.cli.limits.sentences import why
from square.cli.parts import Parts
from square.run.outcome import ratio

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_ROWS = 24
MAX_SESSIONS = 6
MAX_NODES = 60
# Less of a capacity than this is no load.
IDLE = 1e-7


def print_explanation(explanation: Explanation, console: "Console") -> None:
    _print_heading(explanation, console)
    for sentence in assumption.of_plan(explanation.parts.plan):
        console.print(sentence)
    for number, cut in enumerate(explanation.limits.cuts, start=1):
        _print_cut(explanation, number, cut, console)
        if cut.is_proof:
            console.print(_needs_table(explanation.parts, cut))
            console.print()
    if explanation.more_cuts:
        console.print(
            f"... and {text.count(explanation.more_cuts, 'lighter cut')}; --json has their number only"
        )
        console.print()
    for sentence in why(explanation):
        console.print(sentence)
    if explanation.session is not None and explanation.session.codes:
        console.print()
        print_codes(explanation.session, console)
    proof = explanation.limits.proof
    if proof is not None and not explanation.is_proven_by_one_cut:
        console.print()
        _print_proof(explanation.parts, proof, console)


def _print_heading(explanation: Explanation, console: "Console") -> None:
    parts, limits, collective = explanation.parts, explanation.limits, explanation.collective
    what = "rate" if parts.realised else "lp rate"
    console.print(
        f"collective {collective.id} ({collective.op}, tenant {collective.tenant}), planned by "
        f"{parts.policy}: {what} {text.rate(limits.rate_bps)} Mbit/s, "
        f"bound {text.rate(limits.bound_bps)}",
        style="bold",
    )
    session, level = explanation.session, explanation.level
    if session is not None:
        others = [name for name in session.members if name != session.root]
        ways = ("to", "from") if session.kind == "reduce" else ("from", "to")
        rate = session.rate_bps if parts.realised else session.lp_rate_bps
        console.print(
            f"session {session.id}: {session.kind} {ways[0]} {session.root} {ways[1]} "
            f"{words.braces(others)}, {text.rate(rate)} Mbit/s"
        )
    if level is not None and limits.level is not None and limits.proof is not None:
        stopped = words.shortened(words.ids(level.collectives), MAX_NODES)
        console.print(
            f"level {limits.level + 1} of {len(parts.levels)}: at most {text.rate(level.bound_bps)} "
            f"Mbit/s per unit of weight; {_collectives(len(level.collectives))} {stopped} "
            f"{'stops' if len(level.collectives) == 1 else 'stop'} here"
        )
    console.print()


def _print_cut(explanation: Explanation, number: int, cut: LimitingCut, console: "Console") -> None:
    parts = explanation.parts
    links = text.count(len(cut.links), "link")
    share = ratio(cut.length, explanation.limits.length)
    weight = f", {text.percent(share)} of the weight" if cut.length > 0 else ""
    title = f"Cut {number}: {links} {words.direction(frozenset(cut.into), parts.names)}{weight}"
    console.print(title, style="bold")
    console.print(f"data {'leaves' if cut.is_left else 'enters'} {_far_side(parts, cut)}")
    if explanation.is_about_cost and cut.length > 0:
        # Lengths are US dollars an hour for a bit per second.
        console.print(f"every GB pays {cut.length * 8e9 / 3600:.6g} USD of its price for it")
    console.print(_links_table(parts, cut))
    console.print()


def _links_table(parts: Parts, cut: LimitingCut) -> "Table":
    loads = ("load\nMbit/s",) if parts.realised else ()
    more = ("used", "by sessions") if parts.realised else ()
    table = text.table("from", "to", *loads, "capacity\nMbit/s", *more, left=2)
    if parts.realised:
        table.columns[-1].justify = "left"
    # Where the duals tell which links count, idle ones that do not are put together.
    links, node_limits = cut.links, cut.node_limits
    telling = [
        link
        for link in links
        if link.load_bps > IDLE * link.capacity_bps or link.length > 0 or not parts.levels
    ]
    shown = (telling or links)[:MAX_ROWS]
    for link in shown:
        table.add_row(*link.nodes, *_figures(parts, [link]))
    in_table = {link.nodes for link in shown}
    rest = [link for link in links if link.nodes not in in_table]
    if rest:
        table.add_row(f"... {len(rest)} more", "", *_figures(parts, rest))
    table.add_section()
    table.add_row("together", "", *_figures(parts, links))
    for limit in node_limits[:MAX_ROWS]:
        table.add_row(limit.nodes[0], f"({limit.kind} limit, all links)", *_figures(parts, [limit]))
    if len(node_limits) > MAX_ROWS:
        table.add_row(f"... {len(node_limits) - MAX_ROWS} more limits of nodes", "")
    return table


def _far_side(parts: Parts, cut: LimitingCut) -> str:
    """By the names of the smaller side."""
    far = words.far_side(cut, parts.names)
    if 2 * len(far) <= len(parts.names):
        return words.braces(far, MAX_NODES)
    is_far = frozenset(far)
    near = [name for name in parts.names if name not in is_far]
    return f"all nodes but {words.braces(near, MAX_NODES)}"


def _figures(parts: Parts, together: Sequence[LimitedResource]) -> list[str]:
    capacity_bps = sum(resource.capacity_bps for resource in together)
    if not parts.realised:
        return [text.rate(capacity_bps)]
    by_session: dict[int, float] = {}
    for resource in together:
        for number, rate in resource.loads.items():
            by_session[number] = by_session.get(number, 0.0) + rate
    load_bps = sum(by_session.values())
    return [
        text.rate(load_bps),
        text.rate(capacity_bps),
        "assumed" if parts.is_assumed(together) else text.percent(ratio(load_bps, capacity_bps)),
        _sessions(by_session),
    ]


def _sessions(by_session: dict[int, float]) -> str:
    """``2: 7.500, 0: 2.500``: the most first."""
    ordered = sorted(by_session.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{number}: {text.rate(rate)}" for number, rate in ordered[:MAX_SESSIONS])
    rest = ordered[MAX_SESSIONS:]
    return shown + (f", {len(rest)} more: {text.rate(sum(rate for _, rate in rest))}" if rest else "")


def _needs_table(parts: Parts, cut: LimitingCut) -> "Table":
    what = "rate\nMbit/s" if parts.realised else "lp rate\nMbit/s"
    table = text.table("who must cross it", "weight", what, "per\nweight", "times", "needs\nMbit/s")
    demands = sorted(cut.demands, key=lambda demand: (-demand.needs_bps, demand.collective))
    for demand in demands[:MAX_ROWS]:
        collective = parts.collectives[demand.collective]
        table.add_row(
            f"{collective.id} {collective.tenant}",
            f"{collective.weight:g}",
            text.rate(demand.rate_bps),
            text.rate(demand.rate_bps / collective.weight),
            f"{demand.crossings:.4g}",
            text.rate(demand.needs_bps),
        )
    rest = demands[MAX_ROWS:]
    if rest:
        needs = text.rate(sum(demand.needs_bps for demand in rest))
        table.add_row(f"... {len(rest)} more", "", "", "", "", needs)
    table.add_section()
    needs = text.rate(sum(demand.needs_bps for demand in demands))
    table.add_row(f"together, of {text.rate(cut.carried_bps)}", "", "", "", "", needs)
    return table


def _print_proof(parts: Parts, proof: LimitProof, console: "Console") -> None:
    loads = ("load\nMbit/s",) if parts.realised else ()
    table = text.table("what there is", *loads, "capacity\nMbit/s", "length", "product")
    for resource in proof.resources[:MAX_ROWS]:
        name = " -> ".join(resource.nodes)
        table.add_row(
            name if resource.kind == "link" else f"{resource.kind} limit of {name}",
            *((text.rate(resource.load_bps),) if parts.realised else ()),
            text.rate(resource.capacity_bps),
            f"{resource.length:.6g}",
            _mega(resource.capacity_bps * resource.length),
        )
    gap = [""] * (len(loads) + 1)
    rest = proof.resources[MAX_ROWS:]
    if rest:
        product = sum(resource.capacity_bps * resource.length for resource in rest)
        table.add_row(f"... {len(rest)} more", *gap, "", _mega(product))
    if proof.budget_length > 0:
        budget = f"budget of {proof.budget_usd_per_hour:g} USD/h"
        product = proof.budget_length * proof.budget_usd_per_hour
        table.add_row(budget, *gap, f"{proof.budget_length:.6g}", _mega(product))
    table.add_section()
    table.add_row("together", *gap, "", _mega(proof.worth))
    text.print_titled(console, "The proof: capacities and limits, each times its length", table)
    _print_parts(parts, proof, console)
    console.print(
        f"So t is at most ({_mega(proof.worth)} - {_mega(proof.earlier)}) / {proof.active:.6g} = "
        f"{text.rate(proof.bound_bps)} Mbit/s."
    )


def _print_parts(parts: Parts, proof: LimitProof, console: "Console") -> None:
    table = text.table("who needs it", "length", "times", "product")
    for part in proof.parts[:MAX_ROWS]:
        times, product = (
            (f"{text.rate(part.lp_rate_bps)} Mbit/s", _mega(part.length * part.lp_rate_bps))
            if part.is_earlier
            else (f"weight {part.weight:g}", f"{part.length * part.weight:.6g} t")
        )
        tenant = parts.collectives[part.collective].tenant
        table.add_row(f"{part.collective} {tenant}", f"{part.length:.6g}", times, product)
    if len(proof.parts) > MAX_ROWS:
        table.add_row(f"... {len(proof.parts) - MAX_ROWS} more", "", "", "")
    table.add_section()
    table.add_row("together", "", "", f"{_mega(proof.earlier)} + {proof.active:.6g} t")
    text.print_titled(
        console, "What each collective uses of that, at least, with t per unit of weight", table
    )


def _collectives(number: int) -> str:
    return "collective" if number == 1 else "collectives"


def _mega(value: float) -> str:
    return f"{value / 1e6:.3f}"
