"""Links as bows with heads."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap

from square._core import PlanLink
from square.viz.layout import Points
from square.viz.look import IDLE_COLOUR, Look, used_share, width_of

CURVE_POINTS = 24


def draw_links(
    axes: Axes,
    links: list[PlanLink],
    pairs: list[tuple[int, int]],
    places: Points,
    look: Look,
    colours: Colormap,
    idle_drawn: bool,
) -> None:
    widest = max((link.load_bps for link in links), default=0.0)
    capacities = [link.capacity_bps for link in links if math.isfinite(link.capacity_bps)]
    # As in the planner: what is not limited counts as the widest that is.
    unlimited = max(capacities, default=1e9)
    idle = [pair for link, pair in zip(links, pairs, strict=True) if link.load_bps <= 0]
    if idle_drawn and idle:
        curves = [_curve(places[tail], places[head], look) for tail, head in idle]
        axes.add_collection(LineCollection(curves, colors=IDLE_COLOUR, linewidths=0.7, zorder=1))
        axes.add_collection(
            PolyCollection([_arrow(curve, 0.7, look) for curve in curves], facecolors=IDLE_COLOUR, zorder=1)
        )
    # The fullest on top.
    busy = [(link, pair) for link, pair in zip(links, pairs, strict=True) if link.load_bps > 0]
    busy.sort(key=lambda item: used_share(item[0].load_bps, item[0].capacity_bps, unlimited))
    curves = [_curve(places[tail], places[head], look) for _, (tail, head) in busy]
    widths = [width_of(link.load_bps, widest) for link, _ in busy]
    paint = [colours(used_share(link.load_bps, link.capacity_bps, unlimited)) for link, _ in busy]
    if busy:
        lines = LineCollection(curves, colors=paint, linewidths=widths, zorder=2, capstyle="butt")
        axes.add_collection(lines)
        arrows = [_arrow(curve, width, look) for curve, width in zip(curves, widths, strict=True)]
        axes.add_collection(
            PolyCollection(arrows, facecolors=paint, edgecolors="white", linewidths=0.7, zorder=3)
        )


def _curve(start: Points, end: Points, look: Look) -> Points:
    """A bow to the right of the way, from the rim of one node to that of the other."""
    way = end - start
    length = float(np.hypot(*way)) or 1.0
    right = np.array([way[1], -way[0]]) / length
    bow = look.bow + 0.05 * length
    middle = (start + end) / 2 + 2 * bow * right
    rim = min(1.45 * look.node / length, 0.4)
    t = np.linspace(rim, 1 - rim, CURVE_POINTS)[:, None]
    curve: Points = (1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t**2 * end
    return curve


def _arrow(curve: Points, width: float, look: Look) -> Points:
    """A head at three fifths of the way: near the nodes many links meet."""
    at = 3 * len(curve) // 5
    ahead = curve[at + 1] - curve[at]
    ahead = ahead / (float(np.hypot(*ahead)) or 1.0)
    half = (0.5 * width + 2.0) * look.point
    side = np.array([-ahead[1], ahead[0]]) * half
    return np.array([curve[at] + 2.4 * half * ahead, curve[at] + side, curve[at] - side])
