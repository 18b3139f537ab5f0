"""`square ps place`."""

import argparse
import dataclasses
from pathlib import Path

from square.cli import arguments, documents
from square.cli.topology import read_topology
from square.errors import InvalidArgumentError
from square.ps.placement import Placement, place

DEFAULT_ROWS = 10


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "place",
        "where servers should be",
        "Plans all pushes and all pulls for every choice of sites, and prints when all are done, the\n"
        "first at the front; beside it what Di-PS ranks single sites by.",
        "  square ps place links.csv --workers lon,sfo,tyo --parameters 1000000000 --servers 2",
    )
    parser.add_argument("topology", type=Path, metavar="FILE", help="GML, GraphML, CSV or TOML")
    arguments.add_units(parser)
    parser.add_argument("--workers", required=True, metavar="A,B", help="the sites that train")
    parser.add_argument("--parameters", required=True, type=arguments.positive_int, metavar="N")
    parser.add_argument("--servers", type=arguments.positive_int, default=1, metavar="N", help="default 1")
    parser.add_argument("--candidates", metavar="A,B", help="sites that may serve (default all)")
    parser.add_argument("--push", choices=("bf16", "float32", "parameters"), default="bf16")
    parser.add_argument(
        "--limit", type=arguments.positive_int, default=DEFAULT_ROWS, metavar="N", help="rows at most"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    try:
        found = place(
            read_topology(options.topology, options.units),
            options.workers.split(","),
            options.parameters,
            servers=options.servers,
            candidates=options.candidates.split(",") if options.candidates else None,
            push=options.push,
        )
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    if options.json:
        print(documents.to_text({"placements": [dataclasses.asdict(one) for one in found]}))
    else:
        _print(found[: options.limit])
    return 0


def _print(found: list[Placement]) -> None:
    print(f"{'servers at':<32} {'push s':>9} {'pull s':>9} {'both s':>9} {'Di-PS Mbit/s':>13}")
    for one in found:
        score = "" if one.score is None else f"{one.score / 1e6:.1f}"
        print(
            f"{', '.join(one.sites):<32} {one.push_seconds:>9.3f} {one.pull_seconds:>9.3f} "
            f"{one.seconds:>9.3f} {score:>13}"
        )
