"""What is between the nodes of a run: loopback, or a network of the kernel's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from square._core import Controller, Identity, Scenario
from square.run import namespaces, wiring
from square.run.processes import local_command
from square.run.protocol import ISOLATED, Counted, Join, LinkCounters, Wire

PACE = "pace"
NETNS = "netns"
MODES = (PACE, NETNS)
MACHINES = "machines"  # of their own: no emulation

_DEFAULT_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_LOOPBACK_MTU = Path("/sys/class/net/lo/mtu")


@dataclass(frozen=True)
class NetworkOutcome:
    """What was made, for reports."""

    mode: str
    paced: bool
    mtu_bytes: int | None
    congestion_control: str
    shaped_links: int = 0
    limited_nodes: int = 0

    @property
    def is_shaped(self) -> bool:
        return self.mode == NETNS

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "mode": self.mode,
            "paced": self.paced,
            "mtu_bytes": self.mtu_bytes,
            "congestion_control": self.congestion_control,
        }
        if self.is_shaped:
            document["qdisc"] = {
                "kind": "tbf",
                "rate": "capacity",
                "burst_seconds": wiring.BURST_SECONDS,
                "min_burst_bytes": wiring.MIN_BURST_BYTES,
                "latency_seconds": wiring.LATENCY_SECONDS,
                "links": self.shaped_links,
                "limited_nodes": self.limited_nodes,
            }
        return document


@dataclass(frozen=True)
class Traffic:
    """What the kernel counted on all links while one policy ran."""

    links: tuple[tuple[str, LinkCounters], ...] = ()  # by tail
    retransmitted_segments: int = 0

    @property
    def dropped_packets(self) -> int:
        return sum(link.dropped for _, link in self.links)

    @classmethod
    def of(cls, counts: Mapping[str, Counted]) -> "Traffic":
        links = tuple((tail, link) for tail, counted in counts.items() for link in counted.links)
        return cls(links, sum(counted.retransmitted_segments for counted in counts.values()))

    def to_json(self) -> dict[str, Any]:
        return {
            "dropped_packets": self.dropped_packets,
            "retransmitted_segments": self.retransmitted_segments,
            "links": [
                {
                    "from": tail,
                    "to": link.to,
                    "bytes": link.bytes,
                    "packets": link.packets,
                    "dropped": link.dropped,
                }
                for tail, link in self.links
            ],
        }


class Network(Protocol):
    """Made before the workers start, closed after they ended. Calls may block."""

    @property
    def isolates(self) -> bool:
        """Whether each worker enters a network of its own and is wired."""

    @property
    def shares_clock(self) -> bool:
        """Whether all workers' monotonic clocks are this process's."""

    @property
    def outcome(self) -> NetworkOutcome: ...
    def command(self, node: str) -> list[str]:
        """Of the worker."""

    def wire(self, process_ids: Mapping[str, int]) -> dict[str, Wire]:
        """Makes what is between the workers' networks; what each node has to do in its own."""

    def controller(self, scenario: Scenario) -> Controller: ...
    def join(self, node: str, controller_address: str) -> Join: ...
    def close(self) -> None: ...


@dataclass
class Loopback:
    """Nothing is made: nodes share the machine's loopback and pace themselves."""

    isolates: bool = field(default=False, init=False)
    shares_clock: bool = field(default=True, init=False)

    @property
    def outcome(self) -> NetworkOutcome:
        return NetworkOutcome(
            PACE,
            paced=True,
            mtu_bytes=int(text) if (text := _read(_LOOPBACK_MTU)) else None,
            congestion_control=_read(_DEFAULT_CONGESTION_CONTROL) or "unknown",
        )

    def command(self, node: str) -> list[str]:
        return local_command()

    def wire(self, process_ids: Mapping[str, int]) -> dict[str, Wire]:
        return {}

    def controller(self, scenario: Scenario) -> Controller:
        return Controller(scenario)

    def join(self, node: str, controller_address: str) -> Join:
        return Join(node, controller_address)

    def close(self) -> None:
        pass


class Namespaces:
    """Each worker in a network namespace of its own; veth links that the kernel shapes.

    The controller's socket is in another one. Nothing of the machine's own network changes.
    Raises ``PermissionDeniedError`` or ``FailedPreconditionError`` where that is not possible.
    """

    isolates = True
    shares_clock = True

    def __init__(self, scenario: Scenario, *, paced: bool) -> None:
        namespaces.check_possible()
        self._wiring = wiring.Wiring(scenario.topology)
        self._try()
        self._paced = paced
        # The nodes do not meet on loopback. Their names may be any: all of them have one key.
        self._identity = Identity.make_own()
        self._own = namespaces.Namespace()

    @property
    def outcome(self) -> NetworkOutcome:
        return NetworkOutcome(
            NETNS,
            self._paced,
            wiring.MTU_BYTES,
            namespaces.CONGESTION_CONTROL,
            self._wiring.shaped_links,
            self._wiring.limited_nodes,
        )

    def _try(self) -> None:
        ip, tc = self._wiring.trial()
        trial = namespaces.Namespace()
        try:
            trial.run(lambda: namespaces.run_batch("ip", ip))
            trial.run(lambda: namespaces.run_batch("tc", tc))
        finally:
            trial.close()

    def command(self, node: str) -> list[str]:
        return local_command(ISOLATED)

    def wire(self, process_ids: Mapping[str, int]) -> dict[str, Wire]:
        lines = self._wiring.controller(process_ids)
        self._own.run(lambda: namespaces.run_batch("ip", lines))
        nodes = {node: self._wiring.node(node) for node in process_ids}
        return {node: Wire(made.ip, made.tc, made.neighbours) for node, made in nodes.items()}

    def controller(self, scenario: Scenario) -> Controller:
        bind = f"{wiring.CONTROLLER_ADDRESS}:0"
        return self._own.run(lambda: Controller(scenario, bind_address=bind, identity=self._identity))

    def join(self, node: str, controller_address: str) -> Join:
        bind = f"{self._wiring.address_of(node)}:0"
        return Join(node, controller_address, bind, self._identity.pem, self._paced)

    def close(self) -> None:
        self._own.close()


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
