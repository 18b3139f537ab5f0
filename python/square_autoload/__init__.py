"""What torch loads by entry point, so that ``backend="square"`` needs no import.

It is a package of its own and imports nothing of ``square``: ``import torch`` runs it, and must neither
pay for Square nor break where Square is broken.
"""

import contextlib
import functools
import sys
from datetime import timedelta
from typing import Any

NAME = "square"
DEVICES = ["cpu", "cuda"]


def _create(backend_options: Any, options: Any) -> Any:
    # The first group pays for the import, and reads its errors.
    from square.torch.process_group import create

    return create(backend_options, options)


def register() -> None:
    """Tells torch.distributed about the backend. Idempotent; raises nothing."""
    try:
        from torch import distributed

        if not distributed.is_available() or NAME.upper() in distributed.Backend._plugins:
            return
        distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=DEVICES)
        _replace(distributed, "monitored_barrier", _monitored_barrier)
        _replace(distributed, "_set_pg_timeout", _set_timeout)
    except Exception as error:  # whatever it is, torch must go on
        import warnings

        with contextlib.suppress(Warning):  # under -W error
            warnings.warn(f"square is not registered with torch.distributed: {error}", stacklevel=2)


def _replace(distributed: Any, name: str, ours: Any) -> None:
    """torch's function `name` becomes `ours`, which takes torch's as its first argument.

    torch refuses, or does nothing, where the group is not Gloo's. A group of square can do it.
    """
    modules = [distributed.distributed_c10d, distributed]
    before = getattr(modules[0], name, None)
    if before is None:
        return

    @functools.wraps(before)
    def function(*args: Any, **named: Any) -> Any:
        return ours(before, *args, **named)

    for module in modules:
        if hasattr(module, name):
            setattr(module, name, function)


def _group_of_square(group: Any) -> Any:
    """The group, the default one if None; None where it is another backend's."""
    from torch import distributed

    # Where the module is not loaded, there is no such group.
    module = sys.modules.get("square.torch.process_group")
    chosen = distributed.group.WORLD if group is None else group
    return chosen if module is not None and isinstance(chosen, module.ProcessGroup) else None


def _monitored_barrier(
    before: Any, group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
) -> Any:
    ours = _group_of_square(group)
    if ours is None:
        return before(group, timeout, wait_all_ranks)
    # torch takes seconds, too.
    limit = timedelta(seconds=timeout) if isinstance(timeout, int | float) else timeout
    return ours.monitored_barrier(limit, wait_all_ranks=wait_all_ranks)


def _set_timeout(before: Any, timeout: timedelta, group: Any = None) -> Any:
    ours = _group_of_square(group)
    return before(timeout, group) if ours is None else ours.set_timeout(timeout)
