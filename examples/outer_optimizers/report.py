"""One HTML file with everything in it: curves as SVG, tables, and the settings to run it again."""

import html
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from modes import DATA_PARALLEL, Run

COLOURS = {
    "data-parallel": "#8a8f94",
    "diloco": "#1f5fa8",
    "diloco-int8": "#4fa3d9",
    "streaming": "#2f8f5b",
    "asynchronous": "#d9822b",
    "di-ps": "#b3202c",
    "di-ps-paced": "#8e44ad",
}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 520, 340, 52, 40, 12, 12
TICKS = 5
Point = tuple[int, float, float, float]
ABOVE_START = 0.15  # of the loss at the start: what goes beyond is not drawn
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #25292d; max-width: 1120px; margin: 2em auto }
table { border-collapse: collapse; margin: 0.5em 0 1.5em } caption { text-align: left; font-weight: 600 }
th, td { padding: 0.25em 0.9em; text-align: right; border-bottom: 1px solid #dde1e4 }
th:first-child, td:first-child { text-align: left } svg text { font-size: 11px; fill: #50565c }
figure { display: inline-block; margin: 0 } figcaption { font-weight: 600 }
.key span { display: inline-block; margin-right: 1.4em } .key i { display: inline-block; width: 1.4em;
border-top: 3px solid; vertical-align: middle; margin-right: 0.4em } pre { white-space: pre-wrap }
""".strip()


def document(figures: dict[str, Any], runs: list[Run]) -> str:
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        f"<title>Outer optimizers</title><style>{STYLE}</style></head><body>",
        "<h1>A small GPT over four emulated clusters</h1>",
        f"<p>{html.escape(about(figures))}</p>",
        key(runs),
    ]
    for horizon in horizons(runs):
        shown = [one for one in runs if one.horizon == horizon or one.mode == DATA_PARALLEL]
        parts += [
            f"<h2>{horizon} inner steps between exchanges</h2>",
            chart("held-out loss against tokens", "million tokens", shown, in_millions, "{:.2f}".format),
            chart("held-out loss against virtual time", "seconds, logarithmic", shown, in_time, in_seconds),
        ]
    parts += [loss_table(figures), bytes_table(figures), throughput_tables(figures), settings(figures)]
    return "\n".join(parts) + "\n</body></html>\n"


def in_millions(point: Point) -> float:
    return point[0] / 1e6


def in_time(point: Point) -> float:
    """By logarithm; the start has no place there."""
    return math.log10(point[1]) if point[1] > 0 else math.nan


def in_seconds(logarithm: float) -> str:
    return f"{10**logarithm:.0f}"


def horizons(runs: list[Run]) -> list[int]:
    return sorted({one.horizon for one in runs if one.mode != DATA_PARALLEL}, reverse=True)


def about(figures: dict[str, Any]) -> str:
    clusters = figures["clusters"]
    speeds = ", ".join(f"1/{1 / speed:.2f}" if speed != 1 else "1" for speed in clusters["speeds"])
    links = ", ".join(f"{mbps:g}" for mbps in clusters["links_mbps"])
    seeds = ", ".join(map(str, figures["seeds"]))
    return (
        f"{figures['parameters']} parameters, {figures['learning']['tokens']} tokens of {figures['text']} "
        f"after a warm start that all modes share, seeds {seeds}. Clusters of speeds {speeds}, joined by "
        f"{links} Mbit/s. Learning is real; time is a virtual clock. An all-reduce is a ring, as fast as its "
        "slowest link; the servers' own links hold nobody up. Losses are in nats a byte, of a tenth of the "
        "text that nobody trains on."
    )


def key(runs: list[Run]) -> str:
    names = dict.fromkeys(one.mode for one in runs)
    spans = [f'<span><i style="color:{COLOURS[name]}"></i>{name}</span>' for name in names]
    return f'<p class="key">{"".join(spans)} a line a seed</p>'


def chart(
    title: str, label: str, runs: list[Run], place: Callable[[Point], float], tick: Callable[[float], str]
) -> str:
    top = max(one.curve[0][3] for one in runs) * (1 + ABOVE_START)
    drawn = {}
    for one in runs:
        line = [(place(point), min(point[3], top)) for point in one.curve]
        drawn[id(one)] = [point for point in line if all(map(math.isfinite, point))]
    points = [point for line in drawn.values() for point in line]
    x_range = (min(x for x, _ in points), max(x for x, _ in points))
    y_range = (min(y for _, y in points), max(y for _, y in points))

    def x_of(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - x_range[0]) / (x_range[1] - x_range[0] or 1)

    def y_of(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (y_range[1] - y) / (y_range[1] - y_range[0] or 1)

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">']
    for number in range(TICKS):
        part = number / (TICKS - 1)
        x, y = (low + part * (high - low) for low, high in (x_range, y_range))
        svg.append(f'<path d="M{LEFT} {y_of(y):.1f}H{WIDTH - RIGHT}" stroke="#e6e9eb"/>')
        svg.append(f'<text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:.2f}</text>')
        svg.append(
            f'<text x="{x_of(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick(x)}</text>'
        )
    for one in runs:
        line = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in drawn[id(one)])
        svg.append(
            f'<polyline points="{line}" fill="none" stroke="{COLOURS[one.mode]}" stroke-width="1.4" '
            'stroke-opacity="0.85"/>'
        )
    svg.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{label}</text></svg>')
    return f"<figure><figcaption>{title}</figcaption>{''.join(svg)}</figure>"


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{head}</th>" for head in heads)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{html.escape(caption)}</caption><tr>{cells}</tr>{lines}</table>"


def loss_table(figures: dict[str, Any]) -> str:
    rows = []
    for row in figures["losses"]:
        above = row.get("above_reference")
        verdict = ""
        if above is not None:
            close = ["within 1%"] * row["is_close"] + ["within the spread"] * row["is_within_spread"]
            verdict = ", ".join(close) or "neither"
        rows.append([
            row["mode"], str(row["horizon"]), f"{row['mean']:.4f}", f"{row['deviation']:.4f}",
            f"{row['least']:.4f} to {row['largest']:.4f}", "" if above is None else f"{100 * above:+.2f}%",
            verdict, str(row["left_out"]), str(row["clipped"]),
        ])  # fmt: skip
    heads = ["mode", "H", "mean", "deviation", "least to largest", "over diloco", "", "pushes left out",
             "rounds clipped"]  # fmt: skip
    return table("Held-out loss at equal tokens", heads, rows)


def bytes_table(figures: dict[str, Any]) -> str:
    rows = [
        [
            row["mode"],
            str(row["horizon"]),
            ", ".join(f"{one['loss']:.4f}" for one in row["seeds"]),
            ", ".join(f"{one['bytes'][0] / 1e6:.0f}" for one in row["seeds"]),
            ", ".join(f"{one['bytes'][1] / 1e6:.2f}" for one in row["seeds"]),
            f"{row['mean']:.0f} ({row['least']:.0f} to {row['largest']:.0f})",
        ]
        for row in figures["bytes_until_the_same_loss"]
    ]
    heads = ["mode", "H", "loss, by seed", "MB, data parallel", "MB", "times fewer"]
    caption = "Bytes that a cluster sends and receives until both have the same held-out loss, measured"
    return table(caption, heads, rows)


def throughput_tables(figures: dict[str, Any]) -> str:
    parts = []
    for horizon, ceiling in figures["ceilings"].items():
        rows = [row for row in figures["throughput"] if str(row["horizon"]) == horizon]
        parts.append(throughput_table(f"Throughput and bytes, H = {horizon}, by the clock", rows, ceiling))
    arithmetic = figures["arithmetic"]
    caption = f"H = {arithmetic['horizon']}; {arithmetic['note']}"
    parts.append(throughput_table(caption, arithmetic["rows"], arithmetic["ceilings"]))
    return "\n".join(parts)


def throughput_table(caption: str, rows: list[dict[str, Any]], ceiling: dict[str, float]) -> str:
    heads = ["mode", "tokens/s", "over diloco", "kB a cluster and step", "times fewer than data parallel"]
    lines = [
        [
            row["mode"],
            f"{row['tokens_a_second']:.0f}",
            f"{row['over_reference']:.3f}",
            f"{row['bytes_a_step'] / 1e3:.2f}",
            f"{row['times_fewer_bytes']:.0f}",
        ]
        for row in rows
    ]
    says = (
        f"{caption}. Asynchrony gains {ceiling['without_communication']:.3f} at the most without "
        f"communication, {ceiling['over_these_links']:.3f} over these links"
    )
    return table(says, heads, lines)


def settings(figures: dict[str, Any]) -> str:
    shown = {name: figures[name] for name in ("command", "learning", "clusters", "outer", "digests")}
    lines = "\n".join(f"{name}: {value}" for name, value in shown.items())
    return f"<h2>To run it again</h2><pre>{html.escape(lines)}</pre>"
