"""Ports that nobody reaches, and links that lead one way only."""

from collections import Counter
from collections.abc import Iterator

from square.doctor.facts import Attempt, Node, Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words
from square.doctor.rules.addresses import is_behind_loopback
from square.doctor.rules.presence import is_mute

_FAILED = {
    "refused": "connections are refused",
    "timed_out": "connections get no answer",
    "unreachable": "the network has no way there",
    "silent": "connections are taken and nobody speaks",
}
_REMEDY = {
    "refused": "nothing listens there: correct --advertise, or forward that port to the one that it binds",
    "timed_out": "correct --advertise, or open the port in the firewall of its host or site",
    "unreachable": "correct --advertise, or the routes between the hosts",
    "silent": "another program may have the port: see ss -ltnp on its host; correct --advertise or --bind",
}

Failure = tuple[Node, Node, Attempt]  # who asked whom


def not_reached(overlay: Overlay) -> Iterator[Finding]:
    """Failures that stand for one fault are told once: an asker's, a target's, then those of pairs."""
    failures = [
        (asker, target, attempt)
        for target in overlay.nodes
        if not is_mute(target) and not is_behind_loopback(target, overlay)
        for asker, attempt in overlay.attempts_at(target.name)
        if attempt.outcome in _FAILED
    ]
    blocked = {asker.name for asker in overlay.nodes if reaches_nobody(asker, overlay)}
    for asker in overlay.nodes:
        if asker.name in blocked:
            yield _asker(asker, overlay, [failure for failure in failures if failure[0] is asker])
    failures = [failure for failure in failures if failure[0].name not in blocked]
    closed: set[str] = set()
    for target in overlay.nodes:
        mine = [failure for failure in failures if failure[1] is target]
        reached = [
            asker
            for asker, attempt in overlay.attempts_at(target.name)
            if attempt.has_reached and asker.name not in blocked
        ]
        if mine and not reached:
            yield _target(target, mine)
            closed.add(target.name)
    yield from _pairs(overlay, [failure for failure in failures if failure[1].name not in closed])


def reaches_nobody(asker: Node, overlay: Overlay) -> bool:
    """All its attempts fail, and others reach several of those whom it asked."""
    attempts = asker.report.attempts if asker.report is not None else ()
    return (
        all(attempt.outcome in _FAILED for attempt in attempts)
        and len(_reached_by_others(asker, overlay)) > 1
    )


def _reached_by_others(asker: Node, overlay: Overlay) -> list[str]:
    asked = asker.report.attempts if asker.report is not None else ()
    return [
        attempt.name
        for attempt in asked
        if any(other.has_reached for node, other in overlay.attempts_at(attempt.name) if node is not asker)
    ]


def _asker(asker: Node, overlay: Overlay, failures: list[Failure]) -> Finding:
    targets = _reached_by_others(asker, overlay)
    outcome = _usual([attempt for _, target, attempt in failures if target.name in targets])
    return Finding(
        Severity.ERROR,
        "reach.outgoing",
        f"node {asker.name}",
        f"it does not reach {words.names(targets)} ({_FAILED[outcome]}), and others do",
        f"let the host of node {asker.name} open connections: see its firewall, its site's, and its routes",
    )


def _usual(attempts: list[Attempt]) -> str:
    """The outcome of most."""
    return Counter(attempt.outcome for attempt in attempts).most_common(1)[0][0]


def _target(target: Node, failures: list[Failure]) -> Finding:
    outcome = _usual([attempt for _, _, attempt in failures])
    askers = [asker.name for asker, _, _ in failures]
    who = words.nodes(askers) if len(askers) == 1 else f"none of {words.nodes(askers)}"
    verb = "does not reach" if len(askers) == 1 else "reaches"
    reached = target.report is not None and any(attempt.has_reached for attempt in target.report.attempts)
    seen = f"{who} {verb} it at {target.address}: {_FAILED[outcome]}"
    if reached:
        seen += f"; node {target.name} itself reaches others, so it runs"
    return Finding(
        Severity.ERROR,
        f"reach.{outcome}",
        f"port {target.address} of node {target.name}",
        seen,
        _REMEDY[outcome],
    )


def _pairs(overlay: Overlay, failures: list[Failure]) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for asker, target, attempt in failures:
        if (asker.name, target.name) in told:
            continue
        is_mutual = any(other is target and to is asker for other, to, _ in failures)
        told.add((asker.name, target.name))
        if is_mutual:
            told.add((target.name, asker.name))
        yield _pair(overlay, asker, target, attempt, is_mutual)


def _pair(overlay: Overlay, asker: Node, target: Node, attempt: Attempt, is_mutual: bool) -> Finding:
    others = [node.name for node, other in overlay.attempts_at(target.name) if other.has_reached]
    firewalls = f"see firewalls and routes between the hosts of {asker.name} and {target.name}"
    if is_mutual:
        first, second = sorted([asker.name, target.name])
        return Finding(
            Severity.ERROR,
            "reach.pair",
            f"links {first} -> {second} and {second} -> {first}",
            f"neither reaches the other ({_FAILED[attempt.outcome]}), and others reach both",
            firewalls,
        )
    seen = f"{asker.name} does not reach {target.name} at {target.address}: {_FAILED[attempt.outcome]}; "
    if overlay.has_reached(target.name, asker.name):
        seen += f"{target.name} reaches {asker.name}: it is one way only; "
    return Finding(
        Severity.ERROR,
        "reach.one_way",
        f"link {asker.name} -> {target.name}",
        f"{seen}{words.nodes(others)} {words.plural(others, 'reaches', 'reach')} {target.name}",
        f"{firewalls}: something drops what {asker.name} sends to {target.address}",
    )
