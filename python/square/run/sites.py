"""An overlay for programs that know nothing of it: a network namespace at each site, links that the
kernel shapes.

`square run` moves bytes over such a network by itself; here any program runs at a site, for
instance the ranks of a training job (`ranks.py`).
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from square._core import Controller, Scenario, Topology
from square.run import namespaces
from square.run.issued import Issued
from square.run.processes import child_environment
from square.run.wiring import CONTROL_INTERFACE, CONTROLLER_ADDRESS, Wiring

Answer = TypeVar("Answer")


class Sites:
    """The sites of a topology, as a context: what was started in them must have ended before its end.

    Raises ``PermissionDeniedError`` or ``FailedPreconditionError`` where that is not possible.
    """

    def __init__(self, topology: Topology) -> None:
        self._wiring = Wiring(topology)
        self.names = [node.name for node in topology.nodes]
        # The sites do not meet on loopback, so nodes and controller have identities.
        self._issued = Issued()
        self._networks: dict[str, namespaces.Namespace] = {}
        self._own: namespaces.Namespace | None = None

    def __enter__(self) -> Self:
        namespaces.check_possible()
        try:
            self._wire()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The kernel takes the networks back when the last process in them has ended."""
        for network in (*self._networks.values(), self._own):
            if network is not None:
                network.close()
        self._issued.close()

    def address_of(self, site: str) -> str:
        return self._wiring.address_of(site)

    def network(self, site: str) -> namespaces.Namespace:
        """The network of a site, for who wants to disturb it; not to be closed."""
        return self._networks[site]

    def controller(self, scenario: Scenario | None = None, *, insecure: bool = False) -> Controller:
        """A controller of this process that all sites reach, over links of its own that are not shaped.

        Without a scenario whoever joins is linked with all others, and nothing is known of the links.
        ``insecure``: without an identity, for nodes that are so, too.
        """
        assert self._own is not None
        bind = f"{CONTROLLER_ADDRESS}:0"
        identity = None if insecure else self.identity("controller", "sites")
        return self._own.run(
            lambda: Controller(scenario, bind_address=bind, identity=identity, insecure=insecure)
        )

    def beside(self, call: Callable[[str], Answer]) -> Answer:
        """Runs ``call`` in a network that all sites reach, over links that are not shaped; it is given the
        own address there. Sockets that it makes stay there."""
        own = self._own
        assert own is not None
        return own.run(lambda: call(CONTROLLER_ADDRESS))

    def identity(self, role: str, name: str) -> str:
        """The folder of the identity of a node, controller or server of that name; the same each time."""
        return self._issued.folder(role, name)

    def environment(self, site: str, controller: Controller | None = None) -> dict[str, str]:
        """What torch.distributed there must know: Gloo its interface, square its node, its controller and its
        identity. Without a controller ranks believe keys of their own, and an identity would forbid that."""
        variables = {
            "GLOO_SOCKET_IFNAME": CONTROL_INTERFACE,
            "SQUARE_NODE": site,
            "SQUARE_INTERFACE": self.address_of(site),
        }
        if controller is not None:
            variables["SQUARE_CONTROLLER"] = controller.address
            variables["SQUARE_IDENTITY"] = self.identity("node", site)
        return variables

    def start(
        self, site: str, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Starts a program at a site; ``options`` are Popen's.

        The kernel ends it when the calling thread ends: call from one that outlives it. It is in a
        process group of its own, so a terminal's Ctrl-C is the caller's to handle.
        """
        network = self._networks[site].file
        entrance = [sys.executable, "-P", "-m", "square.run.enter", network, str(os.getpid())]
        return subprocess.Popen(
            [*entrance, *command],
            env=child_environment() | dict(environment or {}),
            process_group=0,
            text=True,
            **options,
        )

    def _wire(self) -> None:
        self._own = namespaces.Namespace()
        for name in self.names:
            self._networks[name] = namespaces.Namespace()
        lines = self._wiring.controller({name: network.file for name, network in self._networks.items()})
        self._own.run(lambda: namespaces.run_batch("ip", lines))
        for name, network in self._networks.items():
            made = self._wiring.node(name)
            # Gloo takes an interface's first address, which on lo no other site can reach.
            named = f"address add {made.address}/32 dev {CONTROL_INTERFACE}"
            network.run(lambda ip=(*made.ip, named): namespaces.run_batch("ip", ip))  # type: ignore[misc]
            network.run(lambda tc=made.tc: namespaces.run_batch("tc", tc))  # type: ignore[misc]
