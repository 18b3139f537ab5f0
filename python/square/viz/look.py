"""Sizes and colours of a picture."""

import math
from dataclasses import dataclass

from matplotlib.colors import Colormap, LinearSegmentedColormap

MIN_WIDTH, MAX_WIDTH = 0.9, 6.0  # of a link, in points
MAX_INCHES = 40.0
DARK = "#30353a"
GREY = "#b0b5ba"
IDLE_COLOUR = "#c8ccd0"


@dataclass(frozen=True)
class Look:
    """Sizes by the number of nodes; lengths in units of the layout, from -1 to 1."""

    inches: float
    font: float
    node: float  # radius
    bow: float  # how far a link is from the straight line
    point: float  # a typographic point

    @classmethod
    def of(cls, nodes: int) -> "Look":
        crowd = min(max((nodes - 8) / 52, 0.0), 1.0)
        # Past 60 nodes the picture grows.
        inches = min((8.0 + 5.0 * crowd) * max(nodes / 60, 1.0) ** 0.5, MAX_INCHES)
        point = 2.4 / (0.75 * 72 * inches)  # the axes have about three quarters of the figure
        return cls(
            inches=inches,
            font=11.0 - 4.5 * crowd,
            node=(13.0 - 6.0 * crowd) * point,
            bow=(7.0 - 3.0 * crowd) * point,
            point=point,
        )


def colours_of_use() -> Colormap:
    """From grey blue, which white paper shows, to a red that is full."""
    return LinearSegmentedColormap.from_list("used", ["#7fa8d1", "#e0b13a", "#d9602b", "#a3002d"])


def used_share(load_bps: float, capacity_bps: float, unlimited_bps: float) -> float:
    capacity = capacity_bps if math.isfinite(capacity_bps) else unlimited_bps
    return min(load_bps / capacity, 1.0) if capacity > 0 else 0.0


def width_of(load_bps: float, widest_bps: float) -> float:
    return MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * load_bps / widest_bps if widest_bps > 0 else MIN_WIDTH
