"""The delay relay of the tests: packets arrive, late by what was asked, but for those that are lost."""

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "netns"))

from delayed_link import RIGHT_ADDRESS, DelayedLink

DELAY_SECONDS = 0.02


def echo(link: DelayedLink, kind: socket.SocketKind, serve: Callable[[socket.socket], None]) -> socket.socket:
    """A socket on the left of a server that runs on the right."""
    server = link.right.run(lambda: socket.socket(socket.AF_INET, kind))
    server.bind((RIGHT_ADDRESS, 0))
    if kind == socket.SOCK_STREAM:
        server.listen()
    Thread(target=serve, args=(server,), daemon=True).start()
    client = link.left.run(lambda: socket.socket(socket.AF_INET, kind))
    client.settimeout(10)
    client.connect(server.getsockname())
    return client


def test_a_packet_takes_the_delay_each_way(tun_relay: Path) -> None:
    def serve(server: socket.socket) -> None:
        while True:
            server.sendto(*server.recvfrom(9000))

    trips = []
    with DelayedLink(tun_relay, DELAY_SECONDS) as link:
        client = echo(link, socket.SOCK_DGRAM, serve)
        for number in range(20):
            begin = time.monotonic()
            client.send(bytes([number]) * 8000)
            assert client.recv(9000) == bytes([number]) * 8000
            trips.append(time.monotonic() - begin)
    # Never sooner, whatever else the machine does; how late is the machine's affair.
    assert min(trips) >= 2 * DELAY_SECONDS
    assert link.forth is not None
    assert link.back is not None
    assert link.forth.forwarded >= 20
    assert link.forth.lost == 0


def test_a_stream_survives_loss_and_nothing_is_damaged(tun_relay: Path, seed: int) -> None:
    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        while data := connection.recv(1 << 20):
            received.extend(data)
        connection.sendall(b"done")
        connection.close()

    received = bytearray()
    sent = bytes(range(251)) * 20_000
    with DelayedLink(tun_relay, 0.002, loss=0.01, seed=seed) as link:
        client = echo(link, socket.SOCK_STREAM, serve)
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(4) == b"done"
    assert received == sent
    assert link.forth is not None
    assert link.forth.forwarded * 9000 > len(sent)


def test_the_loss_is_drawn_from_the_seed(tun_relay: Path) -> None:
    def lost(seed: int) -> list[int]:
        missing = []
        with DelayedLink(tun_relay, 0.0, loss=0.3, seed=seed) as link:
            server = link.right.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            server.bind((RIGHT_ADDRESS, 0))
            server.settimeout(0.5)
            client = link.left.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            client.connect(server.getsockname())
            for number in range(200):
                client.send(number.to_bytes(2, "big"))
            arrived = set()
            try:
                while True:
                    arrived.add(int.from_bytes(server.recv(2), "big"))
            except TimeoutError:
                missing = sorted(set(range(200)) - arrived)
        assert link.forth is not None
        assert link.forth.lost == len(missing)
        return missing

    assert 20 < len(lost(5)) < 120
    assert lost(5) == lost(5)
    assert lost(5) != lost(6)
