"""Asks nodes for their metrics, all at once."""

import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException

from square.errors import InvalidArgumentError
from square.metrics.reading import Snapshot, read

# A node on loopback answers within milliseconds; one that is silent for so long is not there.
TIMEOUT_SECONDS = 2.0
# What an endpoint may say: some 50,000 sessions. More is not read.
MAX_TEXT_BYTES = 32 << 20
MAX_THREADS = 32


@dataclass(frozen=True)
class Answer:
    """What one address said, or why it said nothing."""

    address: str
    at_seconds: float  # of the monotonic clock
    snapshot: Snapshot | None
    reason: str = ""


class Scraper:
    """Close it, or use it as a context manager: it has threads."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._urls = {address: url_of(address) for address in dict.fromkeys(addresses)}
        self._pool = ThreadPoolExecutor(
            max(1, min(MAX_THREADS, len(self._urls))), thread_name_prefix="scrape"
        )
        # Nodes are asked directly, whatever proxy the environment names.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self) -> "Scraper":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def ask(self) -> list[Answer]:
        """One answer an address, in the order in which they were named."""
        return list(self._pool.map(self._ask_one, self._urls))

    def _ask_one(self, address: str) -> Answer:
        try:
            with self._opener.open(self._urls[address], timeout=TIMEOUT_SECONDS) as reply:
                text = reply.read(MAX_TEXT_BYTES + 1)
            at = time.monotonic()
            if len(text) > MAX_TEXT_BYTES:
                raise ValueError(f"its text is longer than {MAX_TEXT_BYTES >> 20} MiB")
            return Answer(address, at, read(text.decode("utf-8")))
        except ValueError as error:
            return Answer(address, time.monotonic(), None, f"not the metrics of a node: {error}")
        except urllib.error.HTTPError as error:
            return Answer(address, time.monotonic(), None, f"HTTP status {error.code}: no node's metrics")
        except HTTPException as error:
            return Answer(address, time.monotonic(), None, f"it does not speak HTTP ({type(error).__name__})")
        except OSError as error:
            return Answer(address, time.monotonic(), None, _reason(error))


def url_of(address: str) -> str:
    """``HOST:PORT`` or a whole URL."""
    if address.startswith(("http://", "https://")):
        return address
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or "/" in address:
        raise InvalidArgumentError(
            f'"{address}" is no address: write HOST:PORT, as `square node --metrics` printed it'
        )
    return f"http://{address}/metrics"


def _reason(error: OSError) -> str:
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError):
        error = error.reason
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:.0f} s"
    return error.strerror or str(error)
