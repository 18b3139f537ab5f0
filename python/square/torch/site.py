"""What this process has in an overlay: a node of its own or one that it attached to."""

import os
import secrets
import threading
from collections.abc import Callable

import square
from square.torch import fork

ATTACH_SECONDS = 10.0
# A gateway of one job's own processes has the bounds of the job, not of a service that strangers share.
MAX_GROUPS = 4096
MAX_OPERATIONS = 65536


_LONE = "alone "


def lone_key() -> str:
    """Of an overlay that is one node: it has no controller's address to be known by."""
    return f"{_LONE}{secrets.token_hex(8)}"


def is_lone(key: str) -> bool:
    return key.startswith(_LONE)


class Site:
    """A place in the overlay of one controller, shared by all groups of the process."""

    def __init__(
        self,
        key: str,
        host: square.Node | square.AttachedNode,
        *,
        identity: square.Identity | None = None,
        gateway: str = "",
        controller: square.Controller | None = None,
        weight: float | None = None,
    ) -> None:
        self.key = key
        self.host = host
        # Given a deadline (time.monotonic()), each waits until others have no more use for this process.
        self.departures: list[Callable[[float], None]] = []
        self.identity = identity
        # Of the overlay's first tenant, where the job's processes have the controller among them: then each
        # brings one that stands by.
        self.weight = weight
        # A failure of any of its groups: then the others may not come to leave together.
        self.has_failed = False
        self._gateway = gateway
        self._controller = controller
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.host.name

    @property
    def has_controller(self) -> bool:
        has_awake = self._controller is not None and not self._controller.stands_by
        return has_awake or (is_lone(self.key) and isinstance(self.host, square.Node))

    @property
    def address(self) -> str:
        """Where other hosts reach the node; empty where only its gateway knows."""
        return self.host.address if isinstance(self.host, square.Node) else ""

    @property
    def controller(self) -> str:
        """The address of the controller that the node follows; empty where only its gateway knows."""
        return self.host.controller if isinstance(self.host, square.Node) else ""

    @property
    def gateway(self) -> str:
        """Where other processes of this host attach; starts to serve them at the first call."""
        with self._lock:
            if not self._gateway and isinstance(self.host, square.Node):
                staging = _memory_bytes() // 2
                self._gateway = self.host.serve_gateway(
                    max_groups=MAX_GROUPS,
                    max_operations=MAX_OPERATIONS,
                    tenant_staging_bytes=staging,
                    staging_bytes=staging,
                )
            return self._gateway

    def close(self) -> None:
        self.host.stop()
        if self._controller is not None:
            self._controller.stop()

    def make_immortal(self) -> None:
        fork.make_immortal(self.host)
        fork.make_immortal(self._controller)


def _memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Sites:
    """The sites of a process, by the address of their controller or gateway. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sites: dict[str, Site] = {}
        self._users: dict[str, int] = {}

    def known(self) -> dict[str, str]:
        """The node's name by the controller's address, the newest last."""
        with self._lock:
            return {address: site.name for address, site in self._sites.items()}

    def owned(self) -> list[str]:
        """The keys of the sites whose node is in this process."""
        with self._lock:
            return [key for key, site in self._sites.items() if isinstance(site.host, square.Node)]

    def kept(self) -> list[str]:
        """The addresses of the controllers in this process."""
        with self._lock:
            return [key for key, site in self._sites.items() if site.has_controller]

    def shared(self) -> list[str]:
        """The controllers' addresses, the newest last; not of sites behind a gateway."""
        with self._lock:
            return [address for address in self._sites if not address.startswith("gateway ")]

    def identity(self, key: str) -> square.Identity | None:
        """Of the site of that key."""
        with self._lock:
            site = self._sites.get(key)
            return site.identity if site is not None else None

    def weight(self, key: str) -> float | None:
        """Of the site of that key."""
        with self._lock:
            site = self._sites.get(key)
            return site.weight if site is not None else None

    def acquire(self, key: str, open_site: Callable[[], Site]) -> Site:
        """The site of that key, opened if there is none. release() it once."""
        with self._lock:
            site = self._sites.get(key)
            if site is None:
                site = self._sites[key] = open_site()
                self._users[key] = 0
            self._users[key] += 1
            return site

    def release(self, site: Site, deadline: float = 0.0) -> None:
        """Closes the site if nobody uses it any more, after its departures."""
        with self._lock:
            self._users[site.key] -= 1
            if self._users[site.key] > 0:
                return
            del self._users[site.key], self._sites[site.key]
        for wait in site.departures:
            wait(deadline)
        site.close()

    def abandon(self) -> None:
        """In a forked child: forgets everything and destroys nothing."""
        self._lock = threading.Lock()
        for site in self._sites.values():
            site.make_immortal()
            fork.mark_forked()
        self._sites, self._users = {}, {}


SITES = Sites()
fork.on_fork(SITES.abandon)
