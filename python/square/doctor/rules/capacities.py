"""Links that carry less than the topology or the plan gives them."""

from collections.abc import Iterator

from square.doctor.facts import Connection, Link, MeasuredLink, Overlay, Report
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words

# Of what the pacer lets through.
SLOW = 0.75
# Of the time that was looked at, the receiver may have held the sender back.
HELD = 0.2
REMEDY = "give the topology the capacity that the link has, or see what else uses it"


def slower_than_given(overlay: Overlay) -> Iterator[Finding]:
    """As their nodes have measured."""
    for link in overlay.measured:
        if not _is_slow(link):
            continue
        yield Finding(
            Severity.ERROR,
            "capacity.slow",
            f"link {link.tail} -> {link.head}",
            f"it carries {words.rate(link.measured_bps)} as measured, and the topology says "
            f"{words.rate(link.given_bps)}; the plan counts on {words.rate(link.planned_bps)}",
            REMEDY,
        )


def slower_than_planned(overlay: Overlay) -> Iterator[Finding]:
    """Whose connections had more to send all the time than the network took, where that is not measured."""
    told = {(link.tail, link.head) for link in overlay.measured if _is_slow(link)}
    for node, report in overlay.reports():
        for link in report.links:
            if (node.name, link.peer) in told:
                continue
            connections = _connections(report, link)
            allowed = _allowed(link)
            rate = sum(connection.rate_bps for connection in connections)
            if allowed is None or rate >= SLOW * allowed or not _is_full(report, connections):
                continue
            waiting = sum(connection.waiting_bytes for connection in connections)
            yield Finding(
                Severity.ERROR,
                "capacity.slow",
                f"link {node.name} -> {link.peer}",
                f"it carries {words.rate(rate)}, and the plan counts on {words.rate(allowed)}; "
                f"{words.size(waiting)} waited all the time for the network to take them",
                REMEDY,
            )


def _is_slow(link: MeasuredLink) -> bool:
    return link.measured_bps < SLOW * link.given_bps


def _connections(report: Report, link: Link) -> list[Connection]:
    """To where the peer was found."""
    there = {attempt.at for attempt in report.attempts if attempt.name == link.peer and attempt.has_reached}
    return [connection for connection in report.connections if connection.at in there]


def _is_full(report: Report, connections: list[Connection]) -> bool:
    """All of them: one that waits for another link's receiver says nothing of this one."""
    return bool(connections) and all(
        connection.waiting_bytes > 0 and connection.held_seconds <= HELD * report.processor.seconds
        for connection in connections
    )


def _allowed(link: Link) -> float | None:
    limits = [rate for rate in (link.capacity_bps, link.pace_bps) if rate is not None]
    return min(limits, default=None)
