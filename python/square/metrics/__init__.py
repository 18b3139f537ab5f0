"""Prometheus metrics of a node, or of a master of parameter servers, on a port of its own::

    with square.metrics.serve(node, "127.0.0.1:9100") as server:
        print(server.url)

The text is what Prometheus scrapes and, of nodes, what `square top` shows. docs/monitoring.md names
every metric.
"""

import threading
from ipaddress import ip_address
from types import TracebackType
from typing import Self

from square._core import is_loopback
from square.errors import InvalidArgumentError, UnavailableError
from square.metrics.collecting import Measured, Training, collector_of

__all__ = ["Measured", "MetricsServer", "Training", "check_address", "serve"]


class MetricsServer:
    """Serves metrics until it is stopped. Made by :func:`serve`. Thread-safe."""

    def __init__(self, served: Measured | Training, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, make_wsgi_app

        from square.metrics.server import ScrapeServer, for_named_hosts

        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector_of(served))
        application = make_wsgi_app(registry, disable_compression=True)
        if is_loopback(host):
            application = for_named_hosts(application)
        try:
            self._server = ScrapeServer(host, port, application)
        except OSError as error:
            raise UnavailableError(
                f"cannot serve metrics at {_joined(host, port)}: {error.strerror or error}"
            ) from error
        self._address = _joined(host, self._server.server_port)
        self._stopping = threading.Lock()
        self._thread: threading.Thread | None = threading.Thread(
            target=self._server.serve_forever, name="square metrics", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, with the port that was chosen."""
        return self._address

    @property
    def url(self) -> str:
        return f"http://{self._address}/metrics"

    def stop(self) -> None:
        """Closes the port. Idempotent; blocks for a moment."""
        with self._stopping:
            if self._thread is None:
                return
            self._server.shutdown()
            self._thread.join()
            self._thread = None
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def serve(
    served: Measured | Training, address: str = "127.0.0.1:0", *, public: bool = False
) -> MetricsServer:
    """Serves the metrics of ``served``, a ``square.Node`` or a ``square.ps.Master``, in Prometheus' text
    format at ``address``; port 0 picks a free one.

    The port asks for no password: an address other than loopback is refused without ``public``.
    Raises InvalidArgumentError for what is no address, UnavailableError where it cannot listen.
    """
    host, port = check_address(address, public=public)
    return MetricsServer(served, host, port)


def check_address(address: str, *, public: bool = False) -> tuple[str, int]:
    """Host and port of what :func:`serve` would take; raises what it would raise for the others."""
    host, port = _split(address)
    if not public and not is_loopback(host):
        raise InvalidArgumentError(
            f"metrics at {address} could be read by whoever reaches it, without a password: use a "
            "loopback address such as 127.0.0.1:9100, or say that they are public"
        )
    return host, port


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not colon or not 0 <= number < 1 << 16:
        raise InvalidArgumentError(
            f'"{address}" is no address to serve metrics at: write an IP address and a port, '
            "as 127.0.0.1:9100 or [::1]:9100"
        )
    return host, number


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
