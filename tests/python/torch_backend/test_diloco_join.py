"""Processes that join members of square.diloco: what they are given, by whom, and what befalls them."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from diloco_reference import Model, inner_of, run
from square.diloco import DiLoCo, handover, joining, recovery
from square.errors import UnavailableError
from test_diloco import CLOSE, EVERY, digest, distance, parts_of, train_with
from torch import distributed as dist

LIMIT = timedelta(seconds=40)
KNOCK = 11  # the inner step before which members wait until somebody asks to join
JOINED = 16  # that with which who has joined begins
STEPS = 40


def wait_for(path: Path) -> str:
    end = time.monotonic() + LIMIT.total_seconds()
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return path.read_text()


def be_member(
    rank: int, members: int, folder: str, askers: int, until: str = "invitation", **options: Any
) -> Any:
    """Trains; before step KNOCK rank 0 waits until so many ask to join, and a file is there."""
    os.environ["SQUARE_NODE"] = f"site{rank}"
    store = dist.FileStore(f"{folder}/members", members)
    dist.init_process_group("square", store=store, rank=rank, world_size=members)
    model = Model()
    options = {"compression": "none", "join": "peers", "timeout": LIMIT, **options}
    with DiLoCo(model, inner_of(model), sync_every=EVERY, **options) as diloco:
        if rank == 0:
            partial = Path(folder) / "partial"
            partial.write_text(diloco.invitation())
            partial.rename(Path(folder) / "invitation")
        train_with(diloco, model, KNOCK, rank)
        end = time.monotonic() + LIMIT.total_seconds()
        while rank == 0 and time.monotonic() < end:
            if diloco._peers.waiting() == askers and (Path(folder) / until).exists():
                break
            time.sleep(0.01)
        train_with(diloco, model, STEPS - KNOCK, rank, KNOCK)
    return diloco, model


def be_joiner(rank: int, folder: str, model: Any = None, **options: Any) -> Any:
    os.environ["SQUARE_NODE"] = f"site{rank}"
    if model is None:
        model = Model()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(5.0)  # nothing of it stays
    text = wait_for(Path(folder) / "invitation")
    options = {"compression": "none", "join": "peers", "timeout": LIMIT, **options}
    diloco = DiLoCo(model, inner_of(model), sync_every=EVERY, invitation=text, **options)
    with diloco:
        train_with(diloco, model, STEPS - diloco.steps, rank, diloco.steps)
    return diloco, model


def close(diloco: DiLoCo, model: Any) -> list[Any]:
    said = [digest(model), diloco.tokens, diloco.steps, diloco.history[-1].members]
    said.append(sum(one.is_lost for one in diloco.history))
    return said


def join_in(rank: int, size: int, folder: str, fragments: int, delay: int, alpha: float) -> Any:
    options = {"fragments": fragments, "fragment_sync_delay": delay, "fragment_update_alpha": alpha}
    if rank < 3:
        diloco, model = be_member(rank, 3, folder, 1, **options)
        given: list[int] = []
    else:
        diloco, model = be_joiner(rank, folder, **options)
        given = sorted(diloco._peers.intake.received_bytes)
    parts = parts_of(model, fragments)
    members, _ = run(4, STEPS, EVERY, parts, delay, alpha, starts={3: JOINED})
    return [distance(model, members[rank]), given, close(diloco, model)]


@pytest.mark.parametrize(("fragments", "delay", "alpha"), [(1, 0, 0.0), (2, 1, 0.5)])
def test_who_joins_goes_on_as_in_the_reference(
    fragments: int, delay: int, alpha: float, tmp_path: Path
) -> None:
    results = ranks.run(join_in, 4, str(tmp_path), fragments, delay, alpha, backend=None)
    for far, _, said in results:
        assert far < CLOSE
        assert said[1:] == [results[0][2][1], STEPS, 4, 0]
        if not alpha:
            assert said[0] == results[0][2][0]  # the same bits
    assert results[3][1] == [0, 1, 2]


def spoil(rank: int, size: int, folder: str) -> Any:
    """Rank 1's parts are wrong; all are small."""
    handover.FIRST_PART = handover.LEAST_PART = 512
    handover.PART_SECONDS = 0.0
    if rank == 1:
        marked = handover._mark

        def mark(message: Any) -> None:
            marked(message)
            message[20] ^= 1

        handover._mark = mark
    if rank < 3:
        return [close(*be_member(rank, 3, folder, 2, compression="int8:feedback")), {}, {}]
    diloco, model = be_joiner(rank, folder, compression="int8:feedback")
    intake = diloco._peers.intake
    return [close(diloco, model), intake.wrong, intake.received_bytes]


def test_two_at_once_take_what_one_spoils_from_the_others(tmp_path: Path) -> None:
    results = ranks.run(spoil, 5, str(tmp_path), backend=None)
    assert [one[0] for one in results] == [results[0][0]] * 5
    assert results[0][0][2:] == [STEPS, 5, 0]
    for _, wrong, received in results[3:]:
        assert wrong["0"] == wrong["2"] == received["1"] == 0
        assert handover.MOST_WRONG <= wrong["1"] <= handover.MOST_WRONG + handover.DEPTH
        assert min(received["0"], received["2"]) > 0


def be_killed(rank: int, size: int, folder: str, victim: int) -> Any:
    """In the middle of a handover."""
    handover.FIRST_PART = handover.LEAST_PART = 512
    handover.PART_SECONDS = 0.0
    read, put = handover.Catalogue.read, handover.Intake._put
    seen: list[int] = []

    def count(*_: Any) -> None:
        seen.append(0)
        if rank == victim and len(seen) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)

    handover.Catalogue.read = lambda *given: (count(), read(*given))[1]
    handover.Intake._put = lambda *given: (count(), put(*given))[1]
    if rank < 3:
        return close(*be_member(rank, 3, folder, 1))
    return close(*be_joiner(rank, folder))


@pytest.mark.parametrize("victim", [1, 0, 3], ids=["giver", "rank 0", "joiner"])
def test_the_others_go_on_where_one_dies_in_a_handover(victim: int, tmp_path: Path) -> None:
    results = ranks.run(be_killed, 4, str(tmp_path), victim, backend=None, expect_deaths=True)
    left = [one for rank, one in enumerate(results) if rank != victim]
    for said, counted, steps, members, _ in left:
        assert (said, counted) == (left[0][0], left[0][1])
        assert (steps, members) == (STEPS, 3)


def be_left_alone(rank: int, size: int, folder: str) -> Any:
    if rank < 2:
        handover.Catalogue.read = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        return close(*be_member(rank, 2, folder, 1))
    with pytest.raises(UnavailableError, match="nobody who has the model is left"):
        be_joiner(rank, folder)
    return True


def test_who_joins_and_is_left_alone_is_told_so(tmp_path: Path) -> None:
    results = ranks.run(be_left_alone, 3, str(tmp_path), backend=None, expect_deaths=True)
    assert results == [None, None, True]


def be_refused(rank: int, size: int, folder: str) -> Any:
    if rank < 2:
        return close(*be_member(rank, 2, folder, 0, until="refused"))
    with pytest.raises(ValueError, match="differ") as error:
        be_joiner(rank, folder, model=torch.nn.Linear(3, 4))
    with pytest.raises(ValueError, match="weight: tokens, this process has weight: equal"):
        be_joiner(rank, folder, weight="equal")
    (Path(folder) / "refused").touch()
    return str(error.value)


def test_another_model_is_refused_with_the_difference_and_the_others_train_on(tmp_path: Path) -> None:
    *left, text = ranks.run(be_refused, 3, str(tmp_path), backend=None)
    assert "the group has first.weight: (64, 16)" in text
    assert "this process has weight: (4, 3)" in text
    assert left[0] == left[1]
    assert left[0][2:] == [STEPS, 2, 0]


def ask_and_not_come(rank: int, size: int, folder: str) -> Any:
    recovery.JOIN_LIMIT = timedelta(seconds=1)
    if rank < 2:
        return close(*be_member(rank, 2, folder, 1))

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    joining.join = die
    return be_joiner(rank, folder)


def test_who_asks_and_does_not_come_is_not_waited_for_long(tmp_path: Path) -> None:
    begun = time.monotonic()
    *left, _ = ranks.run(ask_and_not_come, 3, str(tmp_path), backend=None, expect_deaths=True)
    assert left[0] == left[1]
    assert left[0][2:4] == [STEPS, 2]
    assert time.monotonic() - begun < 60


def test_a_lobby_hears_those_alone_who_know_the_secret_and_stay() -> None:
    secret = "a" * 32
    lobby = joining.lobby.Lobby("127.0.0.1", secret, [["x", "1"]])
    place = (lobby.place[0], lobby.place[1])

    def ask(secret: str, value: str, end: float = LIMIT.total_seconds()) -> str:
        return joining.lobby.ask([place], secret, [["x", value]], time.monotonic() + end)

    def until(count: int) -> None:
        end = time.monotonic() + LIMIT.total_seconds()
        while lobby.waiting() != count:
            assert time.monotonic() < end

    with ThreadPoolExecutor() as threads:
        stranger = threads.submit(ask, "b" * 32, "1", 0.5)
        known = threads.submit(ask, secret, "1")
        until(1)
        with pytest.raises(TimeoutError):
            stranger.result()
        assert lobby.waiting() == 1
        other = threads.submit(ask, secret, "2")
        while not other.done():
            assert lobby.waiting() == 1
        with pytest.raises(ValueError, match="the group has x: 1, this process has x: 2"):
            other.result()
        assert lobby.welcome("come") == 1
        assert known.result() == "come"
    lobby.close()


def test_what_is_read_on_the_way_to_a_lobby_opens_none() -> None:
    secret = "a" * 32
    lobby = joining.lobby.Lobby("127.0.0.1", secret, [["x", "1"]])
    with socket.create_server(("127.0.0.1", 0)) as wire, ThreadPoolExecutor() as threads:
        where = wire.getsockname()
        asked = threads.submit(joining.lobby.ask, [where], secret, [["x", "1"]], time.monotonic() + 0.5)
        heard = wire.accept()[0].makefile("rb").readline()
        with pytest.raises(TimeoutError):
            asked.result()
    assert secret.encode() not in heard

    def says_again() -> bool:
        with socket.create_connection(lobby._server.getsockname()) as again:
            again.sendall(heard)
            return lobby.waiting() == 1

    assert not says_again()  # it was for another place
    lobby.place = list(where)
    assert says_again()
    assert not says_again()  # nor twice
    lobby.close()


def test_who_cannot_join_is_told_so_at_once() -> None:
    model = Model()
    with pytest.raises(ValueError, match='passes join="peers"'):
        DiLoCo(model, inner_of(model), invitation="[]")
    with pytest.raises(ValueError, match="no group before"):
        DiLoCo(model, inner_of(model), invitation="[]", join="peers", group=object())
    with pytest.raises(ValueError, match="none, peers"):
        DiLoCo(model, inner_of(model), join="store")
    with pytest.raises(ValueError, match="nobody is taken in"):
        DiLoCo(model, inner_of(model)).invitation()
