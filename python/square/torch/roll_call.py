"""Who of a group is gone, so that an error can name the rank and not only a link or a time.

What is known for certain is used, and nothing is guessed from an error's words:

- Processes of this host leave a mark that goes with them (presence.py).
- Of the nodes of other hosts the controller knows whether they are connected. Where it does not answer,
  the rank whose process has it is gone.
- Processes that attach to a node of another host are reported by the ranks of that host, in the store.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import square
from square.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    UnavailableError,
)
from square.torch import fork, presence

# How long an error waits for the reason of a broken connection: a process dies in steps.
PATIENCE_SECONDS = 1.0
# After a wait in vain, errors like that one do not wait again for so long.
_VAIN_SECONDS = 5.0
# A line to the controller that broke is built anew at once: only what stays away is gone.
CONFIRM_SECONDS = 0.4
_PAUSE_SECONDS = 0.02
_ASK_PAUSE_SECONDS = 0.1
_CONTROLLER_SECONDS = 1.0

# How an operation may end when somebody is gone; the others are mistakes of the program.
LOSSES = (UnavailableError, DeadlineExceededError, CancelledError, FailedPreconditionError)


@dataclass(frozen=True)
class Place:
    """Where a rank of a group is."""

    host: str
    node: str
    mark: str
    # Its process is the node, rather than attached to it.
    is_node: bool


@dataclass(frozen=True)
class Overlay:
    """Where to ask for nodes of other hosts; no address for nowhere."""

    controller: str
    identity: square.Identity | None
    # The rank whose process has the controller, if one of the group's has it.
    keeper: int | None


class RollCall:
    """The places of one group. Thread-safe.

    `report(rank)` tells the other hosts of a rank of this one, `is_reported(rank)` asks them. Both may
    raise RuntimeError where the store is gone.
    """

    def __init__(
        self,
        group: str,
        own_rank: int,
        places: list[Place],
        overlay: Overlay,
        report: Callable[[int], None],
        is_reported: Callable[[int], bool],
    ) -> None:
        self.group = group
        self._own_rank = own_rank
        self.places = places
        self._overlay = overlay
        self._report = report
        self._is_reported = is_reported
        self._gone: set[int] = set()
        # Since when a rank seems to be gone that may be back in a moment.
        self._suspected: dict[int, float] = {}
        self._asked = -math.inf
        host = places[own_rank].host
        self._near = [rank for rank, place in enumerate(places) if place.host == host and place.mark]
        self._far = [rank for rank in range(len(places)) if rank not in self._near]
        self._far_nodes = [rank for rank in self._far if places[rank].is_node]

    def explain(self, cause: Exception, *, is_absence: bool = False) -> str:
        """What an error with this cause should add: the ranks that are gone, or nothing.

        `is_absence`: ranks have not come, whatever the cause is.

        Blocks for PATIENCE_SECONDS and a question to the controller at the most.
        """
        if not is_absence and not isinstance(cause, LOSSES):
            return ""
        with ROLL_CALLS.lock:
            return ROLL_CALLS.explain(self, cause)

    # The rest is called with the lock.

    def needs_patience(self, cause: Exception) -> bool:
        """Whether somebody is gone so surely, or news come so late, that another look makes sense."""
        if isinstance(cause, DeadlineExceededError):
            return len(self._far) > len(self._far_nodes)
        return isinstance(cause, UnavailableError)

    def is_waiting(self) -> bool:
        """Whether suspicions will be facts, or not, in a moment."""
        return bool(self._suspected)

    def look(self) -> set[int]:
        """The ranks that are gone; nobody comes back."""
        for rank in self._near:
            if rank not in self._gone and not presence.is_there(self.places[rank].mark):
                self._gone.add(rank)
                # Their nodes others see for themselves.
                if self._far and not self.places[rank].is_node:
                    self._tell(rank)
        self._ask_controller()
        if not self._gone:
            self._gone.update(rank for rank in self._far if self._was_reported(rank))
        return self._gone

    def describe(self, *, is_own: bool) -> str:
        names = [f'rank {rank} on node "{self.places[rank].node}"' for rank in sorted(self._gone)]
        where = "" if is_own else f" of group {self.group!r}"
        return ", ".join(name + where for name in names)

    def _ask_controller(self) -> None:
        now = time.monotonic()
        if not self._far_nodes or not self._overlay.controller or now < self._asked + _ASK_PAUSE_SECONDS:
            return
        missing: set[int] = set()
        try:
            nodes = square.list_nodes(
                self._overlay.controller, identity=self._overlay.identity, timeout=_CONTROLLER_SECONDS
            )
        except UnavailableError:
            if self._overlay.keeper in self._far_nodes:
                missing = {self._overlay.keeper}
        except square.SquareError:
            return
        else:
            connected = {node.name for node in nodes if node.connected}
            missing = {rank for rank in self._far_nodes if self.places[rank].node not in connected}
        self._asked = time.monotonic()
        self._suspected = {
            rank: self._suspected.get(rank, self._asked) for rank in missing if rank not in self._gone
        }
        confirmed = [
            rank for rank, since in self._suspected.items() if self._asked >= since + CONFIRM_SECONDS
        ]
        for rank in confirmed:
            del self._suspected[rank]
            self._gone.add(rank)

    def _tell(self, rank: int) -> None:
        try:
            self._report(rank)
        except RuntimeError:
            return  # the store went with somebody; who that is, others see, too

    def _was_reported(self, rank: int) -> bool:
        if self.places[rank].is_node:
            return False
        try:
            return self._is_reported(rank)
        except RuntimeError:
            return False


class RollCalls:
    """Those of all groups of this process: a group may rely on processes that are in others only."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._all: list[RollCall] = []
        # By the kind of error, when it waited in vain.
        self._vain: dict[type, float] = {}

    def add(self, roll_call: RollCall) -> None:
        with self.lock:
            self._all.append(roll_call)

    def discard(self, roll_call: RollCall) -> None:
        with self.lock:
            self._all = [one for one in self._all if one is not roll_call]

    def explain(self, asking: RollCall, cause: Exception) -> str:
        """With the lock. The own group's ranks come first; others only where all of those are there."""
        order = [asking, *(one for one in self._all if one is not asking)]
        end = time.monotonic()
        kind = type(cause)
        is_patient = asking.needs_patience(cause) and end >= self._vain.get(kind, -math.inf) + _VAIN_SECONDS
        if is_patient:
            end += PATIENCE_SECONDS
        while True:
            for one in order:
                if one.look():
                    return f"; gone: {one.describe(is_own=one is asking)}"
            is_waiting = any(one.is_waiting() for one in order)
            now = time.monotonic()
            if now >= end + (CONFIRM_SECONDS + _ASK_PAUSE_SECONDS if is_waiting else 0):
                break
            time.sleep(_PAUSE_SECONDS)
        if is_patient:
            self._vain[kind] = time.monotonic()
        return ""

    def abandon(self) -> None:
        """In a forked child."""
        self.lock = threading.Lock()
        self._all = []


ROLL_CALLS = RollCalls()
fork.on_fork(ROLL_CALLS.abandon)
