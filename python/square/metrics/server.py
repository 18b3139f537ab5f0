"""An HTTP server for few and short requests, bounded in time and number."""

import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from threading import BoundedSemaphore
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

# A client that asks for nothing, or reads nothing of the answer, is dropped after this long.
REQUEST_TIMEOUT_SECONDS = 5.0
# Each is a thread, and a node has few who watch it; one more is closed unanswered.
MAX_REQUESTS = 16


_Application = Callable[..., Iterable[bytes]]


def for_named_hosts(application: _Application) -> _Application:
    """Answers requests for ``localhost`` and addresses alone, others by 421.

    A page in a browser of this machine may have a name of its own that leads to the loopback (DNS rebinding),
    and would read the answers.
    """

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if _is_address(environ.get("HTTP_HOST", "localhost")):
            return application(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"square: ask for localhost or an address: other names are not this port's\n"]

    return answer


def _is_address(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() == "localhost":
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not worth a line each."""


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """Answers every request by ``application``, up to MAX_REQUESTS at once."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, application: _Application) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = BoundedSemaphore(MAX_REQUESTS)
        super().__init__((host, port), _Handler)
        self.set_app(application)

    def server_bind(self) -> None:
        # HTTPServer's would ask the network for the name of the address.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is its own business; standard error is the program's."""
