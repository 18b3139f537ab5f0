"""Who is limited by what, and the links and nodes that are full."""

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from square._core import LimitedResource, Limits, PlanLink, PlanNode, limits_of_collectives
from square.cli import text
from square.cli.limits import words
from square.cli.parts import Parts
from square.run.outcome import ratio

if TYPE_CHECKING:
    from rich.console import Console

LinkName = tuple[str, str]

MAX_LINKS = 10
MAX_LIMITS = 20
MAX_ID_CHARACTERS = 30
MAX_LIMITED_NODES = 3
# A link is full but for so much.
TOLERANCE = 1e-6


def print_limits(parts: Parts, console: "Console") -> None:
    """For each collective its limit; those with the same one together."""
    if not parts.sessions:
        return
    alike: dict[str, list[int]] = defaultdict(list)
    for limits in limits_of_collectives(parts.plan, max_cuts=1):
        alike[_limit_in_words(parts, limits)].append(limits.collective)
    table = text.table("collective", "why it has no more", left=2)
    for limit, numbers in list(alike.items())[:MAX_LIMITS]:
        table.add_row(words.shortened(words.ids(numbers), MAX_ID_CHARACTERS), limit)
    text.print_titled(console, "Limits (--explain SESSION shows the sum)", table)
    if len(alike) > MAX_LIMITS:
        rest = sum(len(numbers) for numbers in list(alike.values())[MAX_LIMITS:])
        console.print(f"... and those of {text.count(rest, 'more collective')}")
        console.print()


def _limit_in_words(parts: Parts, limits: Limits) -> str:
    if limits.reason == "idle":
        return "sends nothing: it has one member"
    if limits.reason == "required":
        return "has the rate that is required, at the least cost that was found"
    if limits.reason == "level":
        return _limit_of_level(parts, limits)
    if limits.reason in ("cut", "policy"):
        return _limit_by_cut(parts, limits)
    return "nothing that the plan proves"


def _limit_of_level(parts: Parts, limits: Limits) -> str:
    """Links together, nodes one by one, and the budget."""
    by_kind: dict[str, list[LimitedResource]] = defaultdict(list)
    for resource in limits.held_by:
        by_kind[resource.kind].append(resource)
    said = [_links_in_words(parts, limits, by_kind["link"])] if by_kind["link"] else []
    for kind in ("egress", "ingress"):
        nodes = by_kind[kind]
        said += [
            f"{kind} limit of {node.nodes[0]}: {_used(parts, [node])}" for node in nodes[:MAX_LIMITED_NODES]
        ]
        if len(nodes) > MAX_LIMITED_NODES:
            said.append(f"{kind} limits of {len(nodes) - MAX_LIMITED_NODES} more nodes")
    if limits.is_held_by_budget:
        cost = f"{parts.plan.cost_usd_per_hour:.4f} of " if parts.realised else ""
        said.append(f"the budget: {cost}{parts.plan.budget_usd_per_hour:.4f} USD an hour")
    return "limited by " + "; ".join(said)


def _links_in_words(parts: Parts, limits: Limits, links: list[LimitedResource]) -> str:
    if len(links) == 1:
        return f"link {' -> '.join(links[0].nodes)}: {_used(parts, links)}"
    where = words.direction(frozenset(limits.cuts[0].into), parts.names)
    if limits.cut_count > 1:
        where = f"across {limits.cut_count} cuts, the heaviest {where}"
    return f"{len(links)} links {where}: {_used(parts, links)}"


def _limit_by_cut(parts: Parts, limits: Limits) -> str:
    cut = limits.cuts[0]
    links, node_limits = cut.links, cut.node_limits
    where = words.direction(frozenset(cut.into), parts.names)
    load = sum(link.load_bps for link in links)
    used = f"{text.rate(load)} of {text.rate(cut.carried_bps)} Mbit/s used"
    if node_limits:
        used += f" (within {text.count(len(node_limits), 'node limit')})"
    names = f"{text.count(len(links), 'link')} {where}"
    if limits.reason == "cut":
        return f"limited by {names}: {used}"
    if parts.is_bound_assumed(limits.collective):
        return f"policy {parts.policy} is limited by {names}, of assumed capacity: {used}"
    reached = text.percent(ratio(limits.rate_bps, limits.bound_bps))
    return f"policy {parts.policy} reaches {reached} of what {names} allow: {used}"


def _used(parts: Parts, resources: list[LimitedResource]) -> str:
    capacity = text.rate(sum(resource.capacity_bps for resource in resources))
    assumed = " (assumed)" if parts.is_assumed(resources) else ""
    if not parts.realised:
        return f"{capacity} Mbit/s{assumed}"
    load = text.rate(sum(resource.load_bps for resource in resources))
    return f"{load} of {capacity} Mbit/s used{assumed}"


def print_links(parts: Parts, console: "Console") -> None:
    """The fullest links first; without streams, those with a dual."""
    levels = _levels_of_links(parts)
    if parts.realised:
        _print_loaded(parts, levels, console)
        _print_node_limits(parts, console)
        return
    if not levels:
        return
    table = text.table("from", "to", "capacity\nMbit/s", "limits\nlevel", left=2)
    links = [link for link in parts.links if _name(link) in levels]
    links.sort(key=lambda link: (levels[_name(link)][0], _name(link)))
    for link in links[:MAX_LINKS]:
        table.add_row(*_name(link), text.rate(link.capacity_bps), _levels(levels, link))
    text.print_titled(console, f"Limiting links ({min(len(links), MAX_LINKS)} of {len(links)})", table)


def _name(link: PlanLink) -> LinkName:
    return link.from_node, link.to_node


def _levels_of_links(parts: Parts) -> dict[LinkName, list[int]]:
    """At which levels, counted from 1, a link is part of the proof."""
    found: dict[LinkName, list[int]] = defaultdict(list)
    for number, level in enumerate(parts.levels, start=1):
        for tail, head, length in level.links:
            if length > 0:
                found[tail, head].append(number)
    return found


def _levels(levels: dict[LinkName, list[int]], link: PlanLink) -> str:
    return words.shortened(words.ids(levels.get(_name(link), [])), 12) or "-"


def _print_loaded(parts: Parts, levels: dict[LinkName, list[int]], console: "Console") -> None:
    loaded = [link for link in parts.links if link.load_bps > 0]
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
            *((_levels(levels, link),) if levels else ()),
        )
    title = f"Most loaded links ({len(shown)} of {len(loaded)} in use, {full} full)"
    text.print_titled(console, title, table)


def _share(link: PlanLink) -> float:
    used = ratio(link.load_bps, link.capacity_bps)
    return 0.0 if math.isnan(used) else round(used, 9)


def _print_node_limits(parts: Parts, console: "Console") -> None:
    limited = [
        node for node in parts.nodes if math.isfinite(node.egress_bps) or math.isfinite(node.ingress_bps)
    ]
    if not limited:
        return
    out: dict[str, float] = defaultdict(float)
    into: dict[str, float] = defaultdict(float)
    for link in parts.links:
        out[link.from_node] += link.load_bps
        into[link.to_node] += link.load_bps

    def fullest(node: PlanNode) -> float:
        shares = (ratio(out[node.name], node.egress_bps), ratio(into[node.name], node.ingress_bps))
        return max((round(share, 9) for share in shares if not math.isnan(share)), default=0.0)

    limited.sort(key=lambda node: (-fullest(node), node.name))
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
