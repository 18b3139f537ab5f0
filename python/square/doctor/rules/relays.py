"""Relays that lose what they are to pass on, and links that are refused only now and then."""

from collections import defaultdict
from collections.abc import Iterator

from square.doctor.facts import LossyRelay, Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words


def loses_blocks(overlay: Overlay) -> Iterator[Finding]:
    """A relay is named once, however many nodes report it."""
    seen: dict[str, list[tuple[str, LossyRelay]]] = defaultdict(list)
    for node, report in overlay.reports():
        for lossy in report.lossy:
            seen[lossy.relay].append((node.name, lossy))
    for relay, reports in sorted(seen.items()):
        reporters = [reporter for reporter, _ in reports]
        is_certain = any(not lossy.is_way for _, lossy in reports)
        yield Finding(
            Severity.ERROR,
            "relay.loses",
            f"node {relay}" if is_certain else f"the way through node {relay}",
            f"{words.nodes(reporters)} {words.plural(reporters, 'sees', 'see')} that blocks are lost there: "
            f"{reports[0][1].seen}; plans avoid it for a while, then try it again",
            f"restart node {relay}, and see its log and its host"
            + ("" if is_certain else "; it may be a node behind it")
            + "; if it is not yours, take it out of the overlay",
        )


def refused_before(overlay: Overlay) -> Iterator[Finding]:
    """Refused to a node's links, and not to its question: what refuses comes and goes."""
    for node, report in overlay.reports():
        for peer in report.refused:
            if not overlay.has_reached(node.name, peer):
                continue  # the rules of reach tell it
            yield Finding(
                Severity.WARNING,
                "link.refused",
                f"link {node.name} -> {peer}",
                f"connections from {node.name} to {peer} were refused a moment ago, and are not now",
                f"see firewalls between the hosts of {node.name} and {peer}, and the log of {peer}",
            )
