"""Brings what libsquare logs to Python's ``logging``, under the logger ``square``.

The library drops its messages until somebody asks for them::

    logging.basicConfig()
    square.log.connect(logging.INFO)
"""

import atexit
import logging

from square import _core

# A program that does not configure logging sees nothing of ours.
logging.getLogger("square").addHandler(logging.NullHandler())


def connect(minimum: int = logging.INFO) -> None:
    """Passes messages of ``minimum`` and above on to ``square.<component>``.

    The library's levels have the numbers of ``logging``. Replaces an earlier call.
    """
    _core.set_log(_forward, minimum)


def disconnect() -> None:
    """Drops the library's messages again."""
    _core.set_log(None)


def _forward(level: int, component: str, message: str) -> None:
    logging.getLogger(f"square.{component}").log(level, "%s", message)


# Threads of the library may outlive the interpreter by a moment.
atexit.register(disconnect)
