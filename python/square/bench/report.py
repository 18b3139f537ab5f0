"""What was measured, as numbers by place and line, and as a page with the figures."""

import base64
import html
import io
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from square import __version__, page
from square.bench.figures import FIGURES, PLAN, SIMULATION, Figure
from square.bench.live import EXPERIMENTS, Course
from square.bench.measure import Measurement
from square.bench.session import Found
from square.run.processors import FULL


@dataclass(frozen=True)
class Cell:
    """One line at one place, over all seeds."""

    figure: str
    place: str
    line: str
    seeds: int
    mean_seconds: float  # of all collectives
    stddev_seconds: float  # of that, from seed to seed
    last_seconds: float  # of the slowest collective, in the mean over seeds
    bound_seconds: float  # of the slowest
    ratio: float | None  # measured over planned completion of the slowest, in the median
    busy: float | None

    @property
    def is_bound_by_machine(self) -> bool:
        return self.busy is not None and self.busy > FULL


def cells(measurements: Iterable[Measurement], figure: str) -> list[Cell]:
    """In the order in which they were measured."""
    grouped: dict[tuple[str, str], list[Measurement]] = {}
    for one in measurements:
        if one.figure == figure:
            grouped.setdefault((one.place, one.line), []).append(one)
    return [_cell(figure, place, line, group) for (place, line), group in grouped.items()]


def _cell(figure: str, place: str, line: str, group: list[Measurement]) -> Cell:
    means = [statistics.mean(one.seconds) for one in group]
    ratios = [one.ratio for one in group if one.ratio is not None]
    busy = [one.busy for one in group if one.busy is not None]
    return Cell(
        figure,
        place,
        line,
        len(group),
        statistics.mean(means),
        statistics.stdev(means) if len(means) > 1 else 0.0,
        statistics.mean(max(one.seconds) for one in group),
        statistics.mean(max(one.bound_seconds) for one in group),
        statistics.median(ratios) if ratios else None,
        statistics.median(busy) if busy else None,
    )


def to_document(found: Found) -> dict[str, Any]:
    return {
        "format": "square.bench/1",
        "version": __version__,
        "machine": describe_machine(),
        "command": sys.argv,
        "figures": {
            name: {
                "title": FIGURES[name].title,
                "cells": [
                    vars(cell) | {"is_bound_by_machine": cell.is_bound_by_machine}
                    for cell in cells(found.measurements, name)
                ],
                "measurements": [one.to_document() for one in found.measurements if one.figure == name],
            }
            for name in found.figures()
        },
        "experiments": [
            course.to_document() | {"title": EXPERIMENTS[course.experiment].title} for course in found.courses
        ],
    }


def describe_machine() -> dict[str, Any]:
    model = ""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "processors": os.cpu_count(),
        "model": model,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def write_page(file: Path, found: Found, way: str) -> None:
    """One file that needs no other. Raises ``FailedPreconditionError`` without matplotlib."""
    parts = []
    for name in found.figures():
        figure, own = FIGURES[name], cells(found.measurements, name)
        parts.append(f"<h2>Figure {name}: {html.escape(figure.title)}</h2>")
        picture = base64.b64encode(_picture(figure, own)).decode("ascii")
        parts.append(f'<img alt="figure {name}" src="data:image/svg+xml;base64,{picture}">')
        parts.append(_table(figure, own))
    parts += [_course(course) for course in found.courses]
    machine = html.escape(json.dumps(describe_machine()))
    command = html.escape(" ".join(sys.argv))
    measured = {PLAN: "planned", SIMULATION: "simulated"}.get(way, f"measured ({way})")
    body = (
        f"<h1>square bench</h1><p>Completions in seconds, {measured}. Square {__version__}; "
        f"<code>{command}</code>; {machine}.</p>{''.join(parts)}"
    )
    file.write_text(page.document("square bench", body), encoding="utf-8")


def write_pictures(folder: Path, found: Found) -> None:
    """``figure-NAME.svg`` and ``EXPERIMENT-SEED.svg``, as the page has them. Raises as ``write_page()``."""
    for name in found.figures():
        picture = _picture(FIGURES[name], cells(found.measurements, name))
        (folder / f"figure-{name}.svg").write_bytes(picture)
    for course in found.courses:
        title, series = _drawn(course)
        file = folder / f"{course.experiment}-{course.seed}.svg"
        file.write_text(page.picture(title, series, marks=course.marks), encoding="utf-8")


def _drawn(course: Course) -> tuple[str, list[page.Series]]:
    """Rates over time, the planned ones dashed."""
    mbps = 1e6
    series = []
    for curve in course.curves:
        series.append(page.Series(curve.tenant, [(at, bps / mbps) for at, bps in curve.measured]))
        steps = [(at, bps / mbps) for at, bps in curve.planned]
        # From one plan to the next it stays.
        held = [(later[0], now[1]) for now, later in pairwise([*steps, (curve.measured[-1][0], 0.0)])]
        planned = [point for pair in zip(steps, held, strict=True) for point in pair]
        series.append(page.Series(curve.tenant, planned, is_dashed=True))
    return f"{EXPERIMENTS[course.experiment].title} (seed {course.seed})", series


def _course(course: Course) -> str:
    """The rates, and what was asked of them."""
    title, series = _drawn(course)
    rows = [(verdict.what, verdict.found(), verdict.asked()) for verdict in course.verdicts]
    busy = f"{100 * course.busy:.0f}% of the machine busy"
    return page.chart(title, series, marks=course.marks) + page.table(
        f"{course.verified_bytes / 1e6:.0f} MB verified, {busy}", ("figure", "found", "asked"), rows
    )


def _table(figure: Figure, found: list[Cell]) -> str:
    head = (
        figure.places_are, "line", "mean s", "± s", "last s", "bound s", "measured / planned", "machine busy",
    )  # fmt: skip
    rows = []
    for cell in found:
        values = (
            html.escape(cell.place),
            html.escape(cell.line),
            f"{cell.mean_seconds:.2f}",
            f"{cell.stddev_seconds:.2f}",
            f"{cell.last_seconds:.2f}",
            f"{cell.bound_seconds:.2f}",
            "-" if cell.ratio is None else f"{cell.ratio:.3f}",
            _busy(cell),
        )
        rows.append("<tr>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
    titles = "".join(f"<th>{title}</th>" for title in head)
    return f"<table><tr>{titles}</tr>{''.join(rows)}</table>"


def _busy(cell: Cell) -> str:
    if cell.busy is None:
        return "-"
    return f"{100 * cell.busy:.0f}%{', not bound by the network' if cell.is_bound_by_machine else ''}"


def _picture(figure: Figure, found: list[Cell]) -> bytes:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # it is large
    from matplotlib.figure import Figure as Drawn

    drawn = Drawn(figsize=(7, 3.6), layout="constrained")
    axes = drawn.subplots()
    places = list(dict.fromkeys(cell.place for cell in found))
    lines = list(dict.fromkeys(cell.line for cell in found))
    width = 0.8 / len(lines)
    for number, line in enumerate(lines):
        own = {cell.place: cell for cell in found if cell.line == line}
        at = [places.index(place) + (number - (len(lines) - 1) / 2) * width for place in own]
        axes.bar(
            at,
            [cell.mean_seconds for cell in own.values()],
            width,
            yerr=[cell.stddev_seconds for cell in own.values()],
            label=line,
        )
    axes.set_xticks(range(len(places)), places)
    axes.set_xlabel(figure.places_are)
    axes.set_ylabel("average completion time (s)")
    axes.legend()
    FigureCanvasSVG(drawn)
    out = io.BytesIO()
    # The same figures give the same file.
    with rc_context({"svg.hashsalt": "square", "svg.fonttype": "none"}):
        drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
