"""What lets others read, change or stop what is sent: `square doctor --security` tells these alone."""

from collections.abc import Iterator

from square.doctor.facts import Identity, Overlay
from square.doctor.finding import Finding, Severity
from square.doctor.rules import words

PREFIX = "security."
# Of a certificate's life that is left: who renews them by a timer has done so by then.
LITTLE_LIFE = 0.2


def certificates_end(overlay: Overlay) -> Iterator[Finding]:
    """With its certificate's end a node is let in nowhere."""
    for node, report in overlay.reports():
        identity = report.identity
        if identity is None:
            continue
        if identity.trouble:
            yield Finding(
                Severity.ERROR,
                PREFIX + "identity",
                words.nodes([node.name]),
                f"its identity cannot be read any more: {identity.trouble}",
                "restore its folder, or issue a new one with `square ca issue`",
            )
            continue
        if identity.issued is None or identity.expires is None or not identity.name:
            continue
        left = identity.expires - overlay.now
        if left >= LITTLE_LIFE * (identity.expires - identity.issued):
            continue
        yield Finding(
            Severity.ERROR if left <= 0 else Severity.WARNING,
            PREFIX + "certificate",
            words.nodes([node.name]),
            "its certificate has expired" if left <= 0 else f"its certificate expires in {words.time(left)}",
            f"issue a new one with `square ca issue --node {node.name}` into its folder: it is taken up "
            "while the node runs",
        )


def nobody_is_known(overlay: Overlay) -> Iterator[Finding]:
    """Over several hosts without identities."""
    named = [node.name for node, report in overlay.reports() if report.identity is None]
    if not named or len(overlay.networks) < 2:
        return
    yield Finding(
        Severity.WARNING,
        PREFIX + "insecure",
        words.nodes(named),
        f"{words.plural(named, 'has', 'have')} no identity, and the overlay spans several hosts: whoever "
        f"reaches {words.plural(named, 'it', 'them')} reads, changes and is anybody",
        "make an authority with `square ca init`, and start all with --identity",
    )


def blocks_go_unsealed(overlay: Overlay) -> Iterator[Finding]:
    """Relays read what is not sealed; and who seals has no groups with who does not."""
    known = [
        (node.name, report.is_sealed) for node, report in overlay.reports() if _is_signed(report.identity)
    ]
    unsealed = [name for name, is_sealed in known if not is_sealed]
    if not unsealed:
        return
    do_differ = len(unsealed) < len(known)
    yield Finding(
        Severity.ERROR if do_differ else Severity.WARNING,
        PREFIX + "unsealed",
        words.nodes(unsealed),
        f"{words.plural(unsealed, 'seals', 'seal')} no blocks"
        + (
            ", and others do: groups with members at both are refused"
            if do_differ
            else ": relays can read them"
        ),
        f"start {words.plural(unsealed, 'it', 'them')} without --unsealed",
    )


def blocks_are_changed(overlay: Overlay) -> Iterator[Finding]:
    """Of two neighbours that differ one changes blocks; who is in several such pairs is it."""
    for difference in overlay.differences:
        yield Finding(
            Severity.ERROR,
            PREFIX + "changed",
            f"nodes {difference.tail} and {difference.head}",
            f"they differ about {difference.count} blocks that went from the one to the other: one of them "
            "changes blocks, or lies; no member has taken them",
            "revoke who is in several such pairs with `square ca revoke`, or have plans avoid it",
        )


def _is_signed(identity: Identity | None) -> bool:
    return identity is not None and bool(identity.name)
