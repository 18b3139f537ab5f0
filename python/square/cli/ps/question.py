"""Options of the commands that ask a master."""

import argparse

from square.cli import arguments, identities
from square.ps import Status, ask


def add_question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", required=True, metavar="ADDR", help="what `square ps master` printed")
    identities.add_options(parser, listens=False)
    parser.add_argument(
        "--timeout", type=arguments.positive_float, default=5.0, metavar="SECONDS", help="default 5"
    )


def asked(options: argparse.Namespace) -> Status:
    """Raises UnavailableError where no master answers in time."""
    return ask(options.master, identity=identities.identity_of(options), timeout=options.timeout)
