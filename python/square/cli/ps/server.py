"""`square ps server`."""

import argparse
import sys
from pathlib import Path

from square.cli import arguments, documents, identities, serving
from square.ps import Server


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "server",
        "keeps a shard of the model",
        "Serves until SIGINT or SIGTERM, or until it cannot. Started again on its folder it goes on.",
        "  square ps server --master 127.0.0.1:7000 --snapshots /data/one",
    )
    parser.add_argument("--master", required=True, metavar="ADDR", help="what `square ps master` printed")
    parser.add_argument(
        "--snapshots", required=True, type=Path, metavar="FOLDER", help="of its own: the shard's versions"
    )
    parser.add_argument("--name", default="", metavar="N", help="of its own, and the same each time")
    parser.add_argument(
        "--keep", type=arguments.positive_int, default=3, metavar="N", help="snapshots that stay (default 3)"
    )
    parser.add_argument("--bind", default="", metavar="ADDR", help="where its node listens")
    parser.add_argument(
        "--advertise", default="", metavar="ADDR", help="what others dial, where it is another address"
    )
    identities.add_options(parser, listens=True)
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="that calculate (default: one a processor)"
    )
    parser.add_argument(
        "--capacity-mbps", type=arguments.positive_float, metavar="M", help="its shard is in proportion"
    )
    parser.add_argument("--json", action="store_true", help="print its name as a line of JSON")
    parser.add_argument("--verbose", action="store_true", help="log more")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    identity = identities.identity_of(options)
    serving.log_to_stderr(verbose=options.verbose)
    with (
        serving.Service() as service,
        Server(
            options.master,
            options.snapshots,
            name=options.name,
            keep=options.keep,
            identity=identity,
            insecure=options.insecure,
            bind=options.bind,
            advertise=options.advertise,
            threads=options.threads,
            capacity=None if options.capacity_mbps is None else options.capacity_mbps * 1e6,
        ) as server,
    ):
        if options.json:
            documents.print_line({"name": server.name})
        else:
            print(server.name, flush=True)
        while not service.has_ended(0.0) and not server.wait(serving.SIGNAL_CHECK_SECONDS):
            pass
        print("square: server stops", file=sys.stderr, flush=True)
    return 0
