"""The engine under a process group: starts operations, keeps those under way, and ends with them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch

import square
from square.torch import fork
from square.torch.bootstrap import Layout, join, meet_again
from square.torch.compression import Compressor
from square.torch.departure import FAILED_LEAVE_SECONDS, LEAVE_SECONDS, Departure
from square.torch.profiling import traced
from square.torch.refounding import refound
from square.torch.rendezvous import Rendezvous
from square.torch.roll_call import ROLL_CALLS, Overlay, Place, RollCall
from square.torch.site import SITES, Site, is_lone
from square.torch.terms import Terms
from square.torch.work import Member, Work

# In torch before 2.8 what C++ has of a work does not keep its Python half, and without that it would wait for
# ever. C++ waits at once, or for one of the last few.
RECENT_WORKS = 4 if torch.__version__ < torch.torch_version.TorchVersion("2.8") else 0

# What most groups call first; barriers are that, too. Where nothing is sent it takes nothing from anybody's
# share, so it is registered along with the group.
AT_ONCE = [("all_reduce", 0, 0, 1.0)]

Begin = Callable[[square.Communicator, float], Sequence[square.Work]]


class Calls:
    """One member's calls on one group. Thread-safe.

    Raises ValueError, RuntimeError or an error of square where the group cannot be made.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        name: str,
        options: Any,
        members: Sequence[int] = (),
    ) -> None:
        fork.check()

        def register(site: Site, layout: Layout) -> square.Communicator:
            return square.Communicator(
                site.host,
                layout.group,
                layout.tenant,
                layout.nodes,
                rank,
                collectives=AT_ONCE if layout.sends_nothing else [],
                timeout=timeout.total_seconds(),
                redundancy=layout.redundancy,
            )

        meeting = Rendezvous(store, rank, size, timeout, members)
        site, layout, communicator = join(meeting, name, options, register)
        self._begin(Member(name, rank), timeout, meeting, site, layout, communicator)

    @classmethod
    def going_on(
        cls,
        name: str,
        timeout: timedelta,
        store: Any,
        site: Site,
        communicator: square.Communicator,
        terms: Terms,
        end: float,
    ) -> "Calls":
        """On a group that another one became, or that this process joined without a store.

        `site` was acquired for it; `terms` are of the group before, or of the invitation. All ranks meet in
        `store`, which the new group serves itself, until `end` (time.monotonic()).
        """
        meeting = Rendezvous(store, communicator.rank, communicator.size, timeout)
        layout = meet_again(meeting, site, communicator, terms, end)
        calls = cls.__new__(cls)
        calls._begin(Member(name, communicator.rank), timeout, meeting, site, layout, communicator)
        return calls

    def _begin(
        self,
        who: Member,
        timeout: timedelta,
        meeting: Rendezvous,
        site: Site,
        layout: Layout,
        communicator: square.Communicator,
    ) -> None:
        self.who = who
        self.timeout = timeout
        self.sequence = 0
        self._lock = threading.Lock()
        self._works: deque[Work] = deque()
        self._recent: deque[Work] = deque(maxlen=RECENT_WORKS)
        self._barriers = 0
        self._closed_because = ""
        self._goes_on = False
        self.meeting = meeting
        self._departure = Departure(meeting)
        self.site = site
        self.terms = layout.terms
        self.algorithm = layout.algorithm  # of all_reduce
        self.compressor = Compressor(layout.compression)
        self.roll_call = self.who.roll_call = self._roll_call(layout)
        self._places = self.roll_call.places
        self.communicator = communicator
        self.origin = list(range(communicator.size))  # the ranks here of those the communicator is of
        ROLL_CALLS.add(self.roll_call)
        OPEN.add(self)

    def start(
        self,
        operation: str,
        begin: Begin,
        *,
        timeout: timedelta | None = None,
        result: Any = None,
        finish: Callable[[], None] = lambda: None,
        keep: Sequence[Any] = (),
    ) -> Work:
        """Begins an operation; `finish` runs once after its success, by whoever sees that it is over.

        `keep` stays alive until then.
        A timeout of None or not above 0 is the group's. Raises DistBackendError.
        """
        fork.check()
        self.refuse_if_closed(operation)
        seconds = self.seconds(timeout)
        try:
            parts = traced(operation, lambda: begin(self.communicator, seconds))
        except Exception as error:
            raise self.error(operation, error) from error
        self.sequence += 1
        work = Work(operation, self.who, parts, result, finish, keep)
        self._keep(work)
        self.remember(work)
        return work

    def remember(self, work: Work) -> None:
        """Keeps a work that C++ may wait for, as long as RECENT_WORKS says."""
        self._recent.append(work)

    def next_barrier(self) -> int:
        """Counts the group's monitored barriers."""
        self._barriers += 1
        return self._barriers

    @property
    def controller(self) -> str:
        """The address of the overlay's controller now."""
        return self.site.controller or self.terms.controller

    def seconds(self, timeout: timedelta | None) -> float:
        given = timeout if timeout is not None and timeout > timedelta(0) else self.timeout
        return given.total_seconds()

    def error(self, operation: str, cause: Exception, *, is_absence: bool = False) -> Exception:
        return self.who.error(operation, cause, is_absence=is_absence)

    def abort(self, reason: str = "it was aborted") -> None:
        """Ends what runs on every member; later calls raise. Leaves the overlay without the others."""
        if not self._close(reason):
            return
        for work in self._drain():
            work.cancel()
        self._leave(together=False)

    def go_on(self, joiners: int, seconds: float, allow_minority: bool) -> None:
        """Goes on in the next group: `site`, `communicator` and `origin` are of that one from then on.

        Nothing can be called here any more. It may be called again where it raises an error of square, and
        where nothing comes of the next group, which goes on in another one then. Ends with let_go().
        """
        if self._closed_because:
            raise RuntimeError(f"the group cannot go on: {self._closed_because}")
        self._goes_on = True
        for work in self._drain():
            work.cancel()
        end = time.monotonic() + seconds
        try:
            if joiners:
                communicator = self.communicator.grow(joiners, timeout=seconds)
            else:
                communicator = self.communicator.shrink(timeout=seconds, allow_minority=allow_minority)
        except square.errors.UnavailableError:
            # The node went with its process; where it stood alone, the others of the host found another.
            if joiners or not is_lone(self.site.key) or isinstance(self.site.host, square.Node):
                raise
            self._refound_in_time(end)
        else:
            self._stand(communicator, communicator.origin)

    def _refound_in_time(self, end: float) -> None:
        # Who founds the node may be the next to go, and then another.
        for left_over in reversed(range(len(self._places))):
            try:
                self._refound(end)
                return
            except square.errors.UnavailableError:
                if not left_over or time.monotonic() >= end:
                    raise

    def _refound(self, end: float) -> None:
        own, node = self.communicator.rank, self._places[self.communicator.rank].node
        marks = [place.mark for place in self._places]
        left = max(0.0, end - time.monotonic())
        found = refound(self.communicator.name, node, marks, own, self.terms.tenant, left)
        try:
            communicator = square.Communicator(
                found.site.host,
                found.name,
                self.terms.tenant,
                [node] * len(found.ranks),
                found.ranks.index(own),
                collectives=AT_ONCE,
                timeout=max(0.0, end - time.monotonic()),
                redundancy=self.terms.redundancy,
            )
        except BaseException:
            SITES.release(found.site)
            raise
        before, self.site = self.site, found.site
        self._stand(communicator, found.ranks)
        SITES.release(before)

    def _stand(self, communicator: square.Communicator, ranks: list[int]) -> None:
        """In a group of `ranks` of the one before, and of others behind them."""
        self.communicator = communicator
        self.origin = [self.origin[rank] for rank in ranks if rank < len(self.origin)]
        self._places = [self._places[rank] for rank in ranks if rank < len(self._places)]

    def let_go(self) -> None:
        """The group has gone on: whoever has the next one has its site and communicator, too."""
        self._close("it went on in another group")
        OPEN.discard(self)
        ROLL_CALLS.discard(self.roll_call)
        # Of its failures none is the new group's.
        self.site.has_failed = self.who.has_failed = False
        del self.communicator

    def shutdown(self) -> None:
        """Lets what runs end, and leaves with the others, both for LEAVE_SECONDS at the most."""
        if not self._close("it was destroyed"):
            return
        deadline = time.monotonic() + (FAILED_LEAVE_SECONDS if self.has_failed else LEAVE_SECONDS)
        for work in self._drain():
            if not _finishes(work, deadline):
                work.cancel()
                self.who.has_failed = True
        if self.has_failed:
            self.site.has_failed = True
            deadline = min(deadline, time.monotonic() + FAILED_LEAVE_SECONDS)
        self._leave(together=True, deadline=deadline)

    @property
    def has_failed(self) -> bool:
        """Whether any group of this process's place in the overlay has met with a failure."""
        if self.site.has_failed or self.who.has_failed:
            return True
        return any(calls.who.has_failed for calls in OPEN.newest_first() if calls.site is self.site)

    def make_immortal(self) -> None:
        fork.make_immortal(self)
        fork.make_immortal(self.communicator)
        for work in (*self._works, *self._recent):
            work.make_immortal()
        self._closed_because = "the process was forked"

    def _roll_call(self, layout: Layout) -> RollCall:
        fields = zip(layout.hosts, layout.nodes, layout.marks, layout.owners, strict=True)
        meeting = self.meeting  # no reference to this object: whoever drops it frees what it has
        # A node alone has no controller to ask, and nobody elsewhere to ask about.
        controller = "" if is_lone(layout.controller) else self.site.controller or layout.controller
        overlay = Overlay(controller, self.site.identity, layout.keeper)
        return RollCall(
            self.who.name,
            self.who.rank,
            [Place(*place) for place in fields],
            overlay,
            report=lambda rank: meeting.put(f"gone/{rank}", True),
            is_reported=lambda rank: meeting.has(f"gone/{rank}"),
        )

    def _keep(self, work: Work) -> None:
        """A work that is dropped would be cancelled, so it stays here until it is over."""
        with self._lock:
            self._works.append(work)
            candidates = [self._works.popleft() for _ in range(min(2, len(self._works)))]
        waiting = [one for one in candidates if not one.is_completed()]
        with self._lock:
            self._works.extend(waiting)  # to the end: one that waits for long must not hide the others

    def refuse_if_closed(self, operation: str) -> None:
        """Raises DistBackendError once the group was left, or goes on in another one."""
        why = self._closed_because
        if self._goes_on and not why:
            why = "it goes on in another one, but has not yet; call shrink() again"
        if why:
            raise self.error(operation, RuntimeError(f"the group cannot be used any more: {why}"))

    def _close(self, reason: str) -> bool:
        with self._lock:
            if self._closed_because:
                return False
            self._closed_because = reason
        return True

    def _drain(self) -> list[Work]:
        with self._lock:
            works = list(self._works)
            self._works.clear()
        return works

    def _leave(self, *, together: bool, deadline: float = 0.0) -> None:
        OPEN.discard(self)
        ROLL_CALLS.discard(self.roll_call)
        self._departure.announce()
        # Its destructor must not find the node gone.
        del self.communicator
        if together:
            # Whoever is slower to notice a failure must not take those that left for its reason.
            wait = partial(self._departure.wait, stays=self.site.has_failed)
            self.site.departures.append(wait)
        SITES.release(self.site, deadline)


def _finishes(work: Work, deadline: float) -> bool:
    """Whether it ended well; its own timeout may be long."""
    try:
        return work.wait(timedelta(seconds=max(0.001, deadline - time.monotonic())))
    except Exception:
        return False


class OpenCalls:
    """The groups that this process has not left. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Calls] = []

    def add(self, calls: Calls) -> None:
        with self._lock:
            self._calls.append(calls)

    def discard(self, calls: Calls) -> None:
        with self._lock:
            self._calls = [one for one in self._calls if one is not calls]

    def newest_first(self) -> list[Calls]:
        with self._lock:
            return list(reversed(self._calls))

    def abandon(self) -> None:
        """In a forked child."""
        self._lock = threading.Lock()
        for calls in self._calls:
            calls.make_immortal()
        self._calls = []


OPEN = OpenCalls()
fork.on_fork(OPEN.abandon)
