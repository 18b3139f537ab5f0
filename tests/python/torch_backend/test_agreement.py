"""Ranks meet in stores that others have used, and whatever becomes of those that they meet."""

import os
import random
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ranks
import square.torch.agreement
import square.torch.rendezvous
import torch
from meetings import LIMIT_SECONDS, SHORT_SECONDS, Job, MortalStore, PlainStore, Visit
from square.torch.rendezvous import LostStoreError, Rendezvous
from torch import distributed as dist

STORES = ["tcp", "file", "hash", "plain"]
STEPS = 6


def draw(seed: int, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The promises are in seconds; the ranks need not look every second for what the test does in a moment.
    monkeypatch.setattr(square.torch.rendezvous, "LOOK_SECONDS", 0.05)
    job = Job(seed + number, STORES[number % len(STORES)], folder)
    try:
        job.run(STEPS)
    finally:
        print("\n".join(job.said))


@pytest.mark.parametrize("number", range(6))
def test_drawn_meetings_are_right(
    seed: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(seed, number, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("number", range(200))
def test_many_drawn_meetings_are_right(
    seed: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(seed, number, tmp_path, monkeypatch)


def come(store: Any, rank: int, seconds: float, size: int = 3, life: float = float("inf")) -> Visit:
    visit = Visit(rank, list(range(size)), seconds, MortalStore(store, life))
    visit.begin(0)
    return visit


def error_of(visit: Visit) -> str:
    return str(visit.outcome.exception(LIMIT_SECONDS))


@pytest.mark.parametrize("again", range(3))
def test_a_rank_that_gives_up_comes_again_while_others_wait(again: int) -> None:
    store = PlainStore()
    steady, late = (rank for rank in range(3) if rank != again)
    waiting = come(store, steady, LIMIT_SECONDS)
    assert f"rank {late} has not come" in error_of(come(store, again, SHORT_SECONDS))
    everyone = [waiting, come(store, again, LIMIT_SECONDS), come(store, late, LIMIT_SECONDS)]
    results = [visit.outcome.result(LIMIT_SECONDS) for visit in everyone]
    assert results == [results[0]] * 3


def test_an_error_is_told_though_another_rank_never_comes() -> None:
    store = PlainStore()
    first = come(store, 0, 60)
    failing = Visit(1, [0, 1, 2], 60, MortalStore(store, float("inf")), fails=True)
    failing.begin(0.1)
    begun = time.monotonic()
    assert "rank 1: no such option" in error_of(first)
    assert time.monotonic() - begun < 5


def test_an_error_of_an_earlier_process_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PlainStore()
    for rank in (0, 1):
        failing = Visit(rank, [0, 1, 2], 60, MortalStore(store, float("inf")), fails=True)
        failing.begin(0)
        assert error_of(failing) == "no such option"
    began = time.time() + square.torch.agreement.START_SECONDS
    monkeypatch.setattr(square.torch.agreement, "process_began", lambda: began)
    visits = [come(store, 2, LIMIT_SECONDS)]
    time.sleep(square.torch.agreement.GRACE_SECONDS + 0.5)
    visits += [come(store, rank, LIMIT_SECONDS) for rank in (0, 1)]
    results = [visit.outcome.result(LIMIT_SECONDS) for visit in visits]
    assert results == [results[0]] * 3


def test_an_error_from_just_before_a_process_began_is_of_the_same_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks are started one after another, and the first may fail at once."""
    store = PlainStore()
    failing = Visit(0, [0, 1, 2], 60, MortalStore(store, float("inf")), fails=True)
    failing.begin(0)
    assert error_of(failing) == "no such option"
    began = time.time() + 0.1
    monkeypatch.setattr(square.torch.agreement, "process_began", lambda: began)
    assert "rank 0: no such option" in error_of(come(store, 2, 60))


def test_an_error_from_before_a_rank_came_is_its_own_where_nobody_comes_again() -> None:
    store = PlainStore()
    failing = Visit(0, [0, 1, 2], 60, MortalStore(store, float("inf")), fails=True)
    failing.begin(0)
    assert error_of(failing) == "no such option"
    assert "rank 0: no such option" in error_of(come(store, 2, 60))


def test_the_rank_that_does_not_answer_is_named() -> None:
    store = PlainStore()
    # It puts up its card, and is killed.
    dead = come(store, 1, LIMIT_SECONDS, life=2)
    dead.outcome.exception(LIMIT_SECONDS)
    first, last = come(store, 0, SHORT_SECONDS), come(store, 2, SHORT_SECONDS)
    for visit in (first, last):
        assert "rank 1 has put up its card, but does not answer" in error_of(visit)


def test_two_processes_that_are_rank_0_are_told() -> None:
    store = PlainStore()
    firsts = [come(store, 0, 2, size=2) for _ in range(2)]
    meeting = Rendezvous(store, 1, 2, timedelta(seconds=LIMIT_SECONDS), [0, 1])
    # One that comes after the other has met rank 1 sees a group that is over, as after a restart.
    assert meeting.poll(lambda: meeting.add("meetings", 0) == 2, time.monotonic() + LIMIT_SECONDS)
    other = come(store, 1, LIMIT_SECONDS, size=2)
    met = other.outcome.result(LIMIT_SECONDS)
    [left_over] = (visit for visit in firsts if visit.token not in met["tokens"])
    assert "another process has come as rank 0" in error_of(left_over)


def test_a_wait_wakes_soon_and_asks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """In virtual time: at most 20 ms late near the start, and 5% of the time waited later."""
    now, asked = 0.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(square.torch.rendezvous.time, "monotonic", lambda: now)
    monkeypatch.setattr(square.torch.rendezvous.time, "sleep", sleep)
    meeting = Rendezvous(PlainStore(), 0, 2, timedelta(minutes=30))

    def is_over_at(over: float) -> bool:
        nonlocal asked
        asked += 1
        return now >= over

    for over in (0.0005, 0.003, 0.05, 0.3, 1.0, 7.0, 100.0, 1700.0):
        now, asked = 0.0, 0
        assert meeting.poll(partial(is_over_at, over), 1800.0)
        assert now - over <= min(max(0.02, 0.05 * over), 1.0) * 1.0001
        assert asked < 150 + over
    now = 0.0
    assert not meeting.poll(lambda: False, 1800.0)
    assert now == pytest.approx(1800.0)


SERVER = """
import time
from torch import distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
time.sleep(100)
"""


def test_a_store_whose_process_dies_ends_the_wait_at_once() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        waiting = [come(dist.TCPStore("127.0.0.1", port, is_master=False), rank, 100) for rank in (0, 2)]
        time.sleep(0.5)
    finally:
        server.kill()
        server.wait()
    begun = time.monotonic()
    for visit in waiting:
        assert isinstance(visit.outcome.exception(LIMIT_SECONDS), LostStoreError)
        assert f"rank {visit.rank} cannot use the group's store any more" in error_of(visit)
    assert time.monotonic() - begun < 3


def wait_for_a_late_rank(rank: int, size: int, port: int) -> None:
    time.sleep(3 if rank == 1 else 0)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("square", store=store, rank=rank, world_size=size)
    dist.barrier()


def test_waiting_for_a_late_rank_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks.run(wait_for_a_late_rank, 3, server.port, backend=None)
    said = capfd.readouterr()
    assert said.out.strip() == ""
    assert "socket" not in said.err


def form_groups_of_any_members(rank: int, size: int, port: int, seed: int, rounds: int) -> None:
    """In a store that outlives destroy_process_group, all groups have the same few prefixes."""
    drawn = random.Random(seed)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    shapes = [[0, 2], [0, 1, 2]] + [
        sorted(drawn.sample(range(size), drawn.randint(1, size))) for _ in range(rounds)
    ]
    for members in shapes:
        dist.init_process_group(
            "square", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=30)
        )
        group = dist.new_group(members)
        if rank in members:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == sum(members)
        dist.destroy_process_group()


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=pytest.mark.long)])
def test_groups_of_any_members_meet_in_one_store(seed: int, rounds: int) -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks.run(form_groups_of_any_members, 5, server.port, seed, rounds, backend=None)


def change_size(rank: int, size: int, port: int, sizes: list[int]) -> None:
    for now in sizes:
        if rank < now:
            store = dist.TCPStore("127.0.0.1", port, is_master=False)
            dist.init_process_group("square", store=store, rank=rank, world_size=now)
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert tensor.tolist() == [now] * 3
            dist.destroy_process_group()


def test_a_store_sees_worlds_of_changing_size() -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks.run(change_size, 5, server.port, [3, 5, 2, 5, 1], backend=None)


@pytest.mark.parametrize("rounds", [4, pytest.param(100, marks=pytest.mark.long)])
def test_killed_processes_come_again_to_one_store(seed: int, rounds: int) -> None:
    """All are started again, as an agent does; or one, for which the others wait."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, str(Path(__file__).with_name("restarted.py"))]
    done = subprocess.run(
        [*command, str(seed), str(rounds), str(server.port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60 + 15 * rounds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
