"""Insiders and outsiders that want what is not theirs, beside a job that goes on: none gets it, each is told.

What relays do to blocks stands in tests/cpp/node/sealing_test.cc, forged links in
tests/cpp/transport_grpc/identity_test.cc, foreign plans in tests/cpp/controller_grpc/plan_signature_test.cc,
users of a gateway in test_gateway.py, connections that say nothing in test_strangers.py.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import square
from commands import wait_until
from issued import LIFE, Issued
from square.errors import PermissionDeniedError, ResourceExhaustedError, SquareError, UnavailableError

PATIENCE = 20.0
MEMBERS = ["a", "b"]
COUNT = 1024
CALLED = [("all_reduce", 0, 4 * COUNT, 1.0)]


class Job:
    """alice's all-reduces, one after another on threads, until it is ended."""

    def __init__(self, nodes: list[square.Node]) -> None:
        self.rounds = 0
        self.errors: list[BaseException] = []
        self._ended = threading.Event()
        self._turn = threading.Barrier(len(nodes), timeout=PATIENCE)
        self._threads = [threading.Thread(target=self._run, args=(n, r)) for r, n in enumerate(nodes)]
        for thread in self._threads:
            thread.start()

    def _run(self, node: square.Node, rank: int) -> None:
        try:
            member = square.Communicator(node, "job", "alice", MEMBERS, rank, collectives=CALLED)
            while True:
                is_last = self._ended.is_set() if rank == 0 else False
                data = bytearray((rank + 1).to_bytes(4, "little") * COUNT)
                data[:4] = int(is_last).to_bytes(4, "little")
                member.all_reduce(memoryview(data).cast("i"), timeout=PATIENCE)
                assert bytes(data[4:]) == (3).to_bytes(4, "little") * (COUNT - 1)
                if data[0]:
                    return
                self.rounds += rank == 0
        except BaseException as error:
            self.errors.append(error)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []


class Overlay:
    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.issued = Issued(folder / "own")
        self.foreign = Issued(folder / "foreign")
        controller = square.Controller(identity=self.issued("controller", "c"))
        self.controller = stack.enter_context(controller)
        self.nodes = {
            name: stack.enter_context(self._node(name, tenants))
            for name, tenants in [("a", ("alice",)), ("b", ("alice",)), ("m", ("mallory",))]
        }
        self.job = Job([self.nodes[name] for name in MEMBERS])
        stack.callback(self.job.end)

    def _node(self, name: str, tenants: tuple[str, ...]) -> square.Node:
        return square.Node(name, self.controller.address, identity=self.issued("node", name, tenants))

    def register(self, group: str, tenant: str, nodes: list[str], weight: float = 1.0) -> square.Communicator:
        called = [("all_reduce", 0, 4 * COUNT, weight)]
        return square.Communicator(self.nodes["m"], group, tenant, nodes, 0, collectives=called, timeout=5)


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    square.log.connect(logging.DEBUG)
    with ExitStack() as stack:
        yield Overlay(stack, tmp_path_factory.mktemp("attacks"))


def another_tenant(overlay: Overlay) -> None:
    with pytest.raises(PermissionDeniedError):
        overlay.register("x", "alice", ["m"])


def another_tenants_group(overlay: Overlay) -> None:
    with pytest.raises(PermissionDeniedError, match="another tenant's"):
        overlay.register("job", "mallory", ["m", "b"])
    with pytest.raises(PermissionDeniedError):
        overlay.register("job", "alice", ["m", "b"])


def a_grant_of_its_own_making(overlay: Overlay) -> None:
    overlay.foreign.authority.grant("alice", overlay.issued("node", "m"), LIFE)
    with pytest.raises(SquareError, match="authority"):
        overlay.register("x", "alice", ["m"])


def a_weight(overlay: Overlay) -> None:
    with pytest.raises(PermissionDeniedError, match="weight"):
        overlay.register("x", "mallory", ["m"], weight=1e4)


def too_many_groups(overlay: Overlay) -> None:
    overlay.issued.authority.grant("mallory", overlay.issued("node", "m"), LIFE, groups=1)
    first = overlay.register("first", "mallory", ["m"])
    with pytest.raises(ResourceExhaustedError, match="granted"):
        overlay.register("second", "mallory", ["m"])
    first.close()


def too_many_sessions(overlay: Overlay) -> None:
    overlay.issued.authority.grant("mallory", overlay.issued("node", "m"), LIFE, sessions=3)
    # Each half of what two add up is summed, and sent out.
    with pytest.raises(ResourceExhaustedError, match="4 sessions, and was granted 3"):
        overlay.register("x", "mallory", ["m", "a"])


def another_node(overlay: Overlay) -> None:
    with pytest.raises(SquareError):
        square.Node("a", overlay.controller.address, identity=overlay.issued("node", "m"))


def a_certificate_of_another_authority(overlay: Overlay) -> None:
    with pytest.raises(UnavailableError):
        square.list_nodes(overlay.controller.address, overlay.foreign("node", "a"), timeout=1)


def no_certificate(overlay: Overlay) -> None:
    with pytest.raises(UnavailableError):
        square.list_nodes(overlay.controller.address, timeout=1)


def links_of_everybody(overlay: Overlay) -> None:
    with pytest.raises(PermissionDeniedError):
        square.list_links(overlay.controller.address, overlay.issued("tenant", "mallory"))


def a_controller_of_another_authority(overlay: Overlay) -> None:
    with (
        square.Controller(identity=overlay.foreign("controller", "c")) as foreign,
        pytest.raises(UnavailableError),
    ):
        square.Node("d", foreign.address, identity=overlay.issued("node", "d"))


NODE_M = "spiffe://square.test/node/m"
ATTACKS: list[tuple[Callable[[Overlay], None], str]] = [
    (another_tenant, rf"refused {NODE_M} at \S+ a group of tenant \"alice\": .*no grant"),
    (another_tenants_group, rf"refused {NODE_M} at \S+ a group of tenant"),
    (a_grant_of_its_own_making, rf"refused {NODE_M} at \S+ a group of tenant \"alice\": .*authority"),
    (a_weight, rf"refused {NODE_M} at \S+ a group of tenant \"mallory\": .*weight of 10000"),
    (too_many_groups, rf"refused {NODE_M} at \S+ a group of tenant \"mallory\": .*granted"),
    (too_many_sessions, rf"refused {NODE_M} at \S+ a group of tenant \"mallory\": .*granted"),
    (another_node, ""),
    (a_certificate_of_another_authority, r"a connection from 127\.0\.0\.1:\d+: it has ended"),
    (no_certificate, r"a connection from 127\.0\.0\.1:\d+: it has ended"),
    (links_of_everybody, r"refused spiffe://square.test/tenant/mallory at \S+ the links"),
    (a_controller_of_another_authority, ""),
]


@pytest.mark.parametrize(("attack", "told"), ATTACKS, ids=[attack.__name__ for attack, _ in ATTACKS])
def test_nobody_gets_what_is_not_theirs(
    overlay: Overlay, attack: Callable[[Overlay], None], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def is_told() -> bool:
        return not told or any(re.search(told, record.getMessage()) for record in caplog.records)

    with caplog.at_level(logging.WARNING, logger="square"):
        rounds = overlay.job.rounds
        attack(overlay)
        # Lines about one peer come a second apart.
        if not wait_until(is_told, 1.5):
            attack(overlay)
        assert wait_until(is_told, PATIENCE), caplog.text
    assert wait_until(lambda: overlay.job.rounds > rounds + 3, PATIENCE)
    assert overlay.job.errors == []
