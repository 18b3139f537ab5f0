"""What happens to groups that a script did not destroy when its process ends."""

import atexit
import sys

from square.torch.calls import OPEN


def leave_at_exit() -> None:
    """Leaves together with the others, or at once if an exception of its own ends the process."""
    is_crashing = hasattr(sys, "last_type")
    for calls in OPEN.newest_first():
        if is_crashing and not calls.has_failed:
            calls.abort("its process ended with an exception")
        else:
            calls.shutdown()


atexit.register(leave_at_exit)
