"""`square ps master`."""

import argparse
import sys
from pathlib import Path

from square._core import Scenario, Topology
from square.cli import arguments, documents, identities, served_metrics, serving
from square.ps import Ewma, Master, Nesterov


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "master",
        "decides which pushes make a version; has no training data",
        "Runs until SIGINT or SIGTERM. The first line of output is the address to give to servers and\n"
        "workers. Without an overlay members form a full mesh of links that are not known.",
        "  square ps master --bind 127.0.0.1:7000 --servers 2 --overlay links.csv",
    )
    _add_addresses(parser)
    _add_rounds(parser)
    _add_outer(parser)
    served_metrics.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print the addresses as a line of JSON")
    parser.add_argument("--verbose", action="store_true", help="log more")
    parser.set_defaults(execute=execute)


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bind", default="127.0.0.1:0", metavar="ADDR", help="where to listen (default 127.0.0.1:0)"
    )
    parser.add_argument(
        "--advertise", default="", metavar="ADDR", help="what members dial, where it is another address"
    )
    identities.add_options(parser, listens=True)
    parser.add_argument(
        "--controller", default="", metavar="ADDR", help="of an overlay that is there; else it brings one"
    )
    parser.add_argument(
        "--overlay", type=Path, metavar="FILE", help="topology or scenario that the data flow is planned over"
    )
    arguments.add_units(parser)


def _add_rounds(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("rounds")
    group.add_argument(
        "--servers", type=arguments.positive_int, default=1, metavar="N", help="that share a new model"
    )
    group.add_argument(
        "--no-move", action="store_true", help="servers that come later stand by: no shard moves to them"
    )
    group.add_argument(
        "--quorum", type=arguments.positive_int, default=1, metavar="N", help="pushes that begin a round"
    )
    group.add_argument(
        "--grace",
        type=arguments.not_negative_float,
        metavar="SECONDS",
        help="how long others may still join it (default: a twentieth of the time between pushes)",
    )
    group.add_argument(
        "--push", choices=("bf16", "float32", "parameters"), default="bf16", help="what workers push"
    )
    group.add_argument(
        "--chunks", type=int, default=0, metavar="N", help="parts of the data set to lease to workers"
    )
    group.add_argument(
        "--max-staleness", type=int, metavar="N", help="refuse pushes that began more versions ago"
    )
    group.add_argument(
        "--lease",
        type=arguments.positive_float,
        default=5.0,
        metavar="SECONDS",
        help="who is silent for so long is not there (default 5)",
    )


def _add_outer(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("outer optimizer")
    group.add_argument("--lr", type=float, default=Nesterov.lr, metavar="R", help="default 0.7")
    group.add_argument("--momentum", type=float, default=Nesterov.momentum, metavar="M", help="default 0.8")
    group.add_argument(
        "--clip", type=arguments.not_negative_float, default=1.0, metavar="N", help="0 for none; default 1"
    )
    group.add_argument(
        "--no-penalty", action="store_true", help="take all pushes that are finite, outliers too"
    )


def execute(options: argparse.Namespace) -> int:
    identity = identities.identity_of(options)
    served_metrics.check(options)  # before anything listens
    serving.log_to_stderr(verbose=options.verbose)
    with (
        serving.Service() as service,
        Master(
            options.bind,
            advertise=options.advertise,
            identity=identity,
            insecure=options.insecure,
            controller=options.controller,
            overlay=_overlay(options),
            servers=options.servers,
            quorum=options.quorum,
            grace="auto" if options.grace is None else options.grace,
            outer=Nesterov(options.lr, options.momentum),
            push=options.push,
            clip=options.clip or None,
            penalty=None if options.no_penalty else Ewma(),
            chunks=options.chunks,
            max_staleness=options.max_staleness,
            move_shards=not options.no_move,
            lease=options.lease,
        ) as master,
        served_metrics.served(master, options) as served,
    ):
        if options.json:
            documents.print_line({"address": master.address, "controller": master.controller, **served})
        else:
            served_metrics.announce(served)
            print(master.address, flush=True)
        service.wait()
        print("square: master stops", file=sys.stderr, flush=True)
    return 0


def _overlay(options: argparse.Namespace) -> Path | Scenario | Topology | None:
    file: Path | None = options.overlay
    if file is None or options.units is None:
        return file
    if file.suffix == ".toml":
        return Scenario.read(str(file), options.units)
    return Topology.read(str(file), options.units)
