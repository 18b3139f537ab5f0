"""`square bench`: the paper's figures, measured on this machine."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from square.cli import arguments, documents, text
from square.errors import FailedPreconditionError
from square.run.network import MODES
from square.run.progress import display_for

if TYPE_CHECKING:
    from square.bench import Measurement, Results, Size

DEFAULT_FOLDER = Path("square-bench")
FIGURES = ("2a", "2b", "3a", "3b", "3c")
OF_ZOO = ("3a", "3b")
DEFAULT_SEEDS = 3
QUICK_SCALE = 0.1
PLAN = "plan"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "bench",
        "measure the figures of the paper on this machine",
        "Completion times of the paper's evaluation (docs/evaluation.md): as they are planned, or with\n"
        "--emulate as they are measured, every byte compared. Results are kept in a folder as they come:\n"
        "the same command goes on where it was interrupted. Ends with a table, report.json and report.html.",
        "  square bench 2a 3c\n"
        "  square bench all --topologies zoo\n"
        "  sudo square bench 2a --emulate netns --quick",
    )
    parser.add_argument(
        "figures", nargs="+", choices=(*FIGURES, "all"), metavar="FIGURE", help=f"{', '.join(FIGURES)} or all"
    )
    parser.add_argument(
        "--emulate",
        choices=MODES,
        help="run each point: pace on the loopback, netns in network namespaces whose links the kernel "
        "shapes (root)",
    )
    parser.add_argument(
        "--seeds",
        type=arguments.positive_int,
        metavar="N",
        help=f"draws of the links (default {DEFAULT_SEEDS}, quick 1)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer points, one seed, a tenth of the bytes where they run"
    )
    parser.add_argument(
        "--scale-bytes",
        type=arguments.positive_float,
        metavar="F",
        help="send F times the bytes of the paper",
    )
    parser.add_argument(
        "--topologies",
        type=Path,
        metavar="FOLDER",
        help="GML files of the Internet Topology Zoo, for 3a and 3b (default: topology-zoo in SQUARE_DATA); "
        "without it `all` leaves these out",
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        help=f"where results are kept (default {DEFAULT_FOLDER})",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--json", action="store_true", help="print report.json and nothing else")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    from square.bench import Results, report

    draws = _can_draw(options)  # said before anything is measured
    size = _size(options)
    figures = _chosen(options, size)
    measured = _measure_all(options, figures, size, Results(options.into))
    document = report.to_document(measured, figures)
    documents.write_file(options.into / "report.json", documents.to_text(document))
    if draws:
        report.write_page(options.into / "report.html", measured, figures, options.emulate or PLAN)
    if options.json:
        print(documents.to_text(document))
    else:
        _print(figures, measured, options.into)
    return 0


def _can_draw(options: argparse.Namespace) -> bool:
    from square.viz import check_matplotlib

    try:
        check_matplotlib()
    except FailedPreconditionError as error:
        _say(options, f"no report.html will be written: {error}")
        return False
    return True


def _size(options: argparse.Namespace) -> "Size":
    from square.bench import Size

    runs = options.emulate is not None
    zoo = options.topologies
    if zoo is None and os.environ.get("SQUARE_DATA"):
        zoo = Path(os.environ["SQUARE_DATA"]) / "topology-zoo"
    return Size(
        seeds=options.seeds or (1 if options.quick else DEFAULT_SEEDS),
        is_quick=options.quick,
        scale_bytes=options.scale_bytes or (QUICK_SCALE if options.quick and runs else 1.0),
        topologies=zoo,
    )


def _chosen(options: argparse.Namespace, size: "Size") -> list[str]:
    if "all" not in options.figures:
        return list(dict.fromkeys(options.figures))
    if size.topologies is not None:
        return list(FIGURES)
    left = [name for name in FIGURES if name not in OF_ZOO]
    _say(options, "without --topologies figures 3a and 3b are left out")
    return left


def _measure_all(
    options: argparse.Namespace, figures: list[str], size: "Size", results: "Results"
) -> "list[Measurement]":
    from square.bench import FIGURES as ALL
    from square.bench import measure

    way = options.emulate or PLAN
    points = [point for name in figures for point in ALL[name].points(size)]
    wanted = [(point, line) for point in points for line in point.lines if way == PLAN or line.can_run]
    if len(wanted) < sum(len(point.lines) for point in points):
        _say(options, "rings are planned only: of figure 3b the planned all-reduce alone runs")
    measured = []
    for number, (point, line) in enumerate(wanted, start=1):
        known = results.find((point.figure, point.place, point.seed, line.name, way, point.scale_bytes))
        if known is None:
            place = f"figure {point.figure}, {point.place}, seed {point.seed}, {line.name}"
            _say(options, f"{number} of {len(wanted)}: {place}")
            display = display_for(sys.stderr, quiet=options.quiet or way == PLAN)
            known = measure(point, line, way, display)
            results.add(known)
        measured.append(known)
    return measured


def _say(options: argparse.Namespace, words: str) -> None:
    if not options.quiet:
        print(f"square bench: {words}", file=sys.stderr, flush=True)


def _print(figures: list[str], measured: "list[Measurement]", folder: Path) -> None:
    from square.bench import FIGURES as ALL
    from square.bench import report

    console = text.console_for()
    for name in figures:
        table = text.table(
            ALL[name].places_are,
            "line",
            *("mean\ns", "±\ns", "last\ns", "bound\ns", "measured/\nplanned", "busy"),
            left=2,
        )
        for cell in report.cells(measured, name):
            table.add_row(
                cell.place,
                cell.line,
                text.seconds(cell.mean_seconds),
                text.seconds(cell.stddev_seconds),
                text.seconds(cell.last_seconds),
                text.seconds(cell.bound_seconds),
                "-" if cell.ratio is None else f"{cell.ratio:.3f}",
                "-" if cell.busy is None else text.percent(cell.busy),
            )
        text.print_titled(console, f"Figure {name}: {ALL[name].title}", table)
    console.print(f"{folder}: report.html has the figures, report.json all that was measured")
