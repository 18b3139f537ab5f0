"""What a process believes: others that write to the store, or to its mark, replace nothing it was given."""

import json
import os
import socket
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ranks
import square.torch
from square import hosts
from square.errors import DeadlineExceededError
from square.torch import bootstrap, presence, refounding, regrouping
from square.torch.bootstrap import Card
from square.torch.options import Options
from square.torch.rendezvous import Rendezvous
from square.torch.terms import Terms, trusted_gateway
from torch import distributed as dist

GIVEN = "127.0.0.1:1"


def terms(**changed: Any) -> Terms:
    usual = {"tenant": "alice", "algorithm": "planned", "compression": "none", "controller": GIVEN}
    return Terms(**{**usual, "fingerprints": [], "weight": None, "redundancy": 0, **changed})


def be_deceived(rank: int, size: int, folder: str, given: dict[str, str]) -> str:
    """Rank 0 takes no notice of what rank 1 was given, as a writer of the store can."""
    os.environ.update(SQUARE_NODE=f"site{rank}", **(given if rank == 1 else {}))
    if rank == 0:
        bootstrap._controller_of = lambda cards: ""
    store = dist.FileStore(f"{folder}/store", size)
    with pytest.raises(ValueError if rank == 1 else RuntimeError) as raised:
        dist.init_process_group("square", store=store, rank=rank, world_size=size)
    return str(raised.value)


@pytest.mark.parametrize("name", ["SQUARE_CONTROLLER", "SQUARE_IDENTITY"])
def test_the_store_replaces_neither_controller_nor_identity(name: str, tmp_path: Path) -> None:
    given = {"SQUARE_CONTROLLER": GIVEN, "SQUARE_IDENTITY": str(tmp_path)}[name]
    texts = ranks.run(be_deceived, 2, str(tmp_path), {name: given}, backend=None)
    assert "this process was given" in texts[1]
    assert given in texts[1]
    assert "rank 1: " in texts[0]


def test_rank_0_with_an_identity_founds_no_overlay_without_one(tmp_path: Path) -> None:
    cards = [Card(hosts.host_key(), f"site{rank}", True, "", "", {}) for rank in range(2)]
    with pytest.raises(ValueError, match="was given the identity"):
        bootstrap._found_overlay(Options(identity=str(tmp_path)), "alice", cards)


@pytest.mark.parametrize(
    ("given", "changed", "text"),
    [
        ({"controller": "127.0.0.1:2"}, {}, "127.0.0.1:2"),
        ({"controller": GIVEN}, {"fingerprints": ["ab"]}, "1 keys"),
        ({"identity": "alice"}, {"fingerprints": ["ab"]}, "identity alice"),
        ({"identity": "alice"}, {"weight": 1.0}, "identity alice"),
    ],
)
def test_an_invitation_replaces_neither(
    given: dict[str, str], changed: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regrouping, "join_overlay", lambda *_: pytest.fail("it joins"))
    invited = json.dumps([GIVEN, "g", vars(terms(**changed)), ""])
    with pytest.raises(ValueError, match=text):
        square.torch.join(invited, Options(**given), timedelta(seconds=1))


@pytest.mark.parametrize("changed", [{"controller": "127.0.0.1:2"}, {"fingerprints": ["ab"]}])
def test_a_group_that_goes_on_believes_whom_it_did(changed: dict[str, Any]) -> None:
    store = dist.HashStore()
    first, own = (Rendezvous(store, rank, 2, timedelta(seconds=1)) for rank in range(2))
    first.put("terms", vars(terms(**changed)))
    place = [hosts.host_key(), "node", "", False, False]
    first.put("card/0", place)
    site: Any = SimpleNamespace(host=None, name="node", has_controller=False, key=GIVEN)
    communicator: Any = SimpleNamespace(barrier=lambda timeout: None, name="g")
    with pytest.raises(ValueError, match="another process has written to the group's store"):
        bootstrap.meet_again(own, site, communicator, terms(), time.monotonic() + 1)
    first.put("terms", vars(terms()))
    assert bootstrap.meet_again(own, site, communicator, terms(), time.monotonic() + 1).controller == GIVEN


def test_a_gateway_of_another_user_is_none_of_this_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = str(tmp_path.resolve() / "a.sock")
    options = Options(controller=GIVEN)
    assert trusted_gateway(options, gateway) == gateway
    if os.geteuid() == 0:
        os.chown(tmp_path, 54_321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    assert trusted_gateway(Options(), gateway) == gateway
    with pytest.raises(ValueError, match="user 54321"):
        trusted_gateway(options, gateway)


def own_sockets() -> set[str]:
    found = set()
    for one in Path("/proc/self/fd").iterdir():
        try:
            found.add(os.readlink(one))
        except OSError:  # that of the listing itself
            continue
    return found


def listening_at() -> list[str]:
    """Where this process takes TCP connections: addresses in hexadecimal digits."""
    own, found = own_sockets(), []
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        fields = [line.split() for line in Path(file).read_text().splitlines()[1:]]
        found += [one[1].split(":")[0] for one in fields if one[3] == "0A" and f"socket:[{one[9]}]" in own]
    return found


def regroup(rank: int, size: int) -> list[str]:
    square.torch.shrink(timeout=timedelta(seconds=30))
    dist.barrier()
    return listening_at()


def test_the_store_of_a_group_on_the_loopback_listens_there_alone() -> None:
    found = ranks.run(regroup, 2, environments=[{"SQUARE_NODE": f"site{rank}"} for rank in range(2)])
    loopback = {socket.inet_aton(hosts.LOOPBACK)[::-1].hex().upper()}
    assert set(found[0]) == loopback


def say_as_another(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says who writes. Root is believed, so where this is root the writer is not."""
    if os.getuid() != 0:
        monkeypatch.setattr(os, "getuid", lambda: 54_321)
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setuid(65_534)
        presence.say(mark, "x", {"ask": "other"})
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_mark_hears_its_own_user_alone_and_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = presence.own_mark()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        for text in (b"5", b"null", b'[["l"],{}]', b'["x", 3]', b"[1, {}]", b"[" * 50_000, b"{"):
            line.sendto(text, f"\0{mark}")
    assert presence.heard("x") == []
    assert presence.heard("l") == []
    say_as_another(mark, monkeypatch)
    assert presence.heard("x") == []
    monkeypatch.undo()
    monkeypatch.setattr(presence, "_MOST_MESSAGES", 2)
    for number in range(4):
        presence.say(mark, "x", {"ask": str(number)})
    assert presence.heard("x") == [{"ask": "2"}, {"ask": "3"}]


@pytest.mark.parametrize("message", [{"gateway": "g"}, {"gateway": 1, "marks": [[]]}, {"ask": []}])
@pytest.mark.parametrize("own", [0, 1])
def test_a_place_that_no_process_of_the_group_has_founded_is_none(own: int, message: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"\0square-test-{os.getpid()}")
        marks = [f"square-test-{os.getpid()}"]
        marks.insert(own, presence.own_mark())
        presence.say(marks[own], "g", message)
        with pytest.raises(DeadlineExceededError, match="waits for rank"):
            refounding.refound("g", "node", marks, own, "alice", 0.1)
