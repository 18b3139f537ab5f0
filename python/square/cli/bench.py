"""`square bench`: the paper's figures and what goes beyond them, measured on this machine."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from square.cli import arguments, documents, text
from square.errors import FailedPreconditionError
from square.run.machines import MachinesFile
from square.run.network import MACHINES, MODES
from square.run.progress import display_for

if TYPE_CHECKING:
    from square.bench import Found, Size

DEFAULT_FOLDER = Path("square-bench")
PAPER = ("2a", "2b", "3a", "3b", "3c")
BEYOND = ("regions", "gloo", "fairness", "greedy", "fading", "relay", "controller")
DEFAULT_SEEDS = 3
QUICK_SCALE = 0.1
PLAN = "plan"
SIMULATION = "simulation"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "bench",
        "measure the figures of the paper on this machine, and more",
        "Completion times of the paper's evaluation (docs/evaluation.md): as they are planned, with\n"
        "--simulate as nodes take in virtual time, or with --emulate or --machines as they are measured,\n"
        "every byte compared. Beyond the paper: a network of 63 regions,\n"
        "and, with --emulate netns, Gloo on the same overlay, tenants that come and go (fairness), one that\n"
        "is greedy, a link that fades, a relay that dies, a controller that is away.\n"
        "Results are kept in a folder as they come: the same command goes on where it was interrupted. Ends\n"
        "with a table, report.json and report.html.",
        "  square bench 2a 3c\n"
        "  square bench all --topologies zoo\n"
        "  sudo square bench 2a fairness --emulate netns --quick\n"
        "  square bench 3c --machines machines.toml",
    )
    names = (*PAPER, *BEYOND)
    parser.add_argument(
        "figures", nargs="+", choices=(*names, "all"), metavar="FIGURE", help=f"{', '.join(names)} or all"
    )
    _add_ways(parser)
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
        "--regions",
        type=Path,
        metavar="FILE",
        help="links of a measured network as CSV, for regions (default: inter-region/links.csv in "
        "SQUARE_DATA); without it `all` leaves this out",
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


def _add_ways(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--simulate",
        action="store_true",
        help="have nodes carry each point out in virtual time, every byte compared",
    )
    how.add_argument(
        "--emulate",
        choices=MODES,
        help="run each point: pace on the loopback, netns in network namespaces whose links the kernel "
        "shapes (root)",
    )
    arguments.add_machines(how)


def execute(options: argparse.Namespace) -> int:
    from square.bench import Session, report

    draws = _can_draw(options)  # said before anything is measured
    machines = None if options.machines is None else MachinesFile.read(options.machines)
    way = MACHINES if machines else options.emulate or (SIMULATION if options.simulate else PLAN)
    session = Session(
        way,
        _size(options),
        options.into,
        machines,
        say=lambda words: _say(options, words),
        display=lambda: display_for(sys.stderr, quiet=options.quiet or way in (PLAN, SIMULATION)),
    )
    names = session.chosen(options.figures)
    found = session.measure(names)
    document = report.to_document(found)
    documents.write_file(options.into / "report.json", documents.to_text(document))
    if draws:
        report.write_page(options.into / "report.html", found, way)
        report.write_pictures(options.into, found)
    if options.json:
        print(documents.to_text(document))
    else:
        _print(found, options.into)
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

    runs = options.simulate or options.emulate is not None or options.machines is not None
    zoo, regions = options.topologies, options.regions
    if os.environ.get("SQUARE_DATA"):
        data = Path(os.environ["SQUARE_DATA"])
        zoo = zoo or data / "topology-zoo"
        regions = regions or data / "inter-region" / "links.csv"
    return Size(
        seeds=options.seeds or (1 if options.quick else DEFAULT_SEEDS),
        is_quick=options.quick,
        scale_bytes=options.scale_bytes or (QUICK_SCALE if options.quick and runs else 1.0),
        topologies=zoo,
        regions=regions,
    )


def _say(options: argparse.Namespace, words: str) -> None:
    if not options.quiet:
        print(f"square bench: {words}", file=sys.stderr, flush=True)


def _print(found: "Found", folder: Path) -> None:
    from square.bench import FIGURES, report

    console = text.console_for()
    for name in found.figures():
        table = text.table(
            FIGURES[name].places_are,
            "line",
            *("mean\ns", "±\ns", "last\ns", "bound\ns", "measured/\nplanned", "busy"),
            left=2,
        )
        for cell in report.cells(found.measurements, name):
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
        text.print_titled(console, f"Figure {name}: {FIGURES[name].title}", table)
    if found.courses:
        table = text.table("experiment", "seed", "figure", "found", "asked", left=3)
        for course in found.courses:
            for verdict in course.verdicts:
                table.add_row(
                    course.experiment, str(course.seed), verdict.what, verdict.found(), verdict.asked()
                )
        text.print_titled(console, "Overlays that change", table)
    console.print(f"{folder}: report.html has the figures, report.json all that was measured")
