"""What an examination collected, with names: the reports of docs/doctor.md.

Reports come from nodes that may be of another release: what one does not say is None or empty.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from square._core import ExaminedNode, ExaminedOverlay, OverlayInformation

Value = TypeVar("Value", str, int, float)


def _get(document: Mapping[str, Any], key: str, kind: type[Value]) -> Value | None:
    value = document.get(key)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return kind(value)
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _parts(document: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    value = document.get(key)
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _is_name(value: object) -> bool:
    return isinstance(value, str)


@dataclass(frozen=True)
class Attempt:
    """A node asked a peer at its advertised address."""

    name: str
    address: str = ""
    outcome: str = "reached"
    words: str = ""
    node: str = ""  # who answered there, where it is a node
    at: str = ""  # what the host's name stands for
    round_trip_seconds: float | None = None
    congestion: str = ""

    @property
    def has_reached(self) -> bool:
        return self.outcome == "reached"

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Attempt":
        return Attempt(
            name=_get(document, "name", str) or "",
            address=_get(document, "address", str) or "",
            outcome=_get(document, "outcome", str) or "other",
            words=_get(document, "words", str) or "",
            node=_get(document, "node", str) or "",
            at=_get(document, "at", str) or "",
            round_trip_seconds=_get(document, "round_trip_seconds", float),
            congestion=_get(document, "congestion", str) or "",
        )


@dataclass(frozen=True)
class MeasuredLink:
    """What the controller knows of a link, whose capacity the topology gives; see `square topology`."""

    tail: str
    head: str
    given_bps: float
    planned_bps: float
    measured_bps: float

    @staticmethod
    def read(overlay: OverlayInformation) -> "tuple[MeasuredLink, ...]":
        return tuple(
            MeasuredLink(link.from_node, link.to_node, link.given_bps, link.planned_bps, link.measured_bps)
            for link in overlay.links
            if link.measured_bps > 0 and math.isfinite(link.given_bps)
        )


@dataclass(frozen=True)
class Link:
    """A link that leaves the node; rates None where there is no limit."""

    peer: str
    capacity_bps: float | None = None
    pace_bps: float | None = None
    round_trip_seconds: float | None = None

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Link":
        return Link(
            peer=_get(document, "peer", str) or "",
            capacity_bps=_get(document, "capacity_bps", float),
            pace_bps=_get(document, "pace_bps", float),
            round_trip_seconds=_get(document, "round_trip_seconds", float),
        )


@dataclass(frozen=True)
class LossyRelay:
    """A relay next to the node that loses blocks which it is to pass on, as the node has seen."""

    relay: str
    is_way: bool = False  # or a relay behind it does
    seen: str = ""

    @staticmethod
    def read(document: Mapping[str, Any]) -> "LossyRelay":
        return LossyRelay(
            relay=_get(document, "relay", str) or "",
            is_way=document.get("is_way") is True,
            seen=_get(document, "seen", str) or "",
        )


@dataclass(frozen=True)
class Connection:
    """One of TCP's, while it was looked at."""

    at: str  # the other end
    rate_bps: float = 0.0  # that was acknowledged
    waiting_bytes: int = 0  # that the network did not take, all the time, at the least
    held_seconds: float = 0.0  # for so long the receiver did not

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Connection":
        return Connection(
            at=_get(document, "at", str) or "",
            rate_bps=_get(document, "rate_bps", float) or 0.0,
            waiting_bytes=_get(document, "waiting_bytes", int) or 0,
            held_seconds=_get(document, "held_seconds", float) or 0.0,
        )


@dataclass(frozen=True)
class Processor:
    count: int | None = None
    allowed: int | None = None  # to this process, by its affinity
    quota: float | None = None  # processors that its control group may use
    load: float | None = None  # of the host, over a minute
    running: float | None = None  # on the host at the same time, at the most
    nice: int | None = None
    share: float | None = None  # of a processor, while it computed
    seconds: float = 0.0
    throttled_seconds: float = 0.0

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Processor":
        return Processor(
            count=_get(document, "count", int),
            allowed=_get(document, "allowed", int),
            quota=_get(document, "quota", float),
            load=_get(document, "load", float),
            running=_get(document, "running", float),
            nice=_get(document, "nice", int),
            share=_get(document, "share", float),
            seconds=_get(document, "seconds", float) or 0.0,
            throttled_seconds=_get(document, "throttled_seconds", float) or 0.0,
        )


@dataclass(frozen=True)
class Identity:
    """Whom the node's certificate names; times in seconds since 1970."""

    name: str = ""  # empty: it is known by its fingerprint
    issued: int | None = None
    expires: int | None = None
    trouble: str = ""  # why its files cannot be read any more

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Identity | None":
        if not document:
            return None
        return Identity(
            name=_get(document, "name", str) or "",
            issued=_get(document, "issued", int),
            expires=_get(document, "expires", int),
            trouble=_get(document, "trouble", str) or "",
        )


@dataclass(frozen=True)
class Report:
    """What a node says of itself and its host."""

    version: str = ""
    protocol: int | None = None
    oldest_protocol: int | None = None  # None: it speaks a single one
    host: str = ""
    network: str = ""  # processes with the same one reach one another over the loopback
    open_files: int | None = None
    max_files: int | None = None  # None: no limit, or not known
    memory_available_bytes: int | None = None
    congestion: str = ""
    receive_buffer_bytes: int | None = None  # the largest that TCP takes
    send_buffer_bytes: int | None = None
    processor: Processor = field(default_factory=Processor)
    identity: Identity | None = None
    is_sealed: bool = False
    attempts: tuple[Attempt, ...] = ()
    links: tuple[Link, ...] = ()
    connections: tuple[Connection, ...] = ()
    refused: tuple[str, ...] = ()  # neighbours whose hosts refuse the node's connections
    lossy: tuple[LossyRelay, ...] = ()

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Report":
        host = _part(document, "host")
        descriptors = _part(_part(document, "limits"), "descriptors")
        memory = _part(_part(document, "limits"), "memory")
        network = _part(document, "network")
        troubles = _part(document, "troubles")
        refused = troubles.get("refused")
        return Report(
            version=_get(document, "version", str) or "",
            protocol=_get(document, "protocol", int),
            oldest_protocol=_get(document, "oldest_protocol", int),
            host=_get(host, "name", str) or "",
            network=f"{host.get('boot')} {host.get('network')}",
            open_files=_get(descriptors, "open", int),
            max_files=_get(descriptors, "soft", int),
            memory_available_bytes=_get(memory, "available_bytes", int),
            congestion=_get(network, "congestion", str) or "",
            receive_buffer_bytes=_get(network, "receive_buffer_bytes", int),
            send_buffer_bytes=_get(network, "send_buffer_bytes", int),
            processor=Processor.read(_part(document, "processor")),
            identity=Identity.read(_part(document, "identity")),
            is_sealed=document.get("is_sealed") is True,
            attempts=tuple(map(Attempt.read, _parts(document, "peers"))),
            links=tuple(map(Link.read, _parts(document, "links"))),
            connections=tuple(map(Connection.read, _parts(document, "connections"))),
            refused=tuple(filter(_is_name, refused)) if isinstance(refused, list) else (),
            lossy=tuple(map(LossyRelay.read, _parts(troubles, "lossy"))),
        )


@dataclass(frozen=True)
class Node:
    name: str
    address: str = ""  # as it advertises it; empty: it has never been there
    is_connected: bool = True
    peers: tuple[str, ...] = ()  # whom it was asked to reach
    clock_ahead_seconds: float = 0.0
    clock_doubt_seconds: float = 0.0
    report: Report | None = None  # None: it did not answer

    @staticmethod
    def read(node: ExaminedNode) -> "Node":
        read = Node(
            name=node.name,
            address=node.address,
            is_connected=node.connected,
            peers=tuple(node.peers),
            clock_ahead_seconds=node.clock_ahead_seconds,
            clock_doubt_seconds=node.clock_doubt_seconds,
        )
        if not node.answered:
            return read
        try:
            document = json.loads(node.report_json)
        except ValueError:
            document = {}
        return replace(read, report=Report.read(document if isinstance(document, dict) else {}))


@dataclass(frozen=True)
class Difference:
    """Blocks that the one says to have sent otherwise than the other says to have got them."""

    tail: str
    head: str
    count: int


@dataclass(frozen=True)
class Overlay:
    """All that was found; what rules look at."""

    nodes: tuple[Node, ...] = ()
    version: str = ""  # of the controller
    address: str = ""  # of the controller
    measured: tuple[MeasuredLink, ...] = ()
    differences: tuple[Difference, ...] = ()  # the most frequent first
    now: float = field(default_factory=time.time)  # seconds since 1970

    @staticmethod
    def read(found: ExaminedOverlay, address: str, measured: tuple[MeasuredLink, ...] = ()) -> "Overlay":
        differences = tuple(Difference(one.from_node, one.to_node, one.count) for one in found.suspicions)
        return Overlay(tuple(map(Node.read, found.nodes)), found.version, address, measured, differences)

    def find(self, name: str) -> Node | None:
        return self._by_name.get(name)

    def reports(self) -> Iterator[tuple[Node, Report]]:
        """Of the nodes that answered."""
        return ((node, node.report) for node in self.nodes if node.report is not None)

    def attempts_at(self, name: str) -> list[tuple[Node, Attempt]]:
        """Who asked that node, and what came of it."""
        return self._by_target.get(name, [])

    def has_reached(self, asker: str, target: str) -> bool:
        return any(node.name == asker and attempt.has_reached for node, attempt in self.attempts_at(target))

    @cached_property
    def networks(self) -> frozenset[str]:
        """Hosts, or parts of them with a loopback of their own."""
        return frozenset(report.network for _, report in self.reports())

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _by_target(self) -> dict[str, list[tuple[Node, Attempt]]]:
        found: dict[str, list[tuple[Node, Attempt]]] = defaultdict(list)
        for node, report in self.reports():
            for attempt in report.attempts:
                found[attempt.name].append((node, attempt))
        return dict(found)
