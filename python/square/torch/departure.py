"""Leaving together: a node that goes early takes away what it relays, and a gateway its processes."""

import contextlib
import time

from square.torch.rendezvous import Rendezvous

# How long a process waits for the others of its groups before it leaves the overlay.
LEAVE_SECONDS = 10.0
# The same after a failure: they may be gone, but those that are not should hear of its cause, not of ours.
FAILED_LEAVE_SECONDS = 2.0
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


class Departure:
    """One group's way out."""

    def __init__(self, meeting: Rendezvous) -> None:
        self._meeting = meeting

    def announce(self) -> None:
        """This rank calls nothing more."""
        with contextlib.suppress(RuntimeError):  # the store may be gone, and with it the others
            self._meeting.count("left", 1)

    def wait(self, deadline: float, *, stays: bool) -> None:
        """Until all ranks have announced it, or the deadline (time.monotonic()).

        Without the store nobody can be waited for: then until the deadline if this process `stays`, else not.
        """
        if not self._wait_for("left", deadline):
            if stays:
                time.sleep(max(0.0, deadline - time.monotonic()))
            return
        # Rank 0's process usually has the store: it goes last.
        try:
            self._meeting.count("gone", 1)
        except RuntimeError:
            return
        if self._meeting.rank == 0:
            self._wait_for("gone", deadline)

    def _wait_for(self, key: str, deadline: float) -> bool:
        pause = _FIRST_PAUSE
        while True:
            try:
                if self._meeting.count(key, 0) >= self._meeting.size:
                    return True
            except RuntimeError:
                return False
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
