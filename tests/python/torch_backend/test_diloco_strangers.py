"""What strangers and members with bad manners can do to square.diloco."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ranks
import torch
from diloco_reference import Model, inner_of
from square.diloco import DiLoCo, Nesterov, handover, lobby, recovery
from square.diloco.fragments import Fragment
from square.diloco.hosting import DELAY_FILE, Host, identity_of, make_terms
from square.diloco.rounds import LostRoundError, Rounds
from square.diloco.shares import Scale, Share, Turn
from square.diloco.sums import Sums
from square.errors import SquareError
from square.ps import ask
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

SECRET = "a" * 32
LIMIT = timedelta(seconds=20)


def fail(*_: Any, **__: Any) -> Any:
    raise AssertionError("what a member sends is unpickled")


def rounds_of(value: float, outer: Any = None) -> Rounds:
    parameter = torch.nn.Parameter(torch.full((3,), value))
    fragment = Fragment([("w", parameter)], "cpu")
    return Rounds(0, fragment, outer or Nesterov(), Sums("none"), "equal")


def unpickle_nothing(rank: int, size: int) -> Any:
    c10d._tensor_to_object = fail
    model = Model()
    with DiLoCo(model, inner_of(model), sync_every=4, join="peers", timeout=LIMIT) as diloco:
        diloco._peers.introduce(diloco.group, [], {"steps": 1})
        places = [place[0] for place in diloco._peers._places]
    rounds = rounds_of(float(rank), lambda some: torch.optim.Adam(some, lr=torch.tensor(0.5)))
    if rank == 0:
        rounds.fragment.base_views[0].grad = torch.ones(3)
        rounds.optimizer.step()
        rounds.committed, rounds.scale, rounds.group_tokens = 2, Scale("tokens", 0.1), 7
    else:
        rounds.committed = 1
    recovery.meet(dist.group.WORLD, [rounds], 1, 0.0)
    state = rounds.optimizer.state[rounds.fragment.base_views[0]]
    held = {key: value.tolist() for key, value in state.items()}
    told = [rounds.committed, rounds.scale.usual, rounds.group_tokens]
    told += [str(options[key]) for options in rounds.optimizer.param_groups for key in ("betas", "lr")]
    return [places, held, told, rounds.fragment.base.tolist()]


def test_members_send_one_another_nothing_that_is_unpickled() -> None:
    first, second = ranks.run(unpickle_nothing, 2)
    assert first == second
    places, held, told, base = first
    assert len(places) == 2
    assert held["step"] == 1.0
    assert held["exp_avg"] == pytest.approx([0.1] * 3)
    assert told == [2, 0.1, 7, "(0.9, 0.999)", "tensor(0.5000)"]
    assert base == pytest.approx([-0.5] * 3)


def test_an_outer_optimizer_with_a_state_that_members_cannot_tell_is_named() -> None:
    rounds = rounds_of(0.0)
    rounds.optimizer.state[rounds.fragment.base_views[0]] = {"cond": [torch.zeros(1)]}
    with pytest.raises(ValueError, match="outer: its optimizer keeps cond as list"):
        recovery.state.clock([rounds])


def test_a_master_on_the_loopback_lets_in_its_members_alone() -> None:
    host = Host(make_terms(None, "bf16", 1, "auto", 1, "none"), 0, None)
    place = host.lead(1, lambda: "127.0.0.1")
    assert place is not None
    try:
        with pytest.raises(SquareError):
            ask(place[0], timeout=1.0)
        assert ask(place[0], identity=identity_of(place), timeout=10.0).version == 0
    finally:
        host.stop()


def test_an_interrupted_write_leaves_no_half_of_the_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(make_terms(None, "bf16", 1, "auto", 1, "none"), 0, tmp_path)
    write = Path.write_text

    def write_half(path: Path, text: str) -> None:
        write(path, text[: len(text) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises((OSError, SquareError), match="space left"):
        host._delay(3)
    monkeypatch.undo()
    assert not (tmp_path / DELAY_FILE).exists()
    assert host._delay(3) == 3
    assert list(tmp_path.iterdir()) == [tmp_path / DELAY_FILE]


@pytest.fixture
def group(tmp_path: Path) -> Any:
    """Of one, in this process."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -2.0, 0.5])
def test_a_share_that_cannot_be_read_loses_the_round(
    group: Any, wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = rounds_of(1.0)
    rounds.scale = Scale("equal", 1.0)
    numbers = Share.numbers
    monkeypatch.setattr(Share, "numbers", lambda self: [*numbers(self)[:2], wrong, *numbers(self)[3:]])
    rounds.begin(group, Turn(1, 1, 1), 5)
    with pytest.raises(LostRoundError, match="the share of rank 0 cannot be read"):
        rounds.finish(group)


@pytest.mark.parametrize(
    ("offset", "length"), [(-8, 16), (0, -5), (96, 8), (1000, 1), (0, handover.MOST_PART + 1)]
)
def test_a_part_that_there_is_not_is_refused(offset: int, length: int) -> None:
    sent: list[int] = []
    asked = [(offset, length), (0, 0)]

    def receive(into: list[Any], *_: Any) -> Any:
        into[0].copy_(torch.tensor(asked.pop(0)))
        return SimpleNamespace(wait=lambda: None)

    def send(tensors: list[Any], *_: Any) -> Any:
        sent.append(tensors[0].numel())
        return SimpleNamespace(wait=lambda: None)

    catalogue = handover.Catalogue([torch.zeros(100, dtype=torch.uint8)])
    handover.Server(SimpleNamespace(recv=receive, send=send), catalogue, 1).run()
    assert sent == []
    assert asked == [(0, 0)]


@pytest.fixture
def door() -> Any:
    opened = lobby.Lobby("127.0.0.1", SECRET, [["x", "1"]])
    strangers: list[socket.socket] = []
    yield opened, strangers
    for one in strangers:
        one.close()
    opened.close()


def test_silent_strangers_keep_nobody_out(door: Any) -> None:
    opened, strangers = door
    place = tuple(opened.place)
    for _ in range(2):
        strangers += [socket.create_connection(place) for _ in range(lobby.MOST_STRANGERS)]
        assert opened.waiting() == 0
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(lobby.ask, [place], SECRET, [["x", "1"]], time.monotonic() + 10)
        end = time.monotonic() + 2.5
        while not opened.waiting() and time.monotonic() < end:
            time.sleep(0.01)
        assert opened.welcome("come") == 1
        assert asked.result() == "come"


def test_a_stranger_that_drips_does_not_make_a_look_slow(door: Any) -> None:
    opened, strangers = door
    strangers.append(socket.create_connection(tuple(opened.place)))
    assert opened.waiting() == 0
    is_over = threading.Event()

    def drip() -> None:
        for _ in range(90):
            strangers[0].send(b"0")
            if is_over.wait(0.02):
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    time.sleep(0.05)
    begun = time.monotonic()
    waiting = opened.waiting()
    took = time.monotonic() - begun
    is_over.set()
    dripping.join()
    assert waiting == 0
    assert took < lobby.LOOK_SECONDS


def test_those_that_have_shown_the_secret_are_counted_apart(
    door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret may come after the connection was accepted; who has shown it makes room for no stranger."""
    opened, strangers = door
    place = tuple(opened.place)
    monkeypatch.setattr(lobby, "MOST_WAITING", 2)
    numbers = [str(number).encode() * 32 for number in range(3)]
    for number in numbers:
        late = socket.create_connection(place)
        strangers.append(late)
        assert opened.waiting() == min(2, len(strangers) - 1)
        late.sendall(number + lobby._proof(SECRET, number, lobby._name_of(*place)) + b'[["x", "1"]]\n')
        time.sleep(0.05)
        monkeypatch.setattr(lobby, "STRANGER_SECONDS", 0.0)  # long ago, when the member looks again
        assert opened.waiting() == min(2, len(strangers))
        monkeypatch.setattr(lobby, "STRANGER_SECONDS", 3.0)
    strangers += [socket.create_connection(place) for _ in range(lobby.MOST_STRANGERS + 1)]
    assert opened.waiting() == 2
    assert len(opened._guests) <= lobby.MOST_STRANGERS
