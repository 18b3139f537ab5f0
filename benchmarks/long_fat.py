"""A long fat path: Square's channels against one TCP connection, 50 ms of round trip.

Two processes in two network namespaces, joined by tests/netns/tun_relay, which delays every packet
(kernels may lack netem). The planned rate and the latency of the link are such that Square wants
eight channels; how many it opens is its own affair. Asked: 6.5 times one TCP connection.

    python benchmarks/long_fat.py [--relay build/dev/tests/netns/tun_relay] [--json]
"""

import argparse
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import machine
import netns_run
import square
from netns_run import main, parser_for
from square.run import namespaces
from square.run.namespaces import Namespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "netns"))

from delayed_link import LEFT_ADDRESS, RIGHT_ADDRESS, DelayedLink

REPOSITORY = Path(__file__).resolve().parents[1]
ASKED_TIMES = 6.5
CHUNK_BYTES = 1 << 20
NAMES = ["left", "right"]
CALL_SECONDS = 120.0
Side = Callable[[Connection], None]


def tcp_left(sizes: list[int], pipe: Connection) -> None:
    connection = socket.create_connection((RIGHT_ADDRESS, pipe.recv()))
    control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    seconds = []
    payload = memoryview(bytes(CHUNK_BYTES))
    for size in sizes:
        begin = time.monotonic()
        for _ in range(size // CHUNK_BYTES):
            connection.sendall(payload)
        connection.recv(1)
        seconds.append(time.monotonic() - begin)
    pipe.send((seconds, {"congestion_control": control.rstrip(b"\0").decode()}))


def tcp_right(sizes: list[int], pipe: Connection) -> None:
    with socket.create_server((RIGHT_ADDRESS, 0)) as listener:
        pipe.send(listener.getsockname()[1])
        connection, _ = listener.accept()
    buffer = bytearray(max(sizes))
    for size in sizes:
        filled = 0
        while filled < size:
            filled += connection.recv_into(memoryview(buffer)[filled:size])
        connection.sendall(b"1")
    pipe.recv()


def square_side(
    rank: int, sizes: list[int], join: tuple[str, str], window_bytes: int, paced: bool, pipe: Connection
) -> None:
    controller, pem = join
    own = (LEFT_ADDRESS, RIGHT_ADDRESS)[rank]
    with square.Node(
        NAMES[rank],
        controller,
        bind_address=f"{own}:0",
        identity=square.Identity.from_pem(pem),
        window_bytes=window_bytes,
        paced=paced,
    ) as node:
        group = square.Communicator(
            node, "collective/0", "tenant", NAMES, rank, collectives=[("broadcast", 0, sizes[-1], 1.0)]
        )
        pipe.send(None)
        pipe.recv()
        seconds = []
        buffer = bytearray(max(sizes))
        for size in sizes:
            with memoryview(buffer) as view:
                begin = time.monotonic()
                group.broadcast(view[:size], root=0, timeout=CALL_SECONDS)
                seconds.append(time.monotonic() - begin)
        pipe.send((seconds, node.statistics()))
        pipe.recv()


def start(network: Namespace, side: Side) -> tuple[Any, Connection]:
    """A process in that network, and the line to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=side, args=(theirs,), daemon=True)
    network.run(process.start)
    return process, ours


def run_tcp(link: DelayedLink, sizes: list[int]) -> tuple[list[float], dict[str, Any]]:
    left, left_line = start(link.left, partial(tcp_left, sizes))
    right, right_line = start(link.right, partial(tcp_right, sizes))
    left_line.send(right_line.recv())
    answer = left_line.recv()
    right_line.send(None)
    for process in (left, right):
        process.join(CALL_SECONDS)
    return answer


def run_square(
    link: DelayedLink, sizes: list[int], options: argparse.Namespace
) -> tuple[list[float], dict[str, Any]]:
    topology = square.Topology()
    for name in NAMES:
        topology.add_node(name)
    for pair in (NAMES, NAMES[::-1]):
        topology.add_link(*pair, capacity_bps=options.mbps * 1e6, latency=options.delay_ms / 1e3)
    tensor = square.Collective("tenant", root=NAMES[0], size_bytes=sizes[-1])
    scenario = square.Scenario(topology, collectives=[tensor])
    identity = square.Identity.make_own()
    bind = f"{LEFT_ADDRESS}:0"
    controller = link.left.run(lambda: square.Controller(scenario, bind_address=bind, identity=identity))
    with controller:
        join = (controller.address, identity.pem)
        sides = [
            start(network, partial(square_side, rank, sizes, join, options.window, not options.unpaced))
            for rank, network in enumerate((link.left, link.right))
        ]
        for step in range(2):
            answers = [line.recv() for _, line in sides]
            if step == 0:
                controller.wait_for_nodes(NAMES, CALL_SECONDS)
            for _, line in sides:
                line.send(None)
        for process, _ in sides:
            process.join(CALL_SECONDS)
    answer: tuple[list[float], dict[str, Any]] = answers[0]
    return answer


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    namespaces.check_possible()
    resource_tracker.ensure_running()  # outside of the networks that the others are in
    size = options.mib << 20
    sizes = [size] * (options.warm_up + options.repeat)
    with DelayedLink(options.relay, options.delay_ms / 1e3) as link:
        tcp_seconds, tcp = run_tcp(link, sizes)
        with machine.Usage() as usage:
            our_seconds, statistics_of_node = run_square(link, sizes, options)
    netns_run.cost.add_usage(usage, sum(sizes) / 1e9)
    rates = {
        name: statistics.median(8e-6 * size / one for one in seconds[options.warm_up :])
        for name, seconds in (("tcp", tcp_seconds), ("square", our_seconds))
    }
    times = rates["square"] / rates["tcp"]
    figures = {
        "asked_times": ASKED_TIMES,
        "times_one_connection": times,
        "tcp_mbps": rates["tcp"],
        "square_mbps": rates["square"],
        "round_trip_ms": 2 * options.delay_ms,
        "tcp_seconds": tcp_seconds,
        "square_seconds": our_seconds,
        "statistics": statistics_of_node,
        "network": {
            "mode": "tun relay",
            "mtu_bytes": 9000,
            "congestion_control": tcp["congestion_control"],
            "paced": not options.unpaced,
            "planned_mbps": options.mbps,
        },
    }
    lines = [
        f"{options.mib} MiB, round trip {2 * options.delay_ms:g} ms, planned {options.mbps:g} Mbit/s: one "
        f"TCP connection {rates['tcp']:.0f} Mbit/s, Square {rates['square']:.0f} Mbit/s, {times:.2f} times; "
        f"asked {ASKED_TIMES}"
    ]
    return figures, lines


if __name__ == "__main__":
    parser = parser_for("Square's channels against one TCP connection over a long fat path.")
    relay = REPOSITORY / "build" / "dev" / "tests" / "netns" / "tun_relay"
    parser.add_argument("--relay", type=Path, default=relay, help="the program (default build/dev's)")
    parser.add_argument("--delay-ms", type=float, default=25.0, help="one way (default 25)")
    parser.add_argument("--mbps", type=float, default=5200.0, help="the link's capacity (default 5200)")
    parser.add_argument("--mib", type=int, default=512, help="of one transfer (default 512)")
    parser.add_argument("--warm-up", type=int, default=1, help="transfers before those that count")
    parser.add_argument("--window", type=int, default=256 << 20, help="window_bytes of the nodes")
    sys.exit(main(parser, measure))
