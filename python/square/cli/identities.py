"""The options by which commands say who they are, and whom they believe."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from square._core import Identity
from square.errors import InvalidArgumentError

VARIABLE = "SQUARE_IDENTITY"
_OLD_VARIABLE = "SQUARE_TOKEN"
_REMEDY = "make identities with `square ca init` and `square ca issue`, and name the folder with --identity"


class _Gone(argparse.Action):
    """An option that another one has taken the place of."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        parser.error(f"{option_string} is gone: identities take its place; {_REMEDY}")


def add_options(parser: argparse.ArgumentParser, *, listens: bool) -> None:
    """``--identity``, and ``--insecure`` for who may be reached from other machines."""
    what = "; needed beyond loopback" if listens else ""
    parser.add_argument(
        "--identity",
        type=Path,
        metavar="FOLDER",
        help=f"who this is, as `square ca issue` wrote it (default: {VARIABLE}){what}",
    )
    if listens:
        parser.add_argument(
            "--insecure",
            action="store_true",
            help="go without beyond loopback: whoever reaches it reads, changes and is anybody",
        )
    parser.add_argument("--token-file", "--token", action=_Gone, help=argparse.SUPPRESS)


def identity_of(options: argparse.Namespace) -> Identity | None:
    """None where none is named. Raises what the folder's files are wrong in."""
    if os.environ.get(_OLD_VARIABLE):
        raise InvalidArgumentError(
            f"{_OLD_VARIABLE} is set, and is gone: identities take its place; {_REMEDY} or {VARIABLE}"
        )
    insecure = getattr(options, "insecure", False)
    folder = options.identity or (None if insecure else os.environ.get(VARIABLE))
    return Identity(folder) if folder else None
