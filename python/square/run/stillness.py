"""Which nodes say nothing while a policy runs: their processes stand still, or their machine does."""

from collections import Counter
from collections.abc import Iterable, Iterator

# Every node whose members are not through says how far they are twice a second.
STILL_SECONDS = 2.0


class Stillness:
    """Of nodes by the members that they have. Relays without members say nothing, and are not looked at."""

    def __init__(self, members: Iterable[str], start: float) -> None:
        self._left = Counter(members)
        self._heard = dict.fromkeys(self._left, start)
        self._still: set[str] = set()

    def note(self, node: str, now: float) -> Iterator[str]:
        """It has said something: words for who watches, if that is news."""
        self._heard[node] = now
        if node in self._still:
            self._still.discard(node)
            yield f"node {node} goes on"

    def note_finished(self, node: str) -> None:
        """One of its members is through."""
        self._left[node] -= 1

    def look(self, now: float) -> Iterator[str]:
        """Words about those that have stood still for too long by now, once each time."""
        for node, left in self._left.items():
            if left > 0 and node not in self._still and now - self._heard[node] > STILL_SECONDS:
                self._still.add(node)
                yield f"node {node} has said nothing for {STILL_SECONDS:.0f} s: its process stands still"
