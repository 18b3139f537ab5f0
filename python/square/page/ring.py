"""Nodes on a circle: where each is, and where its name stands."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from square.page.words import clipped, columns_of, number

RADIUS = 230.0
# With more nodes the circle grows: names need so much of it each.
NAME_ARC = 30.0
# With more, names beside one another would touch; they stand along the spokes.
MAX_LEVEL_NAMES = 16
MAX_NAME_COLUMNS = 20
LETTER = 7.5  # about the width of one
NAME_GAP = 9.0  # from the node's rim

Place = tuple[float, float]  # right and down from the centre, in pixels


@dataclass(frozen=True)
class Ring:
    """The first node on top, the others clockwise; two beside one another, one in the middle."""

    count: int

    @property
    def radius(self) -> float:
        return max(RADIUS, self.count * NAME_ARC / (2 * math.pi)) if self.count > 1 else 0.0

    @property
    def node_radius(self) -> float:
        return 10.0 if self.count <= 12 else 7.0 if self.count <= 32 else 5.0

    @property
    def max_width(self) -> float:
        """Of a link, so that both directions stay apart."""
        return 14.0 if self.count <= 8 else 9.0 if self.count <= 16 else 5.0

    def angle(self, index: int) -> float:
        """Clockwise from the right, from -pi/2 to 3/2 pi."""
        top = math.pi if self.count == 2 else -math.pi / 2
        return (
            top + 2 * math.pi * index / max(self.count, 1) - (2 * math.pi if self.count == 2 and index else 0)
        )

    def place(self, index: int) -> Place:
        angle = self.angle(index)
        return self.radius * math.cos(angle), self.radius * math.sin(angle)

    def bow(self, length: float) -> float:
        """How far the middle of a link of that length is from the straight line."""
        return min(self.max_width, 0.15 * length) + 0.05 * length

    def half_size(self, names: Sequence[str]) -> Place:
        """From the centre to the picture's sides, and to its top and bottom, with names and all."""
        longest = LETTER * max((columns_of(clipped(name, MAX_NAME_COLUMNS)) for name in names), default=0)
        room = self.node_radius + NAME_GAP
        if self.count == 1:
            return longest / 2 + room, room + 40
        right = self.radius + room + longest
        if self.count == 2:
            return right, self.bow(2 * self.radius) + room + 20
        return right, right if self.count > MAX_LEVEL_NAMES else self.radius + room + 20

    def name_attributes(self, index: int) -> str:
        """Of the text element that has the name of a node."""
        angle = self.angle(index)
        right, down = math.cos(angle), math.sin(angle)
        away = self.radius + self.node_radius + NAME_GAP
        if self.count > MAX_LEVEL_NAMES:
            turn = math.degrees(angle)
            # Names on the left would stand on their heads.
            is_left = 90.5 < turn < 269.5
            spoke = f"rotate({number(turn)}) translate({number(away)}) rotate({180 if is_left else 0})"
            return f'transform="{spoke}" dy=".35em" text-anchor="{"end" if is_left else "start"}"'
        if self.count == 1:
            return f'y="{number(self.node_radius + NAME_GAP + 12)}" text-anchor="middle"'
        anchor = "middle" if abs(right) < 0.1 else "start" if right > 0 else "end"
        lift = ".35em" if abs(right) >= 0.1 else "0" if down < 0 else ".7em"
        x, y = number(away * right), number(away * down)
        return f'x="{x}" y="{y}" dy="{lift}" text-anchor="{anchor}"'
