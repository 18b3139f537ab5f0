"""The ``square`` command: one module a subcommand."""

from square.cli.main import main

__all__ = ["main"]
