"""What workers' clocks show, in this process's time."""

import time
from collections.abc import Iterable

from square.run.mailbox import Mailbox
from square.run.processes import Workers
from square.run.protocol import Clock, Clocked

# The quickest of so many answers is the one to believe.
ROUNDS = 8


class Clocks:
    """Monotonic clocks of machines that differ by any constant. One is known as well as half of the quickest
    round trip to it is even: over ssh some milliseconds."""

    def __init__(self) -> None:
        self._ahead: dict[str, float] = {}  # seconds, by node
        self._round_trips: dict[str, float] = {}

    def measure(self, nodes: Iterable[str], workers: Workers, mailbox: Mailbox) -> None:
        """Blocks for ROUNDS round trips."""
        nodes = list(nodes)
        for number in range(ROUNDS):
            sent = {}
            for node in nodes:
                sent[node] = time.monotonic()
                workers.send(node, Clock(number))
            self._take(number, sent, mailbox)

    def _take(self, number: int, sent: dict[str, float], mailbox: Mailbox) -> None:
        while sent:
            said = mailbox.next(lambda: f"{', '.join(sorted(sent)[:5])} did not tell the time")
            event, now = said.event, time.monotonic()
            if isinstance(event, Clocked) and event.number == number and said.node in sent:
                self.note(said.node, sent.pop(said.node), event.at, now)

    def note(self, node: str, sent: float, there: float, received: float) -> None:
        """It was `there` at that node at some time between the other two."""
        round_trip = received - sent
        if round_trip < self._round_trips.get(node, float("inf")):
            self._round_trips[node] = round_trip
            self._ahead[node] = there - (sent + received) / 2

    def there(self, node: str, here: float) -> float:
        """The time that the node's clock shows at a time of ours; the same where they share one."""
        return here + self._ahead.get(node, 0.0)

    def here(self, node: str, there: float) -> float:
        return there - self._ahead.get(node, 0.0)

    @property
    def longest_round_trip(self) -> float:
        return max(self._round_trips.values(), default=0.0)
