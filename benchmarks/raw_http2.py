"""A TCP connection to a node that speaks HTTP/2 by hand, as far as it likes."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES = 16 << 10  # of payload; what every server takes
FIRST_WINDOW_BYTES = 65535
PROTOCOL_VERSION = "6"  # kProtocolVersion in include/square/transport.h
STREAM = 1
_HEADER_BYTES = 9
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_END_HEADERS = 4
_ANSWER = 1
_INITIAL_WINDOW = 4


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _field(name: str, value: str) -> bytes:
    """HPACK: a literal without indexing; both are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class RawConnection:
    """The dialling end. Not thread-safe; blocks only in the constructor and in sends."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self._unread = b""
        self._windows = {0: FIRST_WINDOW_BYTES, STREAM: FIRST_WINDOW_BYTES}
        self._initial = FIRST_WINDOW_BYTES
        self._speaks = False

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def greet(self) -> None:
        """From here on it answers as HTTP/2 wants."""
        self._speaks = True
        self.send(PREFACE + _frame(_SETTINGS, 0, 0, b""))

    def call(self, caller: str, target: str, **extra: str) -> None:
        """Opens a link to the node ``target`` as a node of the overlay would."""
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": "/square.v1.Link/Carry",
            ":authority": "node",
            "te": "trailers",
            "content-type": "application/grpc",
            "square-version": PROTOCOL_VERSION,
            "square-from": caller,
            "square-to": target,
            **{name.replace("_", "-"): value for name, value in extra.items()},
        }
        headers = b"".join(_field(name, value) for name, value in fields.items())
        self.send(_frame(_HEADERS, _END_HEADERS, STREAM, headers))

    def begin_message(self, claimed_bytes: int, *, compressed: bool = False) -> None:
        self.send_data(struct.pack(">BI", compressed, claimed_bytes))

    def send_data(self, data: bytes) -> int:
        """As much of it as HTTP/2's windows let through: so many bytes."""
        allowed = max(0, min(len(data), *self._windows.values()))
        for begin in range(0, allowed, FRAME_BYTES):
            self.send(_frame(_DATA, 0, STREAM, data[begin : min(begin + FRAME_BYTES, allowed)]))
        for stream in self._windows:
            self._windows[stream] -= allowed
        return allowed

    def take(self) -> bool:
        """Reads what is there; False once the other end has closed."""
        try:
            data = self.socket.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        if not data:
            return False
        self._unread += data if self._speaks else b""
        while len(self._unread) >= _HEADER_BYTES:
            size = int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < _HEADER_BYTES + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self._unread[3:_HEADER_BYTES])
            payload = self._unread[_HEADER_BYTES : _HEADER_BYTES + size]
            self._unread = self._unread[_HEADER_BYTES + size :]
            try:
                self._on_frame(kind, flags, stream, payload)
            except OSError:
                return False
        return True

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _WINDOW_UPDATE and stream in self._windows:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind == _PING and not flags & _ANSWER:
            self.send(_frame(_PING, _ANSWER, 0, payload))
        elif kind == _SETTINGS and not flags & _ANSWER:
            for key, value in struct.iter_unpack(">HI", payload):
                if key == _INITIAL_WINDOW:
                    self._windows[STREAM] += value - self._initial
                    self._initial = value
            self.send(_frame(_SETTINGS, _ANSWER, 0, b""))
