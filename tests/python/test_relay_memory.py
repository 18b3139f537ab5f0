"""Relaying 1 GiB keeps a relay's memory under its window plus 64 MiB."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import square

MIB = 1 << 20
WINDOW = 16 * MIB
ALLOWANCE = 64 * MIB
SIZE = 256 * MIB
CALLS = 4

RELAY = """
import sys, square
with square.Node("relay", sys.argv[1], window_bytes=int(sys.argv[2])):
    print("ready", flush=True)
    sys.stdin.read()
"""


def resident_peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.fixture
def controller() -> Iterator[square.Controller]:
    topology = square.Topology()
    for name in ("source", "relay", "sink"):
        topology.add_node(name)
    topology.add_link("source", "relay")
    topology.add_link("relay", "sink")
    collective = square.Collective("alice", root="source", members=["source", "sink"], size_bytes=SIZE)
    with square.Controller(square.Scenario(topology, collectives=[collective])) as started:
        yield started


def test_relay_memory(controller: square.Controller) -> None:
    command = [sys.executable, "-c", RELAY, controller.address, str(WINDOW)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as relay,
        square.Node("source", controller.address) as source,
        square.Node("sink", controller.address) as sink,
    ):
        assert relay.stdout is not None
        assert relay.stdout.readline() == b"ready\n"
        controller.wait_for_nodes(["source", "relay", "sink"], 20)
        members = ["source", "sink"]
        known = [("broadcast", 0, SIZE, 1.0)]
        sender = square.Communicator(source, "collective/0", "alice", members, 0, collectives=known)
        receiver = square.Communicator(sink, "collective/0", "alice", members, 1, collectives=known)
        idle = resident_peak(relay.pid)
        payload = os.urandom(SIZE)
        arrived = bytearray(SIZE)
        for _ in range(CALLS):
            arrived[:8] = bytes(8)
            work = receiver.broadcast_async(arrived)
            sender.broadcast(payload)
            work.wait()
            assert arrived == payload
        grown = resident_peak(relay.pid) - idle
        assert relay.stdin is not None
        relay.stdin.close()
        relay.wait(timeout=20)
    print(f"relayed {CALLS * SIZE // MIB} MiB, grew by {grown / MIB:.1f} MiB")
    assert grown < WINDOW + ALLOWANCE
