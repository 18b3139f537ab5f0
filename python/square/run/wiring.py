"""Which interfaces, addresses, routes and shapers make an overlay out of namespaces.

Pure: it says what to do as lines for `ip -batch` and `tc -batch`, and does nothing. Every node has
one address, on its lo. Each pair of neighbours has a veth pair, each end with a route to the
neighbour's address and a TBF at the capacity of the link that leaves there; a node with a limit
has an ifb as well, which its traffic passes before (egress) or after (ingress) the links. The
controller's veth to each node is not shaped. Hardware addresses follow from the nodes' numbers, so that
nobody asks for them: of those the kernel keeps 1024 in all namespaces together, and drops what needs more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from square._core import Topology
from square.run.namespaces import CONGESTION_CONTROL

MTU_BYTES = 9000
BURST_SECONDS = 0.005
MIN_BURST_BYTES = 18_200  # two packets of the MTU
LATENCY_SECONDS = 0.05

CONTROLLER_ADDRESS = "10.0.0.1"
_FIRST_ADDRESS = "10.1.0.1"
CONTROL_INTERFACE = "control"  # a node's interface to the controller
_EGRESS = "egress"
_INGRESS = "ingress"
_MAX_ADDRESSES = 1 << 16


@dataclass(frozen=True)
class NodeWiring:
    """What one node does in its own network, once the veth ends are there."""

    address: str
    ip: tuple[str, ...]
    tc: tuple[str, ...]
    neighbours: dict[str, str]  # by interface


class Wiring:
    """The lines for one topology."""

    def __init__(self, topology: Topology) -> None:
        self._nodes = [node.name for node in topology.nodes]
        self._limits = {node.name: (node.egress_bps, node.ingress_bps) for node in topology.nodes}
        self._numbers = {name: number for number, name in enumerate(self._nodes)}
        assert len(self._nodes) < _MAX_ADDRESSES
        self._capacities = {(link.from_node, link.to_node): link.capacity_bps for link in topology.links}
        self._neighbours: dict[str, list[str]] = {name: [] for name in self._nodes}
        for tail, head in sorted({(min(pair), max(pair)) for pair in self._capacities}):
            self._neighbours[tail].append(head)
            self._neighbours[head].append(tail)

    @property
    def shaped_links(self) -> int:
        return sum(math.isfinite(capacity) for capacity in self._capacities.values())

    @property
    def limited_nodes(self) -> int:
        return sum(any(map(math.isfinite, limits)) for limits in self._limits.values())

    def address_of(self, node: str) -> str:
        number = self._numbers[node] + 1
        return f"10.1.{number >> 8}.{number & 255}"

    def controller(self, networks: Mapping[str, int | str]) -> list[str]:
        """Lines for ip in the controller's network: all veth pairs, and the routes to the nodes.

        ``networks`` has a process in every node's network, or the network's file.
        """
        lines = ["link set lo up", f"address add {CONTROLLER_ADDRESS}/32 dev lo"]
        for name, number in self._numbers.items():
            own, peer = self._hardware(None, name), self._hardware(name, None)
            lines += [
                f"link add name n{number} address {own} mtu {MTU_BYTES} type veth "
                f"peer name {CONTROL_INTERFACE} address {peer} mtu {MTU_BYTES} netns {networks[name]}",
                f"link set n{number} up",
                *_way(self.address_of(name), peer, f"n{number}", CONTROLLER_ADDRESS),
            ]
            lines += [self._veth(name, head, networks) for head in self._neighbours[name] if name < head]
        return lines

    def _veth(self, tail: str, head: str, networks: Mapping[str, int | str]) -> str:
        ends = [
            f"name {self._interface(other)} address {self._hardware(one, other)} mtu {MTU_BYTES} "
            f"netns {networks[one]}"
            for one, other in ((tail, head), (head, tail))
        ]
        return f"link add {ends[0]} type veth peer {ends[1]}"

    def trial(self) -> tuple[list[str], list[str]]:
        """Lines for ip and tc, in a network that is thrown away: whether the kernel knows all this."""
        ip = ["link set lo up", f"link add name trial mtu {MTU_BYTES} type veth peer name peer"]
        ip += ["link set trial up", f"address add {CONTROLLER_ADDRESS}/32 dev lo"]
        hardware = "02:00:00:01:00:00"
        ip += ["link set peer up", *_way(_FIRST_ADDRESS, hardware, "trial", CONTROLLER_ADDRESS)]
        tc = [f"qdisc add dev trial root {shaper(1e6)}"]
        if self.limited_nodes:
            ip += [f"link add name {_EGRESS} type ifb"]
            tc += ["qdisc add dev trial clsact", _redirection("trial", _EGRESS)]
        return ip, tc

    def node(self, name: str) -> NodeWiring:
        address = self.address_of(name)
        ip = ["link set lo up", f"address add {address}/32 dev lo", f"link set {CONTROL_INTERFACE} up"]
        ip += _way(CONTROLLER_ADDRESS, self._hardware(None, name), CONTROL_INTERFACE, address)
        tc: list[str] = []
        for neighbour in self._neighbours[name]:
            interface = self._interface(neighbour)
            ip.append(f"link set {interface} up")
            ip += _way(self.address_of(neighbour), self._hardware(neighbour, name), interface, address)
            # Against the direction of a link there are answers only, which nothing limits.
            capacity = self._capacities.get((name, neighbour), math.inf)
            if math.isfinite(capacity):
                tc.append(f"qdisc add dev {interface} root {shaper(capacity)}")
        for which, limit in zip((_EGRESS, _INGRESS), self._limits[name], strict=True):
            if math.isfinite(limit):
                ip += [f"link add name {which} mtu {MTU_BYTES} type ifb", f"link set {which} up"]
                tc.append(f"qdisc add dev {which} root {shaper(limit)}")
        tc += self._redirections(name)
        neighbours = {self._interface(neighbour): neighbour for neighbour in self._neighbours[name]}
        return NodeWiring(address, tuple(ip), tuple(tc), neighbours)

    def _redirections(self, name: str) -> list[str]:
        """Sends what leaves and enters on any link through the node's own shapers first."""
        limited = [
            which
            for which, limit in zip((_EGRESS, _INGRESS), self._limits[name], strict=True)
            if math.isfinite(limit)
        ]
        lines = []
        for neighbour in self._neighbours[name] if limited else []:
            interface = self._interface(neighbour)
            lines.append(f"qdisc add dev {interface} clsact")
            lines += [_redirection(interface, which) for which in limited]
        return lines

    def _interface(self, neighbour: str) -> str:
        return f"to{self._numbers[neighbour]}"

    def _hardware(self, node: str | None, neighbour: str | None) -> str:
        """That of the interface that `node` has towards `neighbour`; None is the controller's network."""
        numbers = [0 if name is None else self._numbers[name] + 1 for name in (node, neighbour)]
        return ":".join(["02:00", *(f"{number >> 8:02x}:{number & 255:02x}" for number in numbers)])


def shaper(rate_bps: float, burst_bps: float | None = None) -> str:
    """The token bucket of one direction; tc counts its rate in whole bits, here never more than asked.

    With the burst of the rate `burst_bps` for one that it is changed to and back: what waits in it is cut
    for the burst of before, and what is larger than the new one would never leave.
    """
    rate = max(8, math.floor(rate_bps))
    burst = max(MIN_BURST_BYTES, math.ceil((burst_bps or rate) * BURST_SECONDS / 8))
    return f"tbf rate {rate}bit burst {burst} latency {LATENCY_SECONDS * 1000:.0f}ms"


def _redirection(interface: str, which: str) -> str:
    return (
        f"filter add dev {interface} {which} protocol ip u32 match u32 0 0 "
        f"action mirred egress redirect dev {which}"
    )


def _way(address: str, hardware: str, interface: str, source: str) -> list[str]:
    """To the neighbour of that address, whose end of the interface has that hardware address."""
    return [
        f"route add {address}/32 dev {interface} src {source} congctl {CONGESTION_CONTROL}",
        f"neigh replace {address} lladdr {hardware} dev {interface} nud permanent",
    ]
