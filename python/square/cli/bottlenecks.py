"""Who is limited by what, and the links and nodes that are full."""

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from square._core import PlanCollective, PlanLink
from square.cli import text
from square.cli.limits import cuts, words
from square.cli.limits.cuts import Cut, Resource
from square.cli.limits.duals import Duals
from square.cli.limits.network import Network
from square.run.outcome import ratio

if TYPE_CHECKING:
    from rich.console import Console

MAX_LINKS = 10
MAX_LIMITS = 20
MAX_ID_CHARACTERS = 30
MAX_LIMITED_NODES = 3
# A link is full, a bound reached, but for so much.
TOLERANCE = 1e-6


def print_limits(network: Network, console: "Console") -> None:
    """For each collective its limit; those with the same one together."""
    if not network.sessions:
        return
    alike: dict[str, list[int]] = defaultdict(list)
    for collective in network.collectives.values():
        alike[_limit_of(network, collective)].append(collective.id)
    table = text.table("collective", "why it has no more", left=2)
    for limit, numbers in list(alike.items())[:MAX_LIMITS]:
        table.add_row(words.shortened(words.ids(numbers), MAX_ID_CHARACTERS), limit)
    text.print_titled(console, "Limits (--explain SESSION shows the sum)", table)
    if len(alike) > MAX_LIMITS:
        rest = sum(len(numbers) for numbers in list(alike.values())[MAX_LIMITS:])
        console.print(f"... and those of {text.count(rest, 'more collective')}")
        console.print()


def _limit_of(network: Network, collective: PlanCollective) -> str:
    if not collective.sessions:
        return "sends nothing: it has one member"
    if network.is_about_cost():
        return "has the rate that is required, at the least cost that was found"
    level = network.level_of.get(collective.id)
    if level is not None:
        found = cuts.packed_cuts(network, network.levels[level], collective.sessions)
        return _limit_by_duals(network, network.levels[level], found)
    found = cuts.certified_cuts(network, collective.id)
    return _limit_by_cut(network, collective, found[0]) if found else "nothing that the plan proves"


def _limit_by_duals(network: Network, duals: Duals, found: list[Cut]) -> str:
    """Of the links and nodes with a length, those that the cuts cross."""
    crossed = {name for cut in found for name in cuts.links_into(network, cut.into)}
    links = [name for name in crossed if name in duals.links]
    egress = sorted({tail for tail, _ in crossed if tail in duals.egress})
    ingress = sorted({head for _, head in crossed if head in duals.ingress})
    parts = []
    if links:
        where = words.direction(found[0].into, network.names)
        if len(found) > 1:
            where = f"across {len(found)} cuts, the heaviest {where}"
        parts.append(_links_in_words(network, links, where))
    for kind, nodes in (("egress", egress), ("ingress", ingress)):
        parts += [
            f"{kind} limit of {node}: {_used(network, [cuts.limit_resource(network, kind, node)])}"
            for node in nodes[:MAX_LIMITED_NODES]
        ]
        if len(nodes) > MAX_LIMITED_NODES:
            parts.append(f"{kind} limits of {len(nodes) - MAX_LIMITED_NODES} more nodes")
    if duals.budget > 0 and network.budget_usd_per_hour is not None:
        cost = f"{network.cost_usd_per_hour:.4f} of " if network.realised else ""
        parts.append(f"the budget: {cost}{network.budget_usd_per_hour:.4f} USD an hour")
    return "limited by " + "; ".join(parts) if parts else "nothing that the plan proves"


def _limit_by_cut(network: Network, collective: PlanCollective, cut: Cut) -> str:
    crossing = cuts.crossing(network, cut, Duals())
    where = words.direction(cut.into, network.names)
    load = sum(link.load_bps for link in crossing.links)
    used = f"{text.rate(load)} of {text.rate(crossing.carried_bps)} Mbit/s used"
    if crossing.limits:
        used += f" (within {text.count(len(crossing.limits), 'node limit')})"
    reached = ratio(network.rate_bps(collective), collective.bound_bps)
    names = f"{text.count(len(crossing.links), 'link')} {where}"
    if math.isnan(reached) or reached >= 1.0 - TOLERANCE:
        return f"limited by {names}: {used}"
    return f"policy {network.policy} reaches {text.percent(reached)} of what {names} allow: {used}"


def _links_in_words(network: Network, links: list[tuple[str, str]], where: str) -> str:
    resources = [cuts.link_resource(network, name) for name in links]
    if len(links) == 1:
        return f"link {links[0][0]} -> {links[0][1]}: {_used(network, resources)}"
    return f"{len(links)} links {where}: {_used(network, resources)}"


def _used(network: Network, resources: list[Resource]) -> str:
    capacity = text.rate(sum(resource.capacity_bps for resource in resources))
    if not network.realised:
        return f"{capacity} Mbit/s"
    return f"{text.rate(sum(resource.load_bps for resource in resources))} of {capacity} Mbit/s used"


def print_links(network: Network, console: "Console") -> None:
    """The fullest links first; without streams, those with a dual."""
    levels = _levels_of_links(network)
    if network.realised:
        _print_loaded(network, levels, console)
        _print_node_limits(network, console)
        return
    if not levels:
        return
    table = text.table("from", "to", "capacity\nMbit/s", "limits\nlevel", left=2)
    names = sorted(levels, key=lambda name: (levels[name][0], name))
    for name in names[:MAX_LINKS]:
        table.add_row(*name, text.rate(network.links[name].capacity_bps), _levels(levels, name))
    text.print_titled(console, f"Limiting links ({min(len(names), MAX_LINKS)} of {len(names)})", table)


def _levels_of_links(network: Network) -> dict[tuple[str, str], list[int]]:
    """At which levels, counted from 1, a link is part of the proof."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, level in enumerate(network.levels, start=1):
        for name in level.links:
            found[name].append(number)
    return found


def _levels(levels: dict[tuple[str, str], list[int]], name: tuple[str, str]) -> str:
    return words.shortened(words.ids(levels.get(name, [])), 12) or "-"


def _print_loaded(network: Network, levels: dict[tuple[str, str], list[int]], console: "Console") -> None:
    loaded = [link for link in network.links.values() if link.load_bps > 0]
    if not loaded:
        return
    loaded.sort(key=lambda link: (-_share(link), -link.load_bps, link.from_node, link.to_node))
    full = sum(_share(link) >= 1.0 - TOLERANCE for link in loaded)
    shown = loaded[:MAX_LINKS]
    more = ("limits\nlevel",) if levels else ()
    table = text.table("from", "to", "load\nMbit/s", "capacity\nMbit/s", "used", *more, left=2)
    for link in shown:
        table.add_row(
            link.from_node,
            link.to_node,
            text.rate(link.load_bps),
            text.rate(link.capacity_bps),
            text.percent(ratio(link.load_bps, link.capacity_bps)),
            *((_levels(levels, (link.from_node, link.to_node)),) if levels else ()),
        )
    title = f"Most loaded links ({len(shown)} of {len(loaded)} in use, {full} full)"
    text.print_titled(console, title, table)


def _share(link: PlanLink) -> float:
    used = ratio(link.load_bps, link.capacity_bps)
    return 0.0 if math.isnan(used) else round(used, 9)


def _print_node_limits(network: Network, console: "Console") -> None:
    limited = [
        node
        for node in network.nodes.values()
        if math.isfinite(node.egress_bps) or math.isfinite(node.ingress_bps)
    ]
    if not limited:
        return
    out = {node.name: sum(network.leaving.get(node.name, {}).values()) for node in limited}
    into = {node.name: sum(network.entering.get(node.name, {}).values()) for node in limited}

    def fullest(name: str) -> float:
        node = network.nodes[name]
        shares = (ratio(out[name], node.egress_bps), ratio(into[name], node.ingress_bps))
        return max((round(share, 9) for share in shares if not math.isnan(share)), default=0.0)

    limited.sort(key=lambda node: (-fullest(node.name), node.name))
    table = text.table("node", "leaving\nMbit/s", "limit\nMbit/s", "entering\nMbit/s", "limit\nMbit/s")
    for node in limited[:MAX_LINKS]:
        table.add_row(
            node.name,
            text.rate(out[node.name]),
            text.rate(node.egress_bps),
            text.rate(into[node.name]),
            text.rate(node.ingress_bps),
        )
    text.print_titled(console, f"Node limits ({min(len(limited), MAX_LINKS)} of {len(limited)})", table)
