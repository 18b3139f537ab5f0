"""TCP's settings against what links are to carry."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from square.doctor.facts import Link, Node, Overlay, Report
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words

# A link's connections at the most (kMaxChannels), and the part of a buffer that holds payload.
CONNECTIONS = 16
PAYLOAD_PART = 0.5
# Where two are as many, these are the odd ones: they get less, the first the least.
GENTLE = ("reno", "cubic")


@dataclass(frozen=True)
class _Short:
    """A link that a buffer holds back."""

    name: str
    setting: str
    owner: str  # the node whose setting it is
    buffer_bytes: int
    round_trip_seconds: float
    capacity_bps: float

    @property
    def reachable_bps(self) -> float:
        return CONNECTIONS * PAYLOAD_PART * 8 * self.buffer_bytes / self.round_trip_seconds

    @property
    def wanted_bytes(self) -> float:
        return self.buffer_bytes * self.capacity_bps / self.reachable_bps


def small_buffers(overlay: Overlay) -> Iterator[Finding]:
    """A connection carries what its buffers hold in a round trip. One finding for a setting of a node."""
    short: dict[tuple[str, str], list[_Short]] = defaultdict(list)
    for node, report in overlay.reports():
        for link in report.links:
            held_back = _held_back(overlay, node, report, link)
            if held_back is not None:
                short[held_back.owner, held_back.setting].append(held_back)
    for (owner, setting), links in short.items():
        worst = max(links, key=lambda link: link.wanted_bytes)
        more = f" (and {len(links) - 1} more of its links)" if len(links) > 1 else ""
        needed = int(2 * worst.wanted_bytes)
        yield Finding(
            Severity.ERROR,
            "network.buffers",
            f"node {owner}",
            f"its {setting} allows {words.size(worst.buffer_bytes)} a connection: link {worst.name}{more} "
            f"can carry {words.rate(worst.reachable_bps)} over a round trip of "
            f"{words.time(worst.round_trip_seconds)}, the plan counts on {words.rate(worst.capacity_bps)}",
            f"sysctl -w net.ipv4.{setting} there, with {needed} or more for the third number",
        )


def _held_back(overlay: Overlay, node: Node, report: Report, link: Link) -> _Short | None:
    round_trip = _round_trip(report, link)
    peer = overlay.find(link.peer)
    buffers = []
    if report.send_buffer_bytes is not None:
        buffers.append((report.send_buffer_bytes, "tcp_wmem", node.name))
    if peer is not None and peer.report is not None and peer.report.receive_buffer_bytes is not None:
        buffers.append((peer.report.receive_buffer_bytes, "tcp_rmem", peer.name))
    if round_trip is None or link.capacity_bps is None or not buffers:
        return None
    size, setting, owner = min(buffers)
    short = _Short(f"{node.name} -> {link.peer}", setting, owner, size, round_trip, link.capacity_bps)
    return short if short.reachable_bps < link.capacity_bps else None


def _round_trip(report: Report, link: Link) -> float | None:
    asked = [attempt.round_trip_seconds for attempt in report.attempts if attempt.name == link.peer]
    return min((time for time in (link.round_trip_seconds, *asked) if time), default=None)


def congestion_differs(overlay: Overlay) -> Iterator[Finding]:
    """Who yields to others gets less of a bottleneck that they share."""
    used = {node.name: kind for node, report in overlay.reports() if (kind := _congestion(report))}
    if len(set(used.values())) < 2:
        return
    counted = Counter(used.values())
    most = max(counted, key=lambda kind: (counted[kind], kind not in GENTLE, kind != GENTLE[0]))
    for kind in sorted(set(used.values()) - {most}):
        named = [name for name, used_here in used.items() if used_here == kind]
        yield Finding(
            Severity.WARNING,
            "network.congestion",
            words.nodes(named),
            f"{words.plural(named, 'uses', 'use')} TCP's congestion control {kind}, most use {most}: where "
            "they share a bottleneck they do not share it evenly",
            f"sysctl -w net.ipv4.tcp_congestion_control={most} there, and start "
            f"{words.plural(named, 'the node', 'the nodes')} again",
        )


def _congestion(report: Report) -> str:
    """Of most connections that the node opened, for routes may say another one than the system does."""
    seen = Counter(attempt.congestion for attempt in report.attempts if attempt.congestion)
    return seen.most_common(1)[0][0] if seen else report.congestion
