"""How the ranks of a group agree on one meeting, in a store that may have the remains of others.

Each rank draws a name for its arrival and puts up a card with it. Rank 0 takes the next number, waits for the
cards of all ranks, and publishes a layout under that number, which repeats the names. A rank that finds its
own name there answers on its card, and rank 0 confirms the meeting when all have answered. Until then a card
may be that of a process that was killed, whose rank comes again.

A rank that comes again, or gives up, replaces its card. Rank 0 notices, takes the next number and begins
again; the others notice the higher number. A rank 0 that comes again takes the next number, too.

Cards and layout are the two turns of the store. Answers and confirmation run beside the group's registration.
"""

import contextlib
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from square.torch.rendezvous import LateError, LostStoreError, Rendezvous, ToldError

# From the layout to the confirmation a rank waits this long at least, where it came long before the others.
# The group's timeout is the limit where that is shorter.
SETTLE_SECONDS = 10.0
# An error that a rank finds in the store may be of a meeting that is over. The rank believes it where the
# rank that failed does not come again within this time.
GRACE_SECONDS = 2.0
# Processes of one start may begin this long after one of them has failed: an error that is older than this
# process by more is of another start.
START_SECONDS = 1.0
# Errors that this process remembers, so that none is raised twice.
_MOST_TOLD = 1024

_TWO_FIRST_RANKS = (
    "another process has come as rank 0 of this group: start each rank once, and give groups that exist at"
    " the same time stores, or prefixes of a store, of their own"
)

_WAITS, _ANSWERED, _LEFT, _FAILED = "waits", "answered", "left", "failed"

Made = TypeVar("Made")


class SupersededError(Exception):
    """This meeting has failed: a rank has come again or given up. The ranks that wait begin another."""


@dataclass(frozen=True)
class Entry:
    """What a rank has put into the store."""

    arrival: str
    state: str
    number: int = 0
    """Of the meeting that it answered."""
    card: dict[str, Any] | None = None
    """While it waits."""
    why: str = ""
    """It has left or failed."""
    at: float = 0.0
    """When, by its host's clock."""


def agree(
    meeting: Rendezvous,
    make_card: Callable[[], dict[str, Any]],
    attend: Callable[["Agreement"], Made],
    lives: Callable[[dict[str, Any]], bool] = lambda card: True,
) -> Made:
    """What `attend` returns for the meeting that all ranks agree on; it is called for every attempt.

    Raises LateError at the meeting's timeout, LostStoreError, ToldError where another rank has failed, and
    what `make_card` and `attend` raise, which the other ranks are told.
    """
    agreement = Agreement(meeting, lives)
    try:
        while True:
            agreement.arrive(make_card())
            with contextlib.suppress(SupersededError):
                return attend(agreement)
    except BaseException as error:
        agreement.give_up(error)
        raise


class Agreement:
    """One rank's part in a meeting. Not thread-safe.

    Methods raise what agree() does, and SupersededError: then the rank calls arrive() again.
    """

    def __init__(
        self, meeting: Rendezvous, lives: Callable[[dict[str, Any]], bool] = lambda card: True
    ) -> None:
        """`lives` says whether the process that has put up a card may still be there."""
        self._meeting = meeting
        self._lives = lives
        self._arrival = secrets.token_hex(8)
        self._end = time.monotonic() + meeting.seconds
        self._came_at = time.time()
        # Rank 0: the cards of this meeting, and the ranks that have not answered.
        self._entries: dict[int, Entry] = {}
        self._awaited: set[int] = set()
        self._own = Entry(self._arrival, _WAITS)
        # Of this meeting, by rank.
        self._cards: list[dict[str, Any]] = []
        # Others: the number of the layout to look for.
        self._next = 0
        self._is_announced = False
        self._is_confirmed = False

    def arrive(self, card: dict[str, Any]) -> None:
        """Puts up this rank's card."""
        meeting = self._meeting
        if meeting.rank == 0:
            self._take_number()
        elif self._next == 0:
            self._next = max(1, meeting.add("meetings", 0))
        self._own = Entry(self._arrival, _WAITS, meeting.number, card)
        self._put(self._own)

    def _take_number(self) -> None:
        meeting = self._meeting
        number = meeting.add("meetings", 1)
        if meeting.number and number != meeting.number + 1:
            raise RuntimeError(_TWO_FIRST_RANKS)
        if number > 1:
            meeting.write(f"{number - 1}/layout", None)  # nobody needs it any more, and it is large
        meeting.number = number
        self._is_announced = False

    def gather(self) -> list[dict[str, Any]]:
        """Rank 0: the cards of all ranks."""
        meeting = self._meeting
        found = {0: self._own}

        def sort(ranks: list[int]) -> None:
            for rank, entry in zip(ranks, self._read(ranks), strict=True):
                found.pop(rank, None)
                if self._is_waiting(entry):
                    found[rank] = entry
                elif entry.state == _FAILED:
                    self._raise_unless_old(rank, entry)

        def is_complete() -> bool:
            lacking = [rank for rank in range(meeting.size) if rank not in found]
            if lacking and meeting.exist([_card_of(rank) for rank in lacking]):
                sort(lacking)
            return len(found) == meeting.size

        meeting.look = lambda: sort(self._ranks_with_card())
        if not meeting.poll(is_complete, self._end):
            raise self._late(self._is_waiting, "")
        self._entries, self._awaited = found, set(range(1, meeting.size))
        meeting.look = self._look_at_cards
        self._cards = [found[rank].card or {} for rank in range(meeting.size)]
        return self._cards

    def announce(self, layout: dict[str, Any]) -> None:
        """Rank 0: publishes what it has decided."""
        arrivals = [self._entries[rank].arrival for rank in range(self._meeting.size)]
        self._meeting.put("layout", {"arrivals": arrivals, "layout": layout})
        self._is_announced = True

    def layout(self) -> dict[str, Any]:
        """Other ranks: what rank 0 has decided. The meeting has its number then."""
        meeting = self._meeting
        meeting.look = self._follow
        while True:
            if not meeting.poll(lambda: meeting.exist([f"{self._next}/layout"]), self._end):
                raise self._late(
                    lambda entry: self._is_waiting(entry) or entry.number >= self._next,
                    "all ranks have come, but rank 0 has not published the group's layout",
                )
            [value] = meeting.read([f"{self._next}/layout"])
            if value is not None and "failed" in value:
                failure = Entry(**value["failed"])
                if not self._is_old(failure, lambda: meeting.add("meetings", 0) > self._next):
                    raise ToldError(f"square: {failure.why}")
            elif value is not None and value["arrivals"][meeting.rank] == self._arrival:
                meeting.number = self._next
                meeting.look = self._look_at_number
                return dict(value["layout"])
            self._next += 1

    def know(self, cards: list[dict[str, Any]]) -> None:
        """Other ranks: the cards of this meeting, or what `lives` needs of them."""
        self._cards = cards

    def settle(self, register: Callable[[], Made]) -> Made:
        """Answers, and returns what `register` returns, once the meeting is confirmed."""
        meeting = self._meeting
        is_over = self._is_confirmed_by_first if meeting.rank > 0 else self._have_all_answered
        end = max(self._end, time.monotonic() + min(meeting.seconds, SETTLE_SECONDS))
        if meeting.rank > 0:
            self._put(Entry(self._arrival, _ANSWERED, meeting.number))
        made = Beside(register)
        if not meeting.poll(lambda: is_over() or made.has_failed(), end):
            raise self._late(
                lambda entry: (
                    entry.number == meeting.number and (entry.state == _ANSWERED or meeting.rank > 0)
                ),
                "all ranks have come, but rank 0 has not confirmed that",
            )
        if not self._is_confirmed:
            return made.result()  # which raises
        meeting.look = lambda: None
        return made.result()

    def doubt(self, error: Exception) -> None:
        """Called where attending failed, before others are told: SupersededError where others are gone.

        Where their processes may all be there, waits for GRACE_SECONDS whether a rank comes again.
        """
        meeting, look = self._meeting, self._meeting.look
        if self._is_confirmed or isinstance(error, (SupersededError, LateError, ToldError, LostStoreError)):
            return

        def is_over() -> bool:
            look()
            return False

        meeting.look = lambda: None
        grace = time.monotonic() + GRACE_SECONDS
        dead = [str(rank) for rank, card in enumerate(self._cards) if not self._lives(card)]
        meeting.poll(is_over, max(self._end, grace) if dead else grace)
        if dead:
            are = "are" if len(dead) > 1 else "is"
            raise LateError(
                f"square: rank {meeting.rank} has waited in vain: rank {', '.join(dead)} "
                f"{are} gone, and did not come again ({error})"
            ) from error

    def give_up(self, error: BaseException) -> None:
        """Tells the others that, and why, this rank leaves the meeting; does nothing once it is confirmed."""
        meeting = self._meeting
        meeting.look = lambda: None
        if self._is_confirmed:
            return
        why = str(error).removeprefix("square: ")
        with contextlib.suppress(LostStoreError):
            if isinstance(error, LateError) or not isinstance(error, Exception):
                self._put(Entry(self._arrival, _LEFT, why=why or type(error).__name__, at=time.time()))
            else:
                self._tell(why, is_own=not isinstance(error, ToldError))
            # The store has it, then: this process may end at once.
            meeting.exist([_card_of(meeting.rank)])

    def _tell(self, why: str, *, is_own: bool) -> None:
        meeting = self._meeting
        why = f"rank {meeting.rank}: {why}" if is_own else why
        failure = Entry(self._arrival, _FAILED if is_own else _LEFT, why=why, at=time.time())
        self._put(failure)
        if meeting.rank == 0:
            if meeting.number == 0:
                self._take_number()
            meeting.put("stop" if self._is_announced else "layout", {"failed": vars(failure)})

    # Rank 0.

    def _have_all_answered(self) -> bool:
        """Confirms the meeting where they have."""
        meeting = self._meeting
        ranks = sorted(self._awaited)
        for rank, entry in zip(ranks, self._read(ranks), strict=True):
            self._check_present(rank, entry)
            if entry.state == _ANSWERED and entry.number == meeting.number:
                self._awaited.discard(rank)
        if not self._awaited:
            meeting.put("go", True)
            self._put(Entry(self._arrival, _ANSWERED, meeting.number))
            self._is_confirmed = True
        return self._is_confirmed

    def _look_at_cards(self) -> None:
        ranks = list(range(1, self._meeting.size))
        for rank, entry in zip(ranks, self._read(ranks), strict=True):
            self._check_present(rank, entry)

    def _check_present(self, rank: int, entry: Entry) -> None:
        before = self._entries[rank]
        if entry.arrival != before.arrival or entry.state == _LEFT or not self._lives(before.card or {}):
            raise SupersededError
        if entry.state == _FAILED:
            self._remember(entry)
            raise ToldError(f"square: {entry.why}")

    def _raise_unless_old(self, rank: int, failure: Entry) -> None:
        if not self._is_old(failure, lambda: self._read([rank])[0].arrival != failure.arrival):
            raise ToldError(f"square: {failure.why}")

    # Others.

    def _follow(self) -> None:
        self._next = max(self._next, self._meeting.add("meetings", 0))

    def _is_confirmed_by_first(self) -> bool:
        self._is_confirmed = self._meeting.has("go")
        return self._is_confirmed

    def _look_at_number(self) -> None:
        meeting = self._meeting
        newest = meeting.add("meetings", 0)
        if meeting.has("stop"):
            [value] = meeting.read([f"{meeting.number}/stop"])
            failure = Entry(**value["failed"])
            self._remember(failure)
            raise ToldError(f"square: {failure.why}")
        if newest > meeting.number and not meeting.has("go"):
            self._next = newest
            raise SupersededError

    # All.

    def _put(self, entry: Entry) -> None:
        self._meeting.write(_card_of(self._meeting.rank), vars(entry))

    def _read(self, ranks: list[int]) -> list[Entry]:
        return [Entry(**value) for value in self._meeting.read([_card_of(rank) for rank in ranks])]

    def _ranks_with_card(self) -> list[int]:
        names = {_card_of(rank): rank for rank in range(self._meeting.size) if rank != self._meeting.rank}
        return [names[name] for name in self._meeting.existing(list(names))]

    def _is_waiting(self, entry: Entry) -> bool:
        return entry.state == _WAITS and self._lives(entry.card or {})

    def _is_old(self, failure: Entry, is_replaced: Callable[[], bool]) -> bool:
        """Whether the failure is of a meeting without this rank. Waits for GRACE_SECONDS at most."""
        meeting = self._meeting
        if (meeting.rank, failure.arrival) in _told or failure.at < process_began() - START_SECONDS:
            return True
        if failure.at < self._came_at:
            look, meeting.look = meeting.look, lambda: None
            is_old = meeting.poll(is_replaced, min(self._end, time.monotonic() + GRACE_SECONDS))
            meeting.look = look
            if is_old:
                return True
        self._remember(failure)
        return False

    def _remember(self, failure: Entry) -> None:
        _told.append((self._meeting.rank, failure.arrival))

    def _late(self, is_here: Callable[[Entry], bool], otherwise: str) -> LateError:
        """Says which ranks have not come; `otherwise` where all have."""
        meeting = self._meeting
        ranks = self._ranks_with_card()
        entries = dict(zip(ranks, self._read(ranks), strict=True))
        missing, parts = [], []
        for rank in range(meeting.size):
            entry = entries.get(rank)
            if rank == meeting.rank or (entry is not None and is_here(entry)):
                continue
            if entry is not None and entry.state == _LEFT and entry.at >= self._came_at:
                parts.append(f"rank {rank} has given up ({entry.why})")
            elif entry is not None and self._is_waiting(entry):
                parts.append(f"rank {rank} has put up its card, but does not answer")
            else:
                missing.append(str(rank))
        if missing:
            have = "have" if len(missing) > 1 else "has"
            parts.insert(0, f"rank {', '.join(missing)} {have} not come")
        why = "; ".join(parts) or otherwise
        if meeting.rank == 0 and meeting.add("meetings", 0) > meeting.number:
            why = _TWO_FIRST_RANKS
        return LateError(f"square: rank {meeting.rank} has waited {meeting.seconds:g} s in vain: {why}")


class Beside(Generic[Made]):
    """A call on a thread of its own. Where nobody asks for its result, that goes when the call returns."""

    def __init__(self, call: Callable[[], Made]) -> None:
        self._future: Future[Made] = Future()
        future = self._future

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="square-register", daemon=True).start()

    def has_failed(self) -> bool:
        return self._future.done() and self._future.exception() is not None

    def result(self) -> Made:
        """Blocks until the call returns; raises what it raised."""
        return self._future.result()


def _card_of(rank: int) -> str:
    return f"card/{rank}"


def process_began() -> float:
    """When, by the host's clock; 0 where the system does not say. Older errors are of another process."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.time() - age


# (rank, arrival of the rank that failed)
_told: deque[tuple[int, str]] = deque(maxlen=_MOST_TOLD)
