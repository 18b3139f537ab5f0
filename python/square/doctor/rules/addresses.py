"""Advertised addresses that lead elsewhere."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterator

from square.doctor.facts import Attempt, Node, Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words

# What listens there answers, and is not the node that was meant.
_ELSEWHERE = ("other_node", "not_square", "stranger", "other_version", "unresolved", "other")


def is_loopback(address: str) -> bool:
    """Whether only its own host reaches ``host:port``, as far as the text says."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_behind_loopback(node: Node, overlay: Overlay) -> bool:
    """It advertises a loopback address, and there are nodes on other hosts."""
    if node.report is None or len(overlay.networks) < 2:
        return False
    seen_as = [node.address, *(attempt.at for _, attempt in overlay.attempts_at(node.name) if attempt.at)]
    return any(map(is_loopback, seen_as))


def loopback_between_hosts(overlay: Overlay) -> Iterator[Finding]:
    for node in overlay.nodes:
        if not is_behind_loopback(node, overlay):
            continue
        elsewhere = [
            other.name
            for other, report in overlay.reports()
            if node.report is not None and report.network != node.report.network
        ]
        yield Finding(
            Severity.ERROR,
            "address.loopback",
            f"node {node.name}",
            f"it advertises {node.address}, which only its own host reaches, and "
            f"{words.nodes(elsewhere)} {words.plural(elsewhere, 'is', 'are')} on other hosts",
            "start it with --bind 0.0.0.0:PORT --advertise HOST:PORT --identity FOLDER, where HOST is what "
            "other hosts call it",
        )


def somebody_else_answers(overlay: Overlay) -> Iterator[Finding]:
    for node in overlay.nodes:
        if is_behind_loopback(node, overlay):
            continue
        by_outcome: dict[str, list[tuple[Node, Attempt]]] = defaultdict(list)
        for asker, attempt in overlay.attempts_at(node.name):
            if attempt.outcome in _ELSEWHERE:
                by_outcome[attempt.outcome].append((asker, attempt))
        for outcome, attempts in by_outcome.items():
            yield _finding(overlay, node, outcome, attempts)


def _finding(overlay: Overlay, node: Node, outcome: str, attempts: list[tuple[Node, Attempt]]) -> Finding:
    askers = words.nodes([asker.name for asker, _ in attempts])
    address = attempts[0][1].address
    seen, remedy = _words(overlay, node, outcome, attempts[0][1])
    return Finding(
        Severity.ERROR,
        f"address.{outcome}",
        f"port {address} of node {node.name}",
        f"{askers}: {seen}",
        remedy,
    )


def _words(overlay: Overlay, node: Node, outcome: str, attempt: Attempt) -> tuple[str, str]:
    """What was seen, and the remedy."""
    at = attempt.address + (f" ({attempt.at})" if attempt.at not in ("", attempt.address) else "")
    advertise = f"correct what node {node.name} advertises (--advertise), or the port that it binds (--bind)"
    if outcome == "other_node":
        other = overlay.find(attempt.node)
        too = ", which it advertises, too" if other is not None and other.address == attempt.address else ""
        return f"node {attempt.node} answers at {at}{too}", f"{advertise}; each needs a port of its own"
    if outcome == "other_version":
        return (
            f"a node of another protocol answers at {at} ({attempt.words})",
            f"run the same release of Square on node {node.name} as on the others",
        )
    if outcome == "stranger":
        return (
            f"the node at {at} and the others do not believe one another",
            "give every node an identity of one authority and of its own name (`square ca issue`)",
        )
    if outcome == "unresolved":
        host = attempt.address.rpartition(":")[0]
        return (
            f"the host's name {host} is not known",
            f"advertise an IP address or a name that all hosts know, or give {host} to DNS or /etc/hosts",
        )
    if outcome == "not_square":
        return (
            f"another program than Square answers at {at}",
            f"{advertise}; see which program has the port: ss -ltnp",
        )
    return f"the node at {at} refuses links ({attempt.words})", "see the node's log"
