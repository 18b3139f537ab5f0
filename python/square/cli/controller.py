"""`square controller`: a controller in a process of its own."""

import argparse
import sys
import time
from pathlib import Path

from square._core import Controller, Scenario, Topology, trim_process_memory
from square.cli import arguments, documents, identities, serving
from square.errors import InvalidArgumentError, UnavailableError
from square.planning import with_policy

TRIM_SECONDS = 10.0
STEPPED_DOWN = "another controller leads; start this one again, with --stand-by, to follow it"


def add_parser(commands: arguments.Commands) -> None:
    parser = arguments.add_command(
        commands,
        "controller",
        "a controller in a process of its own",
        "Plans and publishes to the nodes that join, until SIGINT or SIGTERM. The first line of output\n"
        "is the address to give to nodes. Without a scenario or a topology, nodes that join form a full\n"
        "mesh of unlimited links. Without a scenario the policy is exact.",
        "  square controller scenario.toml --bind 127.0.0.1:7000",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO", help="overlay, policy, tenants, collectives"
    )
    what.add_argument(
        "--topology", type=Path, metavar="FILE", help="an overlay alone: GML, GraphML, CSV or TOML"
    )
    arguments.add_units(parser)
    arguments.add_policy_parts(parser)
    parser.add_argument(
        "--bind", default="127.0.0.1:0", metavar="ADDR", help="where to listen (default 127.0.0.1:0)"
    )
    parser.add_argument(
        "--advertise", default="", metavar="ADDR", help="what nodes dial, where it is another address"
    )
    identities.add_options(parser, listens=True)
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="keep groups and numbers there, for the controller that is started next; "
        "postgresql://... is a database, and lets that one be on another machine",
    )
    parser.add_argument(
        "--stand-by",
        action="store_true",
        help="with --store: wait while another controller has it, and lead when that one has ended; "
        "nodes are given the addresses of all, with commas",
    )
    parser.add_argument("--json", action="store_true", help="print the address as a line of JSON")
    parser.add_argument("--verbose", action="store_true", help="log more")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    if options.stand_by and not options.store:
        raise InvalidArgumentError("--stand-by needs --store, which the controllers share")
    identity = identities.identity_of(options)
    scenario = with_policy(_scenario(options), policy=options.policy, **arguments.policy_parts(options))
    serving.log_to_stderr(verbose=options.verbose)
    with (
        serving.Service() as service,
        Controller(
            scenario,
            bind_address=options.bind,
            advertised_address=options.advertise,
            identity=identity,
            insecure=options.insecure,
            store=options.store or "",
            standing_by=options.stand_by,
        ) as controller,
    ):
        if options.json:
            documents.print_line({"address": controller.address})
        else:
            print(controller.address, flush=True)
        trimmed = time.monotonic()
        while not service.has_ended(serving.SIGNAL_CHECK_SECONDS):
            if controller.has_stepped_down:
                raise UnavailableError(STEPPED_DOWN)
            # What large plans took is free again, and nobody asks for as much soon.
            if time.monotonic() - trimmed > TRIM_SECONDS:
                trim_process_memory()
                trimmed = time.monotonic()
        print("square: controller stops", file=sys.stderr, flush=True)
    return 0


def _scenario(options: argparse.Namespace) -> Scenario:
    if options.scenario is not None:
        return Scenario.read(str(options.scenario), options.units)
    if options.topology is not None:
        return Scenario(Topology.read(str(options.topology), options.units), name=options.topology.stem)
    return Scenario(Topology(), name="overlay")
