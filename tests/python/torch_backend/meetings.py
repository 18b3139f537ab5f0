"""Ranks that meet in a store, each a thread whose process may be killed at any call to the store."""

import itertools
import random
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from square.torch.agreement import Agreement, agree
from square.torch.rendezvous import Rendezvous
from torch import distributed as dist

# A meeting that can succeed does so in this time.
LIMIT_SECONDS = 10.0
SHORT_SECONDS = 0.6
# More calls than a meeting makes before it is confirmed, most of the time.
MOST_CALLS = 14
LARGEST = 5


class KilledError(BaseException):
    """The process that called the store is no more."""


class PlainStore:
    """What every store of torch can, and no more; Python's own."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        with self._lock:
            self._values[key] = value.encode()

    def get(self, key: str) -> bytes:
        with self._lock:
            return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._lock:
            value = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(value).encode()
            return value

    def check(self, keys: list[str]) -> bool:
        with self._lock:
            return all(key in self._values for key in keys)

    def has_extended_api(self) -> bool:
        return False


class MortalStore:
    """A store as a process sees it that is killed before its call number `life`."""

    def __init__(self, store: Any, life: float) -> None:
        self._store = store
        self._life = life

    def kill(self) -> None:
        self._life = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*arguments: Any) -> Any:
            if self._life <= 0:
                raise KilledError
            self._life -= 1
            return method(*arguments)

        return call


def opener(kind: str, folder: Path) -> Callable[[str], Any]:
    """Opens a process's own end of a store of that kind, with a prefix."""
    if kind == "tcp":
        server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        return lambda prefix: dist.PrefixStore(
            prefix, dist.TCPStore(server.host, server.port, is_master=False)
        )
    if kind == "file":
        path = str(folder / secrets.token_hex(4))
        return lambda prefix: dist.PrefixStore(prefix, dist.FileStore(path, -1))
    if kind == "hash":
        store = dist.HashStore()
        return lambda prefix: dist.PrefixStore(prefix, store)
    plain: dict[str, PlainStore] = {}
    return lambda prefix: plain.setdefault(prefix, PlainStore())


@dataclass
class Visit:
    """One process that comes as one rank of a group."""

    rank: int
    members: list[int]
    seconds: float
    store: MortalStore
    fails: bool = False
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    outcome: "Future[dict[str, Any]]" = field(default_factory=Future)

    def begin(self, delay: float) -> None:
        threading.Thread(target=self._run, args=(delay,), daemon=True).start()

    def _run(self, delay: float) -> None:
        time.sleep(delay)
        try:
            self.outcome.set_result(self._meet())
        except BaseException as error:
            self.outcome.set_exception(error)

    def _meet(self) -> dict[str, Any]:
        size = len(self.members)
        meeting = Rendezvous(self.store, self.rank, size, timedelta(seconds=self.seconds), self.members)

        def make_card() -> dict[str, Any]:
            if self.fails:
                raise ValueError("no such option")
            return {"token": self.token}

        def attend(agreement: Agreement) -> dict[str, Any]:
            if self.rank == 0:
                layout: dict[str, Any] = {"tokens": [card["token"] for card in agreement.gather()]}
                agreement.announce(layout)
            else:
                layout = agreement.layout()
            return agreement.settle(lambda: {**layout, "number": meeting.number})

        return agree(meeting, make_card, attend)


class Job:
    """A drawn sequence of meetings of changing members in one store."""

    def __init__(self, seed: int, kind: str, folder: Path) -> None:
        self._random = random.Random(seed)
        self._open = opener(kind, folder)
        self.said: list[str] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            kind = self._random.choice(["whole", "killed", "killed", "restarted", "absent", "failed"])
            members = sorted(self._random.sample(range(LARGEST), self._random.randint(1, LARGEST)))
            prefix = self._random.choice(["default_pg/0", "default_pg/1"])
            self.said.append(f"{kind}: {members} at {prefix}")
            getattr(self, f"_{kind}")(members, prefix)

    def _visit(self, rank: int, members: list[int], prefix: str, **options: Any) -> Visit:
        life = options.pop("life", float("inf"))
        seconds = options.pop("seconds", LIMIT_SECONDS - 1)
        delay = options.pop("delay", self._delay())
        visit = Visit(rank, members, seconds, MortalStore(self._open(prefix), life), **options)
        visit.begin(delay)
        return visit

    def _delay(self) -> float:
        return self._random.choice([0, 0, self._random.uniform(0, 0.2)])

    def _whole(self, members: list[int], prefix: str) -> None:
        ranks = range(len(members))
        self._end_well({rank: self._visit(rank, members, prefix) for rank in ranks}, members, prefix)

    def _killed(self, members: list[int], prefix: str) -> None:
        """Some are killed at any moment and come again; the others notice nothing before."""
        visits = {}
        for rank in range(len(members)):
            life = self._random.randrange(MOST_CALLS) if self._random.random() < 0.4 else float("inf")
            visits[rank] = self._visit(rank, members, prefix, life=life)
        self._end_well(visits, members, prefix)

    def _restarted(self, members: list[int], prefix: str) -> None:
        """All are killed at any moment, and come again."""
        visits = [
            self._visit(rank, members, prefix, life=self._random.randrange(MOST_CALLS))
            for rank in range(len(members))
            if self._random.random() < 0.8
        ]
        time.sleep(self._random.uniform(0, 0.1))
        for visit in visits:
            visit.store.kill()
        wait([visit.outcome for visit in visits], LIMIT_SECONDS)
        self._whole(members, prefix)

    def _absent(self, members: list[int], prefix: str) -> None:
        """Some do not come: all others say which, in time. Then all come."""
        absent = self._random.sample(range(len(members)), self._random.randint(0, len(members) - 1))
        begun = time.monotonic()
        visits = [
            self._visit(rank, members, prefix, seconds=SHORT_SECONDS)
            for rank in range(len(members))
            if rank not in absent
        ]
        for visit in visits:
            error = visit.outcome.exception(LIMIT_SECONDS)
            assert bool(error) == bool(absent), (absent, visit, error)
            if error is not None:
                assert any(f" {rank} has" in str(error) or f" {rank}," in str(error) for rank in absent), (
                    absent,
                    str(error),
                )
        assert time.monotonic() - begun < LIMIT_SECONDS
        self._whole(members, prefix)

    def _failed(self, members: list[int], prefix: str) -> None:
        """One has an error of its own: all others raise it. Then all come."""
        culprit = self._random.randrange(len(members))
        visits = [self._visit(rank, members, prefix, fails=rank == culprit) for rank in range(len(members))]
        for visit in visits:
            error = visit.outcome.exception(LIMIT_SECONDS)
            if visit.rank == culprit:
                assert isinstance(error, ValueError)
            else:
                assert f"rank {culprit}: no such option" in str(error), (culprit, visit, error)
        self._whole(members, prefix)

    def _end_well(self, visits: dict[int, Visit], members: list[int], prefix: str) -> None:
        """Ranks that are killed come again, and those that had met with them: at last all have met."""
        end = time.monotonic() + LIMIT_SECONDS
        killed: set[str] = set()
        for _ in itertools.count():
            left = end - time.monotonic()
            assert left > 0, ("not met in time", self.said, visits)
            running = [visit.outcome for visit in visits.values() if not visit.outcome.done()]
            if running:
                wait(running, min(left, 0.05), FIRST_COMPLETED)
            for rank, visit in list(visits.items()):
                if not visit.outcome.done():
                    continue
                error = visit.outcome.exception()
                if isinstance(error, KilledError):
                    killed.add(visit.token)
                elif error is not None:
                    raise error
                elif not killed.intersection(visit.outcome.result()["tokens"]):
                    continue
                visits[rank] = self._visit(rank, members, prefix)
            if all(visit.outcome.done() for visit in visits.values()):
                break
        results = [visits[rank].outcome.result() for rank in range(len(members))]
        assert results == [results[0]] * len(members), results
        assert results[0]["tokens"] == [visits[rank].token for rank in range(len(members))]
