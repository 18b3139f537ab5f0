"""Broadcasts that outlive the loss of a relay: planned, asked for by groups, and killed for real."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pytest
import square
from groups import outcomes_of
from test_cli_serve import serving

MEMBERS = ["a", "b", "c"]
RELAYS = ["r", "s", "t"]
MBPS = 20.0
BYTES = 20_000_000

SCENARIO = """
[overlay]
capacity_mbps = 20
mesh = ["a", "b", "c", "r", "s", "t"]

[[tenant]]
name = "alice"

[[collective]]
tenant = "alice"
op = "{op}"
members = ["a", "b", "c"]
bytes = 1_000_000
{more}
"""


def mesh() -> square.Topology:
    return square.Topology.full_mesh([*MEMBERS, *RELAYS], capacity_bps=1e6 * MBPS)


def planned(redundancy: int) -> square.Plan:
    collective = square.Collective("alice", root="a", members=MEMBERS, redundancy=redundancy)
    return square.plan(square.Scenario(mesh(), collectives=[collective]))


def test_each_way_that_may_be_lost_takes_its_part_of_the_rate() -> None:
    for redundancy in range(5):
        plan = planned(redundancy)
        session = plan.sessions[0]
        assert session.rate_bps == pytest.approx((5 - redundancy) * 1e6 * MBPS, rel=0.01)
        assert [code.redundancy for code in session.codes] == [redundancy] * len(session.codes)
        assert bool(session.codes) == (redundancy > 0)
        again = square.Plan.from_json(plan.to_json())
        assert again.to_json() == plan.to_json()
        assert not square.violations(again)


def test_a_scenario_asks_for_it() -> None:
    asked = SCENARIO.format(op="broadcast", more='root = "a"\nredundancy = 2')
    scenario = square.Scenario.parse(asked)
    assert scenario.collectives[0].redundancy == 2
    assert square.plan(scenario).sessions[0].codes[0].redundancy == 2


@pytest.mark.parametrize(
    ("op", "more", "words"),
    [
        ("all_reduce", "redundancy = 1", "redundancy is for broadcast"),
        ("broadcast", 'root = "a"\nredundancy = 5', "must be 0 to 4, not 5"),
        ("broadcast", 'root = "a"\nredundancy = -1', "must be 0 to 4, not -1"),
        ("broadcast", 'root = "a"\nredundancy = 1\nmax_latency_ms = 10', "bounds on latency"),
    ],
)
def test_what_it_does_not_go_with_is_refused(op: str, more: str, words: str) -> None:
    with pytest.raises(square.errors.InvalidArgumentError, match=words):
        square.Scenario.parse(SCENARIO.format(op=op, more=more))


def test_it_does_not_go_with_few_streams() -> None:
    scenario = square.Scenario.parse(SCENARIO.format(op="broadcast", more='root = "a"\nredundancy = 1'))
    with pytest.raises(square.errors.InvalidArgumentError, match="does not go with max_streams"):
        square.plan(scenario, max_streams=2)


@dataclass
class Overlay:
    controller: square.Controller
    nodes: dict[str, square.Node]
    relays: dict[str, int] = field(default_factory=dict)  # process ids

    def blocks_resent(self) -> int:
        return sum(link["blocks_resent"] for link in self.nodes["a"].metrics()["links"])


@pytest.fixture
def six() -> Iterator[Overlay]:
    with ExitStack() as stack:
        controller = stack.enter_context(square.Controller(square.Scenario(mesh(), name="six")))
        nodes = {name: stack.enter_context(square.Node(name, controller.address)) for name in MEMBERS}
        made = Overlay(controller, nodes)
        for relay in RELAYS:
            process, _ = stack.enter_context(
                serving("node", "--name", relay, "--controller", controller.address)
            )
            made.relays[relay] = process.pid
        controller.wait_for_nodes([*MEMBERS, *RELAYS], 10)
        yield made


def test_members_must_agree(six: Overlay) -> None:
    def member(rank: int, redundancy: int) -> square.Communicator:
        node = six.nodes[MEMBERS[rank]]
        return square.Communicator(node, "g", "alice", MEMBERS, rank, redundancy=redundancy)

    with pytest.raises(square.errors.InvalidArgumentError, match="at most 4"):
        member(0, 5)
    member(0, 1)
    with pytest.raises(
        square.errors.InvalidArgumentError, match="registered it with redundancy 1, this one with 2"
    ):
        member(1, 2)


def test_without_redundancy_nothing_changes(six: Overlay) -> None:
    def member(joined: square.Communicator, rank: int) -> None:
        joined.broadcast(np.full(1000, rank, "float32"), root=0)

    outcomes_of(six.nodes, MEMBERS, member)
    assert all(not session.codes for session in six.controller.plan().sessions)


# 2 s undisturbed, and again with a relay that is killed.
@pytest.mark.parametrize("relay", RELAYS)
def test_a_relay_dies_and_nothing_is_sent_again(six: Overlay, relay: str) -> None:
    together = threading.Barrier(len(MEMBERS), timeout=60)
    content = np.arange(BYTES // 4, dtype="uint32")
    seconds = [0.0, 0.0]
    killed_at = 0.4 * 8 * BYTES / planned(1).sessions[0].rate_bps
    kill = threading.Timer(killed_at, lambda: os.kill(six.relays[relay], signal.SIGKILL))
    resent = []

    def member(joined: square.Communicator, rank: int) -> None:
        joined.broadcast(np.zeros(100_000, "uint32"), root=0)
        for number in range(2):
            data = content.copy() if rank == 0 else np.zeros_like(content)
            together.wait()
            begun = time.monotonic()
            if rank == 0:
                resent.append(six.blocks_resent())
                if number == 1:
                    kill.start()
            joined.broadcast(data, root=0)
            together.wait()
            if rank == 0:
                seconds[number] = time.monotonic() - begun
                resent.append(six.blocks_resent())
            assert np.array_equal(data, content)
            together.wait()

    outcomes_of(six.nodes, MEMBERS, member, redundancy=1)
    kill.join()
    print(f"{relay}: {seconds[0]:.2f} s, killed {seconds[1]:.2f} s: {seconds[1] / seconds[0] - 1:+.1%}")
    assert resent[3] - resent[2] == 0


def test_who_goes_on_without_a_member_still_has_it(six: Overlay) -> None:
    def member(joined: square.Communicator, rank: int) -> None:
        joined.broadcast(np.full(1000, rank, "float32"), root=0)
        with joined.shrink() as smaller:
            data = np.full(1000, rank + 1, "float32")
            smaller.broadcast(data, root=0)
            assert (data == 1).all()
            if rank == 0:
                assert all(session.codes for session in six.controller.plan().sessions)

    outcomes_of(six.nodes, MEMBERS, member, redundancy=1)
