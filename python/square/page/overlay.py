"""The overlay: nodes on a circle, and what moves between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from square.page.ring import MAX_NAME_COLUMNS, Place, Ring
from square.page.words import clipped, count, escaped, mbps, number, percent

# More nobody tells apart. The busiest links are drawn, and the figure says how many are not.
MAX_NODES = 256
MAX_LINKS = 1000
# Of those that rest, as many as do not hide the others.
MAX_IDLE_LINKS = 400
MIN_WIDTH = 1.5  # of a link that carries something, in pixels
ARROW_AT = 0.6  # of the way: near the nodes many links meet

# From which used share on a link has the next colour; use0 has what is below the first.
USE_STEPS = (0.5, 0.8, 0.95)

KEY = (
    '<ul class="key"><li><i class="use0"></i>under 50% used</li><li><i class="use1"></i>50 to 80%</li>'
    '<li><i class="use2"></i>80 to 95%</li><li><i class="use3"></i>95% and more</li>'
    '<li><i class="bed"></i>planned, and not used</li><li><i class="down"></i>down</li></ul>'
)


@dataclass(frozen=True)
class Site:
    """A node. ``is_asked`` is False for one that others tell of."""

    name: str
    note: str = ""
    is_asked: bool = True


@dataclass(frozen=True)
class Flow:
    """One direction of a link. Rates are bits per second, None where nobody knows or nothing limits."""

    from_node: str
    to_node: str
    rate_bps: float | None
    planned_bps: float | None
    capacity_bps: float | None
    used: float | None  # share of the capacity, or of the plan where no capacity is known
    is_up: bool = True
    note: str = ""

    @property
    def size_bps(self) -> float:
        """What decides its width."""
        return max(self.rate_bps or 0.0, self.planned_bps or 0.0)


def overlay(title: str, sites: Sequence[Site], flows: Sequence[Flow]) -> str:
    """A figure with a caption and a key.

    A line is as wide as what was measured, on a pale one as wide as what is planned; its colour is the
    used share. Both directions of a link are drawn apart, each on the right of its way. Tooltips have the
    figures. Flows between nodes that are not among ``sites`` are left out.
    """
    caption = f"<figcaption>{escaped(title)}</figcaption>"
    if not sites:
        return f'<figure class="overlay">{caption}<p class="none">No node is known.</p></figure>'
    ring = Ring(min(len(sites), MAX_NODES))
    index = {site.name: number for number, site in enumerate(sites[:MAX_NODES])}
    known = [flow for flow in flows if _is_drawable(flow, index)]
    drawn = _busiest(known)
    widest = max((flow.size_bps for flow in drawn), default=0.0)
    right, down = ring.half_size([site.name for site in sites[:MAX_NODES]])
    box = " ".join(map(number, (-right, -down, 2 * right, 2 * down)))
    parts = [
        f'<svg viewBox="{box}" style="max-width:{number(2 * right)}px" role="img"'
        f' aria-label="{escaped(title)}">',
        *(_link(flow, ring, index, widest) for flow in drawn),
        *(_node(site, ring, index[site.name]) for site in sites[:MAX_NODES]),
        "</svg>",
    ]
    missing = _missing(len(sites) - len(index), len(known) - len(drawn))
    return f'<figure class="overlay">{caption}' + "\n".join(parts) + f"{KEY}{missing}</figure>"


def _is_drawable(flow: Flow, index: dict[str, int]) -> bool:
    return flow.from_node in index and flow.to_node in index and flow.from_node != flow.to_node


def _busiest(flows: list[Flow]) -> list[Flow]:
    """Those that are drawn, the fullest last and so on top."""
    flows = sorted(flows, key=lambda flow: (-flow.size_bps, flow.from_node, flow.to_node))
    idle = [flow for flow in flows if not flow.size_bps]
    busy = [flow for flow in flows if flow.size_bps][:MAX_LINKS]
    return [*(idle if len(idle) <= MAX_IDLE_LINKS else []), *sorted(busy, key=lambda flow: flow.used or 0.0)]


def _missing(nodes: int, links: int) -> str:
    parts = [count(nodes, "node")] if nodes else []
    parts += [count(links, "link")] if links else []
    return f'<p class="note">And {" and ".join(parts)} that are not drawn.</p>' if parts else ""


def _link(flow: Flow, ring: Ring, index: dict[str, int], widest: float) -> str:
    start, middle, end = _bow(ring, index[flow.from_node], index[flow.to_node])
    path = "M{} {}Q{} {} {} {}".format(*map(number, (*start, *middle, *end)))
    scale = ring.max_width / widest if widest > 0 else 0.0
    parts = [f"<title>{escaped(_tip(flow))}</title>", f'<path class="hit" d="{path}"/>']
    if flow.planned_bps:
        parts.append(
            f'<path class="bed" stroke-width="{number(_width(flow.planned_bps, scale))}" d="{path}"/>'
        )
    width = _width(flow.rate_bps or 0.0, scale) if flow.rate_bps else 1.0
    parts.append(f'<path class="load" stroke-width="{number(width)}" d="{path}"/>')
    arrow = 0.5 * _width(flow.size_bps, scale) + 3.5 if flow.size_bps else 3.0
    parts.append(f'<path class="arrow" d="{_arrow(start, middle, end, arrow)}"/>')
    return f'<g class="link {_kind(flow)}">{"".join(parts)}</g>'


def _width(rate_bps: float, scale: float) -> float:
    return max(MIN_WIDTH, rate_bps * scale)


def _kind(flow: Flow) -> str:
    if _is_down(flow):
        return "down"
    if flow.rate_bps is None and flow.planned_bps:
        return "unknown"
    if not flow.rate_bps:
        return "idle"
    if flow.used is None:
        return "use0"
    return f"use{sum(flow.used >= step for step in USE_STEPS)}"


def _is_down(flow: Flow) -> bool:
    """Nodes do not connect what no plan uses; that is no fault."""
    return not flow.is_up and bool(flow.planned_bps)


def _tip(flow: Flow) -> str:
    capacity = "no limit known" if flow.capacity_bps is None else f"capacity {mbps(flow.capacity_bps)}"
    measured = "rate not known yet" if flow.rate_bps is None else f"{mbps(flow.rate_bps)} Mbit/s"
    parts = [measured, f"planned {mbps(flow.planned_bps)}", capacity]
    parts += [f"{percent(flow.used)} used"] if flow.used is not None else []
    if not flow.is_up:
        parts.append("down" if _is_down(flow) else "not connected")
    parts += [flow.note] if flow.note else []
    return f"{flow.from_node} \N{RIGHTWARDS ARROW} {flow.to_node}: {', '.join(parts)}"


def _bow(ring: Ring, tail: int, head: int) -> tuple[Place, Place, Place]:
    """A quadratic curve to the right of the way, from the rim of one node to that of the other."""
    start, end = ring.place(tail), ring.place(head)
    way = (end[0] - start[0], end[1] - start[1])
    length = math.hypot(*way)
    bow = 2 * ring.bow(length)
    middle = (
        (start[0] + end[0]) / 2 - bow * way[1] / length,
        (start[1] + end[1]) / 2 + bow * way[0] / length,
    )
    rim = min(ring.node_radius + 2, 0.4 * length)
    return _towards(start, middle, rim), middle, _towards(end, middle, rim)


def _towards(place: Place, other: Place, distance: float) -> Place:
    share = distance / math.dist(place, other)
    return place[0] + share * (other[0] - place[0]), place[1] + share * (other[1] - place[1])


def _arrow(start: Place, middle: Place, end: Place, half: float) -> str:
    t = ARROW_AT
    at = [
        (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t**2 * c for a, b, c in zip(start, middle, end, strict=True)
    ]
    way = [(1 - t) * (b - a) + t * (c - b) for a, b, c in zip(start, middle, end, strict=True)]
    length = math.hypot(*way)
    ahead = (way[0] / length, way[1] / length)
    tip = (at[0] + 1.6 * half * ahead[0], at[1] + 1.6 * half * ahead[1])
    one = (at[0] - half * ahead[1], at[1] + half * ahead[0])
    other = (at[0] + half * ahead[1], at[1] - half * ahead[0])
    return "M{} {}L{} {}L{} {}Z".format(*map(number, (*tip, *one, *other)))


def _node(site: Site, ring: Ring, index: int) -> str:
    x, y = map(number, ring.place(index))
    tip = f"{site.name}: {site.note}" if site.note else site.name
    name = escaped(clipped(site.name, MAX_NAME_COLUMNS))
    return (
        f'<g class="node{"" if site.is_asked else " told"}"><title>{escaped(tip)}</title>'
        f'<circle cx="{x}" cy="{y}" r="{number(ring.node_radius)}"/>'
        f"<text {ring.name_attributes(index)}>{name}</text></g>"
    )
