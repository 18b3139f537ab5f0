"""Options of the commands that ask a master."""

import argparse
from pathlib import Path

from square.cli import arguments, documents
from square.ps import Status, ask


def add_question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", required=True, metavar="ADDR", help="what `square ps master` printed")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="the master's shared secret")
    parser.add_argument(
        "--timeout", type=arguments.positive_float, default=5.0, metavar="SECONDS", help="default 5"
    )


def asked(options: argparse.Namespace) -> Status:
    """Raises UnavailableError where no master answers in time."""
    return ask(options.master, token=documents.read_token(options.token_file), timeout=options.timeout)
