"""Asks a master of parameter servers how its training goes, and how fast."""

import time
from collections import deque
from dataclasses import dataclass

from square.errors import SquareError
from square.identity import IdentitySource
from square.ps.status import Status, ask

# A master answers within milliseconds; who waits for one that is away waits for Ctrl-C, too.
TIMEOUT_SECONDS = 1.0
# Tokens come a round at a time: a rate over less would be nothing now, and much then.
WINDOW_SECONDS = 60.0


@dataclass(frozen=True)
class TrainingView:
    """What the master said, or why it said nothing; ``tokens_per_second`` is None where nobody knows."""

    master: str
    status: Status | None
    tokens_per_second: float | None = None
    error: SquareError | None = None


class TrainingWatch:
    """Remembers what the master said within the last minute."""

    def __init__(self, master: str, identity: IdentitySource = None) -> None:
        self._master = master
        self._identity = identity
        self._rate = TokenRate()

    def look(self) -> TrainingView:
        """Blocks for TIMEOUT_SECONDS where the master is away."""
        try:
            status = ask(self._master, identity=self._identity, timeout=TIMEOUT_SECONDS)
        except SquareError as error:
            return TrainingView(self._master, None, error=error)
        # A master that has just begun learns from its servers; until then it has no version.
        rate = self._rate.add(time.monotonic(), status.tokens) if status.version else None
        return TrainingView(self._master, status, rate)


class TokenRate:
    """Tokens a second, between the oldest look within WINDOW_SECONDS and the newest."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def add(self, at_seconds: float, tokens: int) -> float | None:
        """None at the first look, and where the training is another one."""
        if self._looks and tokens < self._looks[-1][1]:
            self._looks.clear()
        while len(self._looks) > 1 and self._looks[0][0] < at_seconds - WINDOW_SECONDS:
            self._looks.popleft()
        self._looks.append((at_seconds, tokens))
        elapsed = at_seconds - self._looks[0][0]
        return (tokens - self._looks[0][1]) / elapsed if elapsed > 0 else None
