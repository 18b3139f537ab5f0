"""What the ranks of one group tell one another through torch's store.

Other groups may have used the store before, and processes that have died. So every key is of one meeting, and
agreement.py finds the number of the meeting that all ranks are in.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

# A rank that waits asks the store again and again, and so wakes late by a pause at most. It does not use
# Store.wait(): where that ends without the key, torch writes two warnings.
SHORTEST_PAUSE = 0.0005
# Of the time waited, while the pause is within EARLY_PAUSE.
EARLY_SHARE = 0.1
EARLY_PAUSE = 0.02
# Of the time waited, later.
LATER_SHARE = 0.05
LONGEST_PAUSE = 1.0
# A rank that waits looks this often whether it waits in vain.
LOOK_SECONDS = 1.0

Answer = TypeVar("Answer")


class LostStoreError(RuntimeError):
    """The store does not answer."""


class LateError(RuntimeError):
    """Ranks have not come, or have not done their part, in time."""


class ToldError(RuntimeError):
    """Another rank has failed, and says why."""


class Rendezvous:
    """The keys of one meeting of a group's ranks in a store. Thread-safe as far as the store is.

    Every method raises LostStoreError, at once, where the process that serves the store is gone.
    """

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, members: Sequence[int] = ()
    ) -> None:
        """`members` are the ranks of the default group in this one; none for the default group itself.

        torch gives the same prefix of the store to groups of other members, and of another size, after
        destroy_process_group() or a restart. Those do not meet here.
        """
        self._store = store
        self.rank = rank
        self.size = size
        self.seconds = timeout.total_seconds()
        text = f"{size}:{','.join(map(str, members))}"
        self._root = f"square/{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        # Of the meeting. 0 in a store that is this group's alone.
        self.number = 0
        self._can_remove = True
        # Called by waits every LOOK_SECONDS. Raises where they are in vain.
        self.look: Callable[[], None] = lambda: None

    # The keys of this meeting.

    def put(self, key: str, value: Any) -> None:
        self.write(self._of_meeting(key), value)

    def get(self, key: str) -> Any:
        """Waits for it. Raises ToldError with what the rank that should put it raised, and LateError."""
        return self.get_all([key])[0]

    def get_all(self, keys: list[str]) -> list[Any]:
        """As get(), of several at once."""
        names = [self._of_meeting(key) for key in keys]
        if not self.poll(lambda: self.exist(names), time.monotonic() + self.seconds):
            key = next((key for key in keys if not self.has(key)), keys[0])
            owner = key.rpartition("/")[2]
            whose = f"rank {owner}" if owner.isdecimal() else "rank 0"
            raise LateError(
                f"square: rank {self.rank} has waited {self.seconds:g} s in vain for {key!r} of {whose}"
            )
        return [_checked(value) for value in self.read(names)]

    def has(self, key: str) -> bool:
        """Whether it was put; does not wait."""
        return self.exist([self._of_meeting(key)])

    def count(self, key: str, amount: int) -> int:
        """Adds to a counter and returns it; does not wait."""
        return self.add(self._of_meeting(key), amount)

    def remove(self, keys: list[str]) -> None:
        """Deletes keys that nobody asks for any more, where the store can; they need not exist."""
        if not self._can_remove:
            return
        try:
            for key in keys:
                self._store.delete_key(f"{self._root}/{self._of_meeting(key)}")
        except NotImplementedError:
            self._can_remove = False
        except RuntimeError:  # it fails where it is asked for something
            pass

    def fail(self, key: str, error: Exception) -> None:
        """Puts why there is no such value; get() raises it on every rank that asks."""
        self.put(key, {"error": f"rank {self.rank}: {error}"})

    # The keys of all meetings of this group.

    def write(self, name: str, value: Any) -> None:
        self._ask(lambda: self._store.set(f"{self._root}/{name}", json.dumps(value)))

    def read(self, names: list[str]) -> list[Any]:
        """The values of keys that exist."""
        if not names:
            return []
        keys = [f"{self._root}/{name}" for name in names]
        if len(keys) > 1 and self._ask(self._store.has_extended_api):
            texts = self._ask(lambda: self._store.multi_get(keys))
        else:
            texts = [self._ask(partial(self._store.get, key)) for key in keys]
        return [json.loads(text) for text in texts]

    def exist(self, names: list[str]) -> bool:
        """Whether all of these keys do."""
        return bool(self._ask(lambda: self._store.check([f"{self._root}/{name}" for name in names])))

    def existing(self, names: list[str]) -> list[str]:
        """Those of these keys that exist, in few questions where few are missing."""
        if not names or self.exist(names):
            return names
        if len(names) == 1:
            return []
        half = len(names) // 2
        return self.existing(names[:half]) + self.existing(names[half:])

    def add(self, name: str, amount: int) -> int:
        return int(self._ask(lambda: self._store.add(f"{self._root}/{name}", amount)))

    def poll(self, is_over: Callable[[], bool], end: float) -> bool:
        """Asks until it is over, or until `end` (time.monotonic()): then False. Raises what look() raises."""
        begun = time.monotonic()
        next_look = begun + LOOK_SECONDS
        while not is_over():
            now = time.monotonic()
            if now >= end:
                return False
            if now >= next_look:
                self.look()
                next_look = now + LOOK_SECONDS
            time.sleep(min(pause_after(now - begun), end - now))
        return True

    def _of_meeting(self, key: str) -> str:
        return f"{self.number}/{key}"

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        try:
            return question()
        except RuntimeError as error:
            raise LostStoreError(
                f"square: rank {self.rank} cannot use the group's store any more: the process that serves it "
                f"is gone or cannot be reached ({error})"
            ) from error


def pause_after(waited: float) -> float:
    """The seconds that a rank pauses before it asks again, after `waited` seconds."""
    early = min(EARLY_SHARE * waited, EARLY_PAUSE)
    return min(max(SHORTEST_PAUSE, early, LATER_SHARE * waited), LONGEST_PAUSE)


def _checked(value: Any) -> Any:
    if isinstance(value, dict) and "error" in value:
        raise ToldError(f"square: {value['error']}")
    return value
