"""The picture of a plan: topology, loads, limits."""

import math
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Wedge
from matplotlib.patheffects import withStroke

from square import files
from square._core import Plan
from square.viz.layout import Points, is_circle, positions
from square.viz.links import draw_links
from square.viz.look import DARK, GREY, IDLE_COLOUR, Look, colours_of_use, used_share, width_of

MAX_TITLE_RATES = 6
# Overlays with more idle links than this show only those in use.
MAX_IDLE_LINKS = 400
MAX_LEGEND_COLUMNS = 4
# Of the figure's width: letters are a little wider at other resolutions.
MAX_LEGEND_WIDTH = 0.97


def draw(plan: Plan) -> Figure:
    nodes, links = plan.nodes, plan.links
    index = {node.name: number for number, node in enumerate(nodes)}
    pairs = [(index[link.from_node], index[link.to_node]) for link in links]
    places = positions(len(nodes), pairs)
    look = Look.of(len(nodes))
    low, high = places.min(axis=0, initial=0.0), places.max(axis=0, initial=0.0)
    margin = 0.12 + 3.2 * look.node
    width, height = (high - low) + 2 * margin
    figure = Figure(figsize=(look.inches, 0.8 * look.inches * height / width + 1.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_xlim(low[0] - margin, high[0] + margin)
    axes.set_ylim(low[1] - margin, high[1] + margin)
    colours = colours_of_use()
    used = [link.load_bps > 0 for link in links]
    idle_drawn = len(links) - sum(used) <= MAX_IDLE_LINKS
    draw_links(axes, links, pairs, places, look, colours, idle_drawn)
    has_rings = _draw_rings(axes, plan, places, look, colours)
    _draw_nodes(axes, plan, places, look, is_circle(len(nodes), pairs))
    if any(used):
        bar = figure.colorbar(
            ScalarMappable(Normalize(0, 100), colours), ax=axes, shrink=0.6, aspect=30, pad=0.01
        )
        bar.set_label("used share of the capacity, %", fontsize=look.font)
        bar.ax.tick_params(labelsize=look.font)
    _draw_legend(figure, plan, look, colours, idle_drawn, has_rings)
    figure.suptitle(_title(plan), fontsize=look.font + 1.5)
    return figure


def write(figure: Figure, file: Path) -> None:
    """Replaces the file whole. The same figure gives the same bytes."""
    kind = file.suffix.lower().removeprefix(".")
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with files.replacing(file) as path, matplotlib.rc_context({"svg.hashsalt": "square"}):
        figure.savefig(path, format=kind, dpi=150, metadata=dates)


def _draw_rings(axes: Axes, plan: Plan, places: Points, look: Look, colours: Colormap) -> bool:
    """The limits of nodes: the upper half of a ring for what leaves, the lower for what enters."""
    out: dict[str, float] = {}
    into: dict[str, float] = {}
    for link in plan.links:
        out[link.from_node] = out.get(link.from_node, 0.0) + link.load_bps
        into[link.to_node] = into.get(link.to_node, 0.0) + link.load_bps
    wedges: list[Patch] = []
    paint = []
    for node, place in zip(plan.nodes, places, strict=True):
        for limit, load, start in (
            (node.egress_bps, out.get(node.name, 0.0), 0),
            (node.ingress_bps, into.get(node.name, 0.0), 180),
        ):
            if math.isfinite(limit):
                centre = (float(place[0]), float(place[1]))
                wedges.append(Wedge(centre, 1.4 * look.node, start, start + 180, width=0.32 * look.node))
                paint.append(colours(used_share(load, limit, limit)))
    if wedges:
        axes.add_collection(
            PatchCollection(wedges, facecolors=paint, edgecolors="white", linewidths=0.5, zorder=5)
        )
    return bool(wedges)


def _draw_nodes(axes: Axes, plan: Plan, places: Points, look: Look, in_circle: bool) -> None:
    sessions = plan.sessions
    roots = {session.root for session in sessions}
    members = {name for session in sessions for name in session.members}
    circles: list[Patch] = []
    paint = []
    for node, (x, y) in zip(plan.nodes, places, strict=True):
        circles.append(Wedge((float(x), float(y)), look.node, 0, 360))
        paint.append(_node_colour(node.name, roots, members))
        angle = math.atan2(y, x) if in_circle else math.pi / 2
        reach = 1.75 * look.node
        turn, side = _turned(angle) if in_circle and len(plan.nodes) > 12 else (0.0, "center")
        label = axes.text(
            x + reach * math.cos(angle),
            y + reach * math.sin(angle),
            node.name,
            fontsize=look.font,
            rotation=turn,
            rotation_mode="anchor",
            ha=side if turn or side != "center" else _side(angle, in_circle),
            va="center" if in_circle else "bottom",
            zorder=7,
        )
        label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    axes.add_collection(PatchCollection(circles, facecolors=paint, edgecolors=DARK, zorder=6))


def _node_colour(name: str, roots: set[str], members: set[str]) -> str:
    return DARK if name in roots else "#ffffff" if name in members else GREY


def _side(angle: float, in_circle: bool) -> str:
    if not in_circle or abs(math.cos(angle)) < 0.2:
        return "center"
    return "left" if math.cos(angle) > 0 else "right"


def _turned(angle: float) -> tuple[float, str]:
    """Names around a circle point outwards, and are never upside down."""
    degrees = math.degrees(angle)
    return (degrees, "left") if math.cos(angle) >= 0 else (degrees + 180.0, "right")


def _draw_legend(
    figure: Figure, plan: Plan, look: Look, colours: Colormap, idle_drawn: bool, has_rings: bool
) -> None:
    widest = max((link.load_bps for link in plan.links), default=0.0)
    handles: list[Line2D] = []
    for part in (1.0, 0.5):
        if widest > 0:
            width = width_of(part * widest, widest)
            label = f"{part * widest / 1e6:.4g} Mbit/s"
            handles.append(Line2D([], [], color=DARK, linewidth=width, label=label))
    idle = sum(link.load_bps <= 0 for link in plan.links)
    if idle:
        label = f"{idle} idle links" + ("" if idle_drawn else ", not drawn")
        handles.append(Line2D([], [], color=IDLE_COLOUR, linewidth=0.7, label=label))
    for label, colour in (("root", DARK), ("member", "#ffffff"), ("neither", GREY)):
        handles.append(_mark(label, colour, DARK))
    if has_rings:
        handles.append(_mark("ring: node limits, leaving above, entering below", "none", colours(1.0)))
    _place_legend(figure, handles, look)


def _place_legend(figure: Figure, handles: list[Line2D], look: Look) -> None:
    """Below the picture, in as many columns as its width has room for."""
    for columns in range(MAX_LEGEND_COLUMNS, 0, -1):
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, fontsize=look.font, frameon=False
        )
        if columns == 1 or legend.get_window_extent().width <= MAX_LEGEND_WIDTH * figure.bbox.width:
            return
        legend.remove()


def _mark(label: str, face: str, edge: str | tuple[float, float, float, float]) -> Line2D:
    return Line2D([], [], linestyle="", marker="o", markerfacecolor=face, markeredgecolor=edge, label=label)


def _title(plan: Plan) -> str:
    what = "rates" if plan.realised else "lp rates, no streams"
    rates = [
        (collective, collective.rate_bps if plan.realised else collective.lp_rate_bps)
        for collective in plan.collectives
    ]
    known = [rate for _, rate in rates if math.isfinite(rate)]
    head = (
        f"policy {plan.policy}: minimum {min(known, default=0.0) / 1e6:.3f}, "
        f"total {sum(known) / 1e6:.3f} Mbit/s"
    )
    shown = [
        f"{c.id} {c.tenant} {rate / 1e6:.3f}" for c, rate in rates[:MAX_TITLE_RATES] if math.isfinite(rate)
    ]
    if not shown:
        return head
    rest = f", {len(rates) - MAX_TITLE_RATES} more" if len(rates) > MAX_TITLE_RATES else ""
    # Names of tenants may hold what matplotlib takes for formulas.
    return f"{head}\n{what}: {', '.join(shown)}{rest}".replace("$", r"\$")
