"""A controller that is killed and started again while its nodes train: with a store and without one."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import square
from commands import wait_until
from database import postgres
from groups import TIMEOUT_SECONDS
from square.errors import AlreadyExistsError, SquareError
from test_cli_serve import serving

NAMES = ["a", "b", "c"]


class Restarted:
    """`square controller` at one address, over several lives."""

    def __init__(self, stack: ExitStack, store: Path | str | None) -> None:
        self._stack = stack
        self._store = ["--store", store] if store else []
        self._process, self.address = self._start("127.0.0.1:0")

    def _start(self, bind: str) -> tuple[object, str]:
        return self._stack.enter_context(serving("controller", "--bind", bind, *self._store))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def again(self) -> None:
        self._process, _ = self._start(self.address)


class Job:
    """One member of a group on each node, all-reducing without a pause, and making other groups meanwhile."""

    def __init__(self, nodes: dict[str, square.Node]) -> None:
        self.errors: list[BaseException] = []
        self.longest = 0.0
        self.operations = 0
        self.groups = 0
        self._is_over = threading.Event()
        self._nodes = nodes
        self._threads = [threading.Thread(target=self._guard, args=(rank,)) for rank in range(len(NAMES))]

    def _guard(self, rank: int) -> None:
        try:
            self._member(rank)
        except BaseException as error:
            self.errors.append(error)

    def _member(self, rank: int) -> None:
        node = self._nodes[NAMES[rank]]
        data, last = np.zeros(50_000, "float32"), np.zeros(1, "float32")
        with square.Communicator(node, "job", "alice", NAMES, rank) as group:
            group.all_reduce(data, timeout=TIMEOUT_SECONDS)  # registered
            group.all_reduce(last, timeout=TIMEOUT_SECONDS)
            step = 0
            while not last[0]:
                step += 1
                data[:] = step + rank
                last[0] = self._is_over.is_set() and rank == 0
                begun = time.monotonic()
                group.all_reduce(data, timeout=TIMEOUT_SECONDS)
                group.all_reduce(last, timeout=TIMEOUT_SECONDS)
                self.longest = max(self.longest, time.monotonic() - begun)
                assert (data == 3 * step + 3).all()
                self.operations += 1
                if step % 25 == 0:
                    self._another_group(node, rank, step)

    def _another_group(self, node: square.Node, rank: int, step: int) -> None:
        with square.Communicator(node, f"group {step % 50}", "bob", NAMES, rank) as other:
            data = np.full(100, rank, "float32")
            other.all_reduce(data, timeout=TIMEOUT_SECONDS)
            assert (data == 3).all()
            self.groups += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join()


def check_kills(store: Path | str | None, kills: int, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    with ExitStack() as stack:
        controller = Restarted(stack, store)
        nodes = {name: stack.enter_context(square.Node(name, controller.address)) for name in NAMES}
        job = Job(nodes)
        with job.running():
            for _ in range(kills):
                time.sleep(chance.uniform(0.1, 0.8))
                controller.kill()
                time.sleep(chance.uniform(0, 0.2))
                controller.again()
            # Where it never lived for long, the job itself is registered only now.
            assert wait_until(lambda: job.groups > 0 or bool(job.errors), TIMEOUT_SECONDS)
        if job.errors:
            raise job.errors[0]
    print(f"{job.operations} operations, the longest {job.longest:.2f} s, {job.groups} groups")
    assert job.operations > 0


# 8 starts of a controller process, which takes most of a second each.
@pytest.mark.parametrize("is_stored", [False, True], ids=["forgetful", "stored"])
def test_a_controller_that_is_killed_harms_nobody(tmp_path: Path, is_stored: bool) -> None:
    check_kills(tmp_path / "store" if is_stored else None, kills=4, seed=random.randrange(1 << 30))


# The same beside the making of a database.
def test_a_controller_with_a_database_that_is_killed_harms_nobody() -> None:
    with postgres() as address:
        check_kills(address, kills=4, seed=random.randrange(1 << 30))


@pytest.mark.long
@pytest.mark.parametrize("is_stored", [False, True], ids=["forgetful", "stored"])
def test_a_controller_that_is_killed_fifty_times_harms_nobody(tmp_path: Path, is_stored: bool) -> None:
    check_kills(tmp_path / "store" if is_stored else None, kills=50, seed=random.randrange(1 << 30))


def refused(start: Callable[[], square.Controller]) -> SquareError:
    with pytest.raises(SquareError) as raised:
        start()
    return raised.value


def test_stores_that_cannot_be_used_are_refused_by_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with square.Controller(store=store):
        second = refused(lambda: square.Controller(store=store))
        assert isinstance(second, AlreadyExistsError)
        assert str(store) in str(second)
    with square.Controller(store=store):
        pass
    text = tmp_path / "text"
    text.write_text("no store at all\n" * 1000, encoding="utf-8")
    assert "not a store" in str(refused(lambda: square.Controller(store=text)))
    assert str(tmp_path) in str(refused(lambda: square.Controller(store=tmp_path)))
