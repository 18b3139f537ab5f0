"""Why a session has no higher rate, for people: `square plan --explain`."""

from typing import TYPE_CHECKING

from square.cli import text
from square.cli.limits import words
from square.cli.limits.cuts import Crossing, Cut, Resource
from square.cli.limits.explanation import Explanation
from square.cli.limits.network import Network
from square.cli.limits.proof import Proof
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
    for number, crossing in enumerate(explanation.crossings, start=1):
        _print_cut(explanation, number, crossing, console)
        if explanation.is_proven_by(crossing):
            console.print(_needs_table(explanation.network, crossing))
            console.print()
    if explanation.more_cuts:
        console.print(
            f"... and {text.count(explanation.more_cuts, 'lighter cut')}; --json has their number only"
        )
        console.print()
    for sentence in explanation.why:
        console.print(sentence)
    if explanation.proof is not None and not explanation.is_proven_by_one_cut:
        console.print()
        _print_proof(explanation.network, explanation.proof, console)


def _print_heading(explanation: Explanation, console: "Console") -> None:
    network, collective = explanation.network, explanation.collective
    what = "rate" if network.realised else "lp rate"
    console.print(
        f"collective {collective.id} ({collective.op}, tenant {collective.tenant}), planned by "
        f"{network.policy}: {what} {text.rate(explanation.rate_bps)} Mbit/s, "
        f"bound {text.rate(explanation.bound_bps)}",
        style="bold",
    )
    if explanation.session is not None:
        session = network.sessions[explanation.session]
        others = [name for name in session.members if name != session.root]
        ways = ("to", "from") if session.kind == "reduce" else ("from", "to")
        rate = session.rate_bps if network.realised else session.lp_rate_bps
        console.print(
            f"session {session.id}: {session.kind} {ways[0]} {session.root} {ways[1]} "
            f"{words.braces(others)}, {text.rate(rate)} Mbit/s"
        )
    if explanation.level is not None and explanation.proof is not None:
        level = network.levels[explanation.level]
        stopped = words.shortened(words.ids(level.collectives), MAX_NODES)
        console.print(
            f"level {explanation.level + 1} of {len(network.levels)}: at most {text.rate(level.bound_bps)} "
            f"Mbit/s per unit of weight; {_collectives(len(level.collectives))} {stopped} "
            f"{'stops' if len(level.collectives) == 1 else 'stop'} here"
        )
    console.print()


def _print_cut(explanation: Explanation, number: int, crossing: Crossing, console: "Console") -> None:
    network, cut = explanation.network, crossing.cut
    links = text.count(len(crossing.links), "link")
    share = ratio(cut.length, explanation.weight)
    weight = f", {text.percent(share)} of the weight" if cut.length > 0 else ""
    title = f"Cut {number}: {links} {words.direction(cut.into, network.names)}{weight}"
    console.print(title, style="bold")
    console.print(f"data {'leaves' if cut.is_left else 'enters'} {_far_side(network, cut)}")
    if network.is_about_cost() and cut.length > 0:
        # Lengths are US dollars an hour for a bit per second.
        console.print(f"every GB pays {cut.length * 8e9 / 3600:.6g} USD of its price for it")
    console.print(_links_table(network, crossing))
    console.print()


def _links_table(network: Network, crossing: Crossing) -> "Table":
    loads = ("load\nMbit/s",) if network.realised else ()
    more = ("used", "by sessions") if network.realised else ()
    table = text.table("from", "to", *loads, "capacity\nMbit/s", *more, left=2)
    if network.realised:
        table.columns[-1].justify = "left"
    # Where the duals tell which links count, idle ones that do not are put together.
    telling = [
        link
        for link in crossing.links
        if link.load_bps > IDLE * link.capacity_bps or link.length > 0 or not network.levels
    ]
    shown = (telling or list(crossing.links))[:MAX_ROWS]
    for link in shown:
        table.add_row(*link.nodes, *_figures(network, link))
    rest = tuple(link for link in crossing.links if link not in shown)
    if rest:
        table.add_row(f"... {len(rest)} more", "", *_figures(network, _together(rest)))
    table.add_section()
    table.add_row("together", "", *_figures(network, _together(crossing.links)))
    for limit in crossing.limits[:MAX_ROWS]:
        table.add_row(limit.nodes[0], f"({limit.kind} limit, all links)", *_figures(network, limit))
    if len(crossing.limits) > MAX_ROWS:
        table.add_row(f"... {len(crossing.limits) - MAX_ROWS} more limits of nodes", "")
    return table


def _far_side(network: Network, cut: Cut) -> str:
    """By the names of the smaller side."""
    far = [name for name in network.names if (name in cut.into) != cut.is_left]
    if 2 * len(far) <= len(network.names):
        return words.braces(far, MAX_NODES)
    near = [name for name in network.names if (name in cut.into) == cut.is_left]
    return f"all nodes but {words.braces(near, MAX_NODES)}"


def _figures(network: Network, resource: Resource) -> list[str]:
    if not network.realised:
        return [text.rate(resource.capacity_bps)]
    return [
        text.rate(resource.load_bps),
        text.rate(resource.capacity_bps),
        text.percent(ratio(resource.load_bps, resource.capacity_bps)),
        _sessions(resource.by_session),
    ]


def _sessions(by_session: dict[int, float]) -> str:
    """``2: 7.500, 0: 2.500``: the most first."""
    ordered = sorted(by_session.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{number}: {text.rate(rate)}" for number, rate in ordered[:MAX_SESSIONS])
    rest = ordered[MAX_SESSIONS:]
    return shown + (f", {len(rest)} more: {text.rate(sum(rate for _, rate in rest))}" if rest else "")


def _together(resources: tuple[Resource, ...]) -> Resource:
    by_session: dict[int, float] = {}
    for resource in resources:
        for number, rate in resource.by_session.items():
            by_session[number] = by_session.get(number, 0.0) + rate
    return Resource("link", (), sum(resource.capacity_bps for resource in resources), by_session)


def _needs_table(network: Network, crossing: Crossing) -> "Table":
    what = "rate\nMbit/s" if network.realised else "lp rate\nMbit/s"
    table = text.table("who must cross it", "weight", what, "per\nweight", "times", "needs\nMbit/s")
    demands = sorted(crossing.demands, key=lambda demand: (-demand.needs_bps, demand.collective))
    for demand in demands[:MAX_ROWS]:
        collective = network.collectives[demand.collective]
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
    table.add_row(f"together, of {text.rate(crossing.carried_bps)}", "", "", "", "", needs)
    return table


def _print_proof(network: Network, proof: Proof, console: "Console") -> None:
    loads = ("load\nMbit/s",) if network.realised else ()
    table = text.table("what there is", *loads, "capacity\nMbit/s", "length", "product")
    for resource in proof.resources[:MAX_ROWS]:
        name = " -> ".join(resource.nodes)
        table.add_row(
            name if resource.kind == "link" else f"{resource.kind} limit of {name}",
            *((text.rate(resource.load_bps),) if network.realised else ()),
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
    _print_parts(network, proof, console)
    console.print(
        f"So t is at most ({_mega(proof.worth)} - {_mega(proof.earlier)}) / {proof.active:.6g} = "
        f"{text.rate(proof.bound_bps)} Mbit/s."
    )


def _print_parts(network: Network, proof: Proof, console: "Console") -> None:
    table = text.table("who needs it", "length", "times", "product")
    for part in proof.parts[:MAX_ROWS]:
        times, product = (
            (f"{text.rate(part.lp_rate_bps)} Mbit/s", _mega(part.length * part.lp_rate_bps))
            if part.is_earlier
            else (f"weight {part.weight:g}", f"{part.length * part.weight:.6g} t")
        )
        tenant = network.collectives[part.collective].tenant
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
