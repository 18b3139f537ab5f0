"""What changes over time, as lines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from square.errors import InvalidArgumentError
from square.page import marks as moments
from square.page import scale
from square.page.look import STYLE
from square.page.words import clipped, columns_of, escaped, figure, number

# More colours nobody tells apart; what has none is not drawn, and the picture says so.
MAX_NAMES = 8
MAX_NAME_COLUMNS = 22

WIDTH, HEIGHT = 720, 320  # of the picture, in pixels, without labels of marks
LEFT, TOP, BOTTOM = 56, 30, 28  # around the plot
LETTER = 7.0  # about the width of one
LABEL_DISTANCE = 16.0
DOT = 3  # radius of a point between two gaps
Y_TICKS, X_TICKS = 5, 7


@dataclass(frozen=True)
class Series:
    """A line. Seconds and values; None, and what is not finite, leaves a gap.

    Series of one name have one colour: for instance what was measured, and in dashes what was planned.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    is_dashed: bool = False


@dataclass(frozen=True)
class _Plot:
    """From values to pixels."""

    first: float
    last: float
    top_value: float
    right: float
    top: float
    bottom: float

    def x(self, seconds: float) -> float:
        span = self.last - self.first
        return LEFT + (self.right - LEFT) * ((seconds - self.first) / span if span > 0 else 0.5)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * min(max(value, 0.0) / self.top_value, 1.0)


def chart(
    title: str,
    series: Sequence[Series],
    unit: str = "Mbit/s",
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """A figure with a caption: values from zero, each line with its name and last value at its end.

    Values are in ``unit`` and not negative; the axis of time covers all points and marks. A mark is a
    vertical line with a label, which only its tooltip has where others leave no room. Draws the series of
    the first MAX_NAMES names, and the last moments.MAX_MARKS marks.
    """
    names = list(dict.fromkeys(one.name for one in series))
    lines = [(one, names.index(one.name)) for one in series if one.name in names[:MAX_NAMES]]
    marks = [mark for mark in marks if math.isfinite(mark[0])][-moments.MAX_MARKS :]
    rest = len(names) - MAX_NAMES
    note = f'<p class="note">And {rest} more that are not drawn.</p>' if rest > 0 else ""
    caption = f"<figcaption>{escaped(title)}</figcaption>"
    return f'<figure class="course">{caption}{_picture(title, lines, unit, marks)}{note}</figure>'


def picture(
    title: str,
    series: Sequence[Series],
    unit: str = "Mbit/s",
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """What ``chart()`` draws, as an SVG file of its own. Raises ``InvalidArgumentError`` without a value."""
    drawn = chart(title, series, unit, marks)
    if "<svg " not in drawn:
        raise InvalidArgumentError(f"{title}: no value to draw")
    opening, _, rest = drawn[drawn.index("<svg ") : drawn.index("</svg>")].partition(">")
    own = '<svg xmlns="http://www.w3.org/2000/svg" ' + opening.removeprefix("<svg ")
    ground = '<rect width="100%" height="100%" fill="var(--card)"/>'
    return f"{own}><style>{STYLE}</style>{ground}{rest}</svg>\n"


def _picture(
    title: str, lines: list[tuple[Series, int]], unit: str, marks: Sequence[tuple[float, str]]
) -> str:
    points = [point for one, _ in lines for point in _known(one)]
    if not points:
        return '<p class="none">Nothing is measured yet.</p>'
    times = [at for at, _ in (*points, *marks)]
    values = scale.ticks(max(value for _, value in points), Y_TICKS)
    right = WIDTH - LETTER * max(columns_of(_label(one)) for one, _ in lines) - 20
    plot = _Plot(min(times), max(times), values[-1], right, TOP, HEIGHT - BOTTOM)
    rows = moments.rows_of(marks, plot.x, WIDTH)
    more = moments.height_of(rows)
    plot = _Plot(plot.first, plot.last, plot.top_value, right, TOP + more, HEIGHT + more - BOTTOM)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {number(HEIGHT + more)}" role="img" aria-label="{escaped(title)}">',
        *_axes(plot, values, unit),
        *moments.drawn(marks, rows, plot.x, TOP - 8, plot.bottom, plot.last),
        *(_line(plot, one, colour, unit) for one, colour in lines if _known(one)),
        *_labels(plot, lines),
        "</svg>",
    ]
    return "\n".join(parts)


def _known(one: Series) -> list[tuple[float, float]]:
    return [
        (at, value)
        for at, value in one.points
        if value is not None and math.isfinite(value) and math.isfinite(at)
    ]


def _axes(plot: _Plot, values: list[float], unit: str) -> list[str]:
    # The unit stands over the figures, left of what marks say.
    parts = [f'<text class="soft" x="0" y="{number(plot.top - 16)}">{escaped(unit)}</text>']
    for value in values:
        y = number(plot.y(value))
        kind = "base" if value == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y}H{number(plot.right)}"/>')
        parts.append(
            f'<text class="soft" x="{LEFT - 8}" y="{y}" dy=".35em" text-anchor="end">{value:,.10g}</text>'
        )
    for at in scale.time_ticks(plot.first, plot.last, X_TICKS):
        x, label = number(plot.x(at)), scale.time_label(at, plot.last)
        parts.append(f'<path class="base" d="M{x} {number(plot.bottom)}v4"/>')
        parts.append(
            f'<text class="soft" x="{x}" y="{number(plot.bottom + 18)}" text-anchor="middle">{label}</text>'
        )
    return parts


def _line(plot: _Plot, one: Series, colour: int, unit: str) -> str:
    parts = []
    for run in _runs(one):
        places = [f"{number(plot.x(at))} {number(plot.y(value))}" for at, value in run]
        if len(places) > 1:
            parts.append(f'<path d="M{"L".join(places)}"/>')
        else:
            x, y = places[0].split()
            parts.append(f'<circle cx="{x}" cy="{y}" r="{DOT}"/>')
    values = [value for _, value in _known(one)]
    name = f"{one.name} (dashed)" if one.is_dashed else one.name
    tip = f"{name}: {figure(values[-1])} {unit} at last, {figure(min(values))} to {figure(max(values))}"
    kind = "dashed" if one.is_dashed else "line"
    return f'<g class="{kind} c{colour + 1}"><title>{escaped(tip)}</title>{"".join(parts)}</g>'


def _runs(one: Series) -> list[list[tuple[float, float]]]:
    """What is known without a gap."""
    known = set(_known(one))
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in one.points:
        if value is not None and (at, value) in known:
            runs[-1].append((at, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _label(one: Series) -> str:
    """With its last value, unless the line ends before."""
    name = clipped(one.name, MAX_NAME_COLUMNS)
    value = one.points[-1][1] if one.points else None
    return name if value is None or not math.isfinite(value) else f"{name} {figure(value)}"


def _labels(plot: _Plot, lines: Sequence[tuple[Series, int]]) -> list[str]:
    """At the right, one of each name, moved apart where they would lie on one another."""
    of_colour: dict[int, Series] = {}
    for one, colour in lines:
        if _known(one) and (colour not in of_colour or of_colour[colour].is_dashed):
            of_colour[colour] = one
    ends = sorted((plot.y(_known(one)[-1][1]), colour) for colour, one in of_colour.items())
    parts = []
    for (y, colour), place in zip(ends, _apart([y for y, _ in ends], plot.top, plot.bottom), strict=True):
        label = escaped(_label(of_colour[colour]))
        leader = f"M{number(plot.right + 3)} {number(y)}L{number(plot.right + 12)} {number(place)}"
        parts.append(f'<path class="leader c{colour + 1}" d="{leader}"/>')
        parts.append(f'<text x="{number(plot.right + 16)}" y="{number(place)}" dy=".35em">{label}</text>')
    return parts


def _apart(places: list[float], low: float, high: float) -> list[float]:
    """Ascending places, moved as little as a pass down and one up need."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + LABEL_DISTANCE if moved else low))
    limit = high
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - LABEL_DISTANCE
    return moved
