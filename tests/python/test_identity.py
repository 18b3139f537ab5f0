"""Processes that show one another certificates, on real connections."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import square
import square.ps
from issued import LIFE, Issued
from square.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

PATIENCE = 20.0
# Each takes longer than files are watched in.
ROTATIONS = 20 if os.environ.get("SQUARE_LONG") == "1" else 3


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Issued(tmp_path)


class Overlay:
    """A controller and nodes, each with an identity."""

    def __init__(self, stack: ExitStack, issued: Issued, names: Sequence[str]) -> None:
        self.names = list(names)
        self.controller = stack.enter_context(square.Controller(identity=issued("controller", "c")))
        self.nodes = [
            stack.enter_context(square.Node(name, self.controller.address, identity=issued("node", name)))
            for name in names
        ]

    def members(self, group: str, tenant: str = "alice") -> list[square.Communicator]:
        made: list[square.Communicator | None] = [None] * len(self.nodes)

        def join(rank: int) -> None:
            made[rank] = square.Communicator(
                self.nodes[rank], group, tenant, self.names, rank, collectives=[("all_reduce", 0, 1024, 1.0)]
            )

        together([lambda rank=rank: join(rank) for rank in range(len(self.nodes))])  # type: ignore[misc]
        return [one for one in made if one is not None]


def together(calls: list[Callable[[], object]]) -> None:
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


def add_up(members: list[square.Communicator]) -> None:
    buffers = [bytearray(4096) for _ in members]
    for rank, buffer in enumerate(buffers):
        buffer[:] = (rank + 1).to_bytes(4, "little") * 1024

    def call(rank: int) -> None:
        view = memoryview(buffers[rank]).cast("i")
        members[rank].all_reduce(view, timeout=PATIENCE)

    together([lambda rank=rank: call(rank) for rank in range(len(members))])  # type: ignore[misc]
    wanted = sum(range(1, len(members) + 1)).to_bytes(4, "little") * 1024
    assert all(bytes(buffer) == wanted for buffer in buffers)


@pytest.fixture
def overlay(issued: Issued) -> Iterator[Overlay]:
    with ExitStack() as stack:
        yield Overlay(stack, issued, "abc")


def test_sums_go_over_links_of_certificates(overlay: Overlay) -> None:
    add_up(overlay.members("g"))


def test_names_that_no_uri_has_place_for_are_as_good(issued: Issued) -> None:
    with ExitStack() as stack:
        overlay = Overlay(stack, issued, ["New York", "azure:eastus2", "Z\u00fcrich/1"])
        add_up(overlay.members("g", "acme & sons"))


def test_nodes_are_who_their_certificates_name(overlay: Overlay, issued: Issued, tmp_path: Path) -> None:
    address = overlay.controller.address
    with pytest.raises(InvalidArgumentError, match="/node/mallory"):
        square.Node("a", address, identity=issued("node", "mallory"))
    # Each looks for a controller that believes it for 5 s.
    foreign = Issued(tmp_path / "foreign")
    strangers = [None, foreign("node", "d"), square.Identity.make_own()]

    def refused(identity: square.Identity | str | None) -> None:
        with pytest.raises(UnavailableError, match="identity"):
            square.Node("d", address, identity=identity)

    together([lambda identity=one: refused(identity) for one in strangers])  # type: ignore[misc]
    assert [node.name for node in square.list_nodes(address, issued("controller", "op"))] == ["a", "b", "c"]
    # A tenant sees the nodes of its own groups alone, and it has none.
    assert square.list_nodes(address, issued("tenant", "t")) == []
    with pytest.raises(PermissionDeniedError):
        square.list_links(address, issued("tenant", "t"))
    with pytest.raises(UnavailableError):
        square.list_nodes(address, foreign("tenant", "t"), timeout=1)


def test_a_controller_is_dialled_for_its_role(overlay: Overlay, issued: Issued) -> None:
    with pytest.raises(UnavailableError, match="controller"):
        square.list_nodes(overlay.nodes[0].address, issued("tenant", "t"), timeout=1)


def test_only_what_was_granted_is_registered(issued: Issued) -> None:
    with (
        square.Controller(identity=issued("controller", "c")) as controller,
        square.Node("a", controller.address, identity=issued("node", "a", ("alice",))) as node,
    ):
        called = [("broadcast", 0, 1024, 1.0)]
        alice = square.Communicator(node, "g", "alice", ["a"], 0, collectives=called)
        with pytest.raises(PermissionDeniedError, match="square ca grant"):
            square.Communicator(node, "h", "bob", ["a"], 0)
        issued.authority.grant("bob", issued("node", "a"), LIFE, weight=2.0, nodes=["b"])
        with pytest.raises(PermissionDeniedError, match='node "a"'):
            square.Communicator(node, "h", "bob", ["a"], 0)
        issued.authority.grant("bob", issued("node", "a"), LIFE, weight=2.0)
        bob = square.Communicator(node, "h", "bob", ["a"], 0, collectives=called)
        plan = controller.plan()
        assert plan is not None
        weights = {one["name"]: one["weight"] for one in json.loads(plan.to_json())["tenants"]}
        assert weights == {"alice": 1.0, "bob": 2.0}
        del alice, bob


def test_a_running_job_does_not_notice_that_certificates_are_replaced(
    overlay: Overlay, issued: Issued
) -> None:
    members = overlay.members("g")
    for _ in range(ROTATIONS):
        for role, name in (("controller", "c"), ("node", "a"), ("node", "b"), ("node", "c")):
            issued.authority.issue(role, name, issued(role, name), LIFE)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            add_up(members)
    with square.Node("d", overlay.controller.address, identity=issued("node", "d")):
        add_up(members)


def test_a_revoked_node_is_out_within_a_second_or_two_and_back_with_a_new_certificate(
    overlay: Overlay, issued: Issued
) -> None:
    members = overlay.members("g")
    add_up(members)
    received = overlay.nodes[0].statistics()["bytes_received"]
    time.sleep(1.1)  # a certificate and its revocation of one second are not told apart
    square.Authority.revoke("node", "b", issued("controller", "c"))
    end = time.monotonic() + 10
    while any(node.name == "b" and node.connected for node in overlay.controller.nodes()):
        assert time.monotonic() < end
        time.sleep(0.05)
    with pytest.raises(square.SquareError):
        together([lambda m=m: m.all_reduce(bytearray(4096), timeout=2.0) for m in members])  # type: ignore[misc]
    assert overlay.nodes[0].statistics()["bytes_received"] >= received
    overlay.nodes[1].stop()
    time.sleep(1.1)
    issued.authority.issue("node", "b", issued("node", "b"), LIFE)
    end = time.monotonic() + 30
    while True:
        try:
            with square.Node("b", overlay.controller.address, identity=issued("node", "b")):
                return
        except square.SquareError:
            # Its name is free when its lease is over.
            assert time.monotonic() < end
            time.sleep(0.5)


def test_keys_of_their_own(tmp_path: Path) -> None:
    own, other, stranger = (square.Identity.make_own() for _ in range(3))
    own.believe([other.fingerprint])
    other.believe([own.fingerprint])
    again = square.Identity.from_pem(other.pem)
    assert again.fingerprint == other.fingerprint
    again.believe([own.fingerprint])
    stranger.believe([own.fingerprint])
    with (
        square.Controller(identity=own) as controller,
        square.Node("a", controller.address, identity=own) as a,
        square.Node("b", controller.address, identity=other) as b,
    ):
        group = [None, None]

        def join(rank: int, node: square.Node) -> None:
            group[rank] = square.Communicator(node, "g", "alice", ["a", "b"], rank)  # type: ignore[call-overload]

        together([lambda: join(0, a), lambda: join(1, b)])
        add_up(group)  # type: ignore[arg-type]
        with pytest.raises(UnavailableError):
            square.Node("c", controller.address, identity=stranger)


def test_mistakes_are_named(issued: Issued, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"identity\.pem"):
        square.Node("a", "127.0.0.1:1", identity=tmp_path / "nowhere")
    short = tmp_path / "short"
    issued.authority.issue("node", "a", short, timedelta(seconds=1))
    time.sleep(1.1)
    with pytest.raises(FailedPreconditionError, match="has expired: issue a new one"):
        square.Identity(short)
    with pytest.raises(InvalidArgumentError, match="square ca init"):
        square.Controller(bind_address="0.0.0.0:0")
    with pytest.raises(InvalidArgumentError, match="one of the two"):
        square.Controller(bind_address="0.0.0.0:0", identity=issued("controller", "c"), insecure=True)
    with pytest.raises(InvalidArgumentError, match="cannot be a certificate's name"):
        issued.authority.issue("node", "two\nlines", tmp_path / "x", LIFE)


def test_parameter_servers_with_identities(issued: Issued, tmp_path: Path) -> None:
    model = {"all": np.zeros(1000, np.float32)}
    with square.ps.Master("127.0.0.1:0", identity=issued("controller", "m")) as master:
        where = {"timeout": 20.0}
        server = square.ps.Server(
            master.address, tmp_path / "s", name="s", identity=issued("server", "s"), **where
        )
        with (
            server,
            square.ps.Worker(
                model, master=master.address, name="w", identity=issued("node", "w"), **where
            ) as worker,
        ):
            model["all"] -= 1.0
            worker.consumed(1)
            assert worker.sync().outcome == "adopted"
            operator = issued("controller", "operator")
            assert square.ps.ask(master.address, identity=operator).version == worker.version
        with pytest.raises(square.SquareError):
            square.ps.ask(master.address, timeout=1)
        elsewhere = issued("node", "w2", ("alice",))
        with pytest.raises(PermissionDeniedError, match="parameter-servers"):
            square.ps.Worker(model, master=master.address, name="w2", identity=elsewhere, **where)
        with pytest.raises(InvalidArgumentError, match="/node/mallory"):
            square.ps.Worker(model, master=master.address, name="w", identity=issued("node", "mallory"))
