"""Reads the command line and turns errors into messages and exit codes."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence

from square import __version__
from square.cli import (
    bench,
    ca,
    check,
    controller,
    demo,
    doctor,
    node,
    paths,
    plan,
    ps,
    run,
    simulate,
    top,
    topology,
)
from square.errors import SquareError
from square.run.interruption import Interrupted
from square.run.mailbox import CALL_THREAD_NAME

EXIT_FAILED = 1

_EPILOG = """\
examples:
  square demo                            three tenants, four sites, three policies
  square topology abilene.gml            what there is
  square plan scenario.toml              what would happen
  square run scenario.toml               make it happen, on this machine
  square bench 2a 3c                     the figures of the paper
  square COMMAND --help                  every option, with an example
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="square",
        description="Plans and runs fair collectives over an overlay of uneven links.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"square {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    overlay = (controller, node, ps, ca, top, doctor)
    for command in (demo, topology, paths, plan, check, simulate, run, bench, *overlay):
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, 1 for an error, 2 for wrong usage,
    128 and the signal's number where a signal ended it."""
    _open_closed_streams()
    code = _run(arguments)
    if any(thread.name == CALL_THREAD_NAME for thread in threading.enumerate()):
        # A run was given up while the library computed; nothing else can end that.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _open_closed_streams() -> None:
    """Started with ``>&-`` there is no stream; what is written to it has nowhere to go."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _run(arguments: Sequence[str] | None) -> int:
    parsed = build_parser().parse_args(arguments)
    try:
        code: int = parsed.execute(parsed)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output went away, as `head` does; nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return _fail("interrupted", 128 + signal.SIGINT)
    except Interrupted as interruption:
        return _fail(str(interruption), 128 + interruption.signal_number)
    except (SquareError, OSError, UnicodeDecodeError) as error:
        if os.environ.get("SQUARE_DEBUG") == "1":
            raise
        return _fail(f"error: {_text_of(error)}", EXIT_FAILED)


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, SquareError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _fail(message: str, code: int) -> int:
    print(f"square: {message}", file=sys.stderr, flush=True)
    return code
