"""A forked child has none of Square's threads: it must not use, nor destroy, what the parent made."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

_abandon: list[Callable[[], None]] = []
_is_forked = False


def check() -> None:
    """Raises RuntimeError in a process that was forked after Square was used."""
    if _is_forked:
        raise RuntimeError(
            "square: this process was forked from one that uses the backend square, and its threads did not "
            'come along: use the start method "spawn", or fork before init_process_group'
        )


def is_forked() -> bool:
    return _is_forked


def make_immortal(thing: Any) -> None:
    """Nothing in this process destroys `thing` any more."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def on_fork(abandon: Callable[[], None]) -> None:
    """In a child `abandon` runs once, if by then anything was in use."""
    _abandon.append(abandon)


def _after_in_child() -> None:
    for abandon in _abandon:
        abandon()


def mark_forked() -> None:
    """From `abandon`: there was something in use."""
    global _is_forked
    _is_forked = True


os.register_at_fork(after_in_child=_after_in_child)
