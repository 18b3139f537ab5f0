"""What torch loads by entry point, so that ``backend="square"`` needs no import.

It is a package of its own and imports nothing of ``square``: ``import torch`` runs it, and must neither
pay for Square nor break where Square is broken.
"""

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
    except Exception as error:  # whatever it is, torch must go on
        import warnings

        warnings.warn(f"square is not registered with torch.distributed: {error}", stacklevel=2)
