"""Relays in processes of their own that stop, pause and come back while operations run over them."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
import square
from groups import outcomes_of
from test_cli_serve import serving

MBPS = 1e6
BYTES = 12_500_000  # 1 s over both relays, 2 s over one


@dataclass
class Diamond:
    """a and b here, two ways between them."""

    controller: square.Controller
    nodes: dict[str, square.Node]
    relays: dict[str, int] = field(default_factory=dict)  # process ids

    def during(self, act: Callable[[], None], after_seconds: float = 0.3) -> None:
        """Broadcasts, and acts meanwhile. Raises where anything went wrong."""
        data = os.urandom(BYTES)
        buffers = [bytearray(data), bytearray(BYTES)]

        def call(member: square.Communicator, rank: int) -> None:
            member.broadcast(bytearray(1), root=0)  # registered, and the links are up
            work = member.broadcast(buffers[rank], root=0, async_op=True)
            if rank == 0:
                time.sleep(after_seconds)
                act()
            work.wait()

        outcomes_of(self.nodes, ["a", "b"], call)
        assert buffers[1] == data


@pytest.fixture
def diamond() -> Iterator[Diamond]:
    topology = square.Topology()
    for name in ("a", "b", "r", "s"):
        topology.add_node(name)
    for relay in ("r", "s"):
        for end in ("a", "b"):
            topology.add_link(end, relay, capacity_bps=52 * MBPS)
            topology.add_link(relay, end, capacity_bps=52 * MBPS)
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(square.Scenario(topology, name="diamond")))
        nodes = {name: stack.enter_context(square.Node(name, controller.address)) for name in ("a", "b")}
        made = Diamond(controller, nodes)
        for relay in ("r", "s"):
            process, _ = stack.enter_context(
                serving("node", "--name", relay, "--controller", controller.address)
            )
            made.relays[relay] = process.pid
        controller.wait_for_nodes(["a", "b", "r", "s"], 10)
        yield made


def sent_to(diamond: Diamond, relay: str) -> int:
    links = diamond.nodes["a"].metrics()["links"]
    return sum(link["bytes"] for link in links if link["peer"] == relay and link["direction"] == "out")


def test_a_killed_relay_is_planned_around(diamond: Diamond) -> None:
    diamond.during(lambda: os.kill(diamond.relays["r"], signal.SIGKILL))
    diamond.during(lambda: None)
    assert sent_to(diamond, "r") == 0  # no plan leads there


def test_a_paused_relay_is_waited_for(diamond: Diamond) -> None:
    pause = 3.0

    def stop_for_a_while() -> None:
        os.kill(diamond.relays["r"], signal.SIGSTOP)
        time.sleep(pause)
        os.kill(diamond.relays["r"], signal.SIGCONT)

    diamond.during(stop_for_a_while)
    diamond.during(lambda: None)


def test_without_any_way_left_an_operation_waits_for_its_timeout(diamond: Diamond) -> None:
    for relay in diamond.relays.values():
        os.kill(relay, signal.SIGSTOP)

    def call(member: square.Communicator, rank: int) -> None:
        member.broadcast(bytearray(1), root=0, timeout=3)

    with pytest.raises(square.errors.DeadlineExceededError):
        outcomes_of(diamond.nodes, ["a", "b"], call)
